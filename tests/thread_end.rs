//! Coroutines that are left over when their OS thread ends.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;

use pirn::coroutine::CoroutineState::Yield;
use pirn::coroutine::{Coroutine, Suspender};

std::thread_local! {
    static KEPT: RefCell<Option<Coroutine<(), (), ()>>> = const { RefCell::new(None) };
}

/// Sends what its closure finds when dropped.
struct Tells<T, F: Fn() -> T>(Sender<T>, F);

impl<T, F: Fn() -> T> Drop for Tells<T, F> {
    fn drop(&mut self) {
        self.0.send((self.1)()).unwrap();
    }
}

#[test]
fn a_coroutine_kept_in_a_thread_local_is_unwound_on_its_thread_when_that_ends() {
    let (tell, told) = channel::<ThreadId>();
    let owner = std::thread::spawn(move || {
        let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
            let _tells = Tells(tell, || std::thread::current().id());
            s.suspend(());
        });
        assert_eq!(coroutine.resume(()), Ok(Yield(())));
        KEPT.set(Some(coroutine));
        std::thread::current().id()
    });
    let owner = owner.join().unwrap();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), [owner]);
}

#[test]
fn a_coroutine_kept_in_a_thread_local_still_has_the_fiber_local_that_it_borrows() {
    pirn::thread_local!(static TEXT: RefCell<String> = RefCell::new("warp and weft".repeat(10)));
    for kept_first in [false, true] {
        let (tell, told) = channel::<usize>();
        let owner = std::thread::spawn(move || {
            if kept_first {
                KEPT.with(|_| ());
            }
            let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                TEXT.with(|text| {
                    let _tells = Tells(tell, || text.borrow().matches("weft").count());
                    s.suspend(());
                });
            });
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            KEPT.set(Some(coroutine));
        });
        owner.join().unwrap();
        assert_eq!(told.into_iter().collect::<Vec<_>>(), [10]);
    }
}

#[test]
fn a_destructor_of_a_thread_local_may_make_and_resume_coroutines() {
    struct Weaves(Cell<Option<Sender<u32>>>);
    impl Drop for Weaves {
        fn drop(&mut self) {
            let Some(tell) = self.0.take() else { return };
            let numbers = Coroutine::new(|s: &Suspender<(), u32>, ()| {
                (0..3).for_each(|n| s.suspend(n));
            });
            numbers.for_each(|n| tell.send(n).unwrap());
        }
    }
    std::thread_local!(static WEAVES: Weaves = const { Weaves(Cell::new(None)) });
    let (tell, told) = channel();
    let owner = std::thread::spawn(move || {
        WEAVES.with(|weaves| weaves.0.set(Some(tell)));
        // What this thread has of pool and signal stack is destroyed before the local above.
        Coroutine::new(|_: &Suspender<(), ()>, ()| ()).resume(()).unwrap();
    });
    owner.join().unwrap();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}
