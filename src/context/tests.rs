use std::cell::Cell;
use std::sync::Mutex;

use super::*;

/// Two sides of a ping-pong over the hot path, in the order that a coroutine's control block has.
#[repr(C)]
struct Pair {
    there: Context,
    here: Context,
    rounds: Cell<usize>,
}

unsafe extern "C" fn bounce(block: *mut u8, mut word: Word, mut tag: usize) -> ! {
    // SAFETY: the block is the `Pair` that `ping_pong` made.
    unsafe {
        let pair = block.cast::<Pair>();
        loop {
            (*pair).rounds.set((*pair).rounds.get() + 1);
            let sum = word.assume_init().addr() + tag;
            let back = Word::new(core::ptr::without_provenance_mut(sum));
            (word, tag) = switch(&raw mut (*pair).there, &raw const (*pair).here, back, tag * 2);
        }
    }
}

/// A stack that is kept for ever: what is suspended on it never ends.
fn keep_stack(size: usize) -> *mut u8 {
    static KEPT: Mutex<Vec<Vec<u128>>> = Mutex::new(Vec::new());
    let mut stack = vec![0u128; size / 16];
    let top = stack.as_mut_ptr_range().end.cast();
    KEPT.lock().unwrap().push(stack);
    top
}

fn new_pair() -> *mut Pair {
    let top = keep_stack(64 << 10);
    // SAFETY: the stack is ours; the block is aligned and lies within it.
    unsafe {
        let pair = top.sub(256).map_addr(|address| address & !63).cast::<Pair>();
        pair.write(Pair { here: Context::empty(), there: Context::empty(), rounds: Cell::new(0) });
        (*pair).there = Context::new(pair.cast(), bounce);
        pair
    }
}

#[test]
fn words_and_tags_cross_both_ways() {
    let pair = new_pair();
    for n in 0..1_000 {
        let word = Word::new(core::ptr::without_provenance_mut(n));
        // SAFETY: the other side is fresh, or suspended in `bounce`.
        let (word, tag) =
            unsafe { switch(&raw mut (*pair).here, &raw const (*pair).there, word, 7) };
        // SAFETY: `bounce` always sends a defined word.
        assert_eq!((unsafe { word.assume_init() }.addr(), tag), (n + 7, 14));
    }
    // SAFETY: suspended.
    assert_eq!(unsafe { (*pair).rounds.get() }, 1_000);
}

#[test]
fn every_place_that_is_jumped_to_begins_with_a_landing_pad() {
    let pair = new_pair();
    // SAFETY: the pair is alive, and prepared by `new_pair`.
    let fresh = unsafe { (*pair).there.pc() };
    // SAFETY: fresh.
    unsafe {
        switch(
            &raw mut (*pair).here,
            &raw const (*pair).there,
            Word::new(core::ptr::null_mut()),
            0,
        );
    }
    // SAFETY: the switch above has saved both sides.
    let (suspended, resumed) = unsafe { ((*pair).there.pc(), (*pair).here.pc()) };
    let entries = [pirn_ctx_entry as *const u8, pirn_coroutine_entry as *const u8];
    for target in [fresh, suspended, resumed].into_iter().chain(entries) {
        // SAFETY: code is readable.
        let first = unsafe { target.cast::<u32>().read_unaligned() };
        let pads: &[u32] = if cfg!(target_arch = "x86_64") {
            &[u32::from_le_bytes([0xf3, 0x0f, 0x1e, 0xfa])] // endbr64
        } else {
            &[0xd503_249f, 0xd503_24df] // bti j, bti jc
        };
        assert!(pads.contains(&first), "{first:#x} at {target:?}");
    }
}

#[test]
fn a_new_stack_is_entered_with_the_alignment_that_the_abi_asks_for() {
    unsafe extern "C" fn report(block: *mut u8, _: Word, _: usize) -> ! {
        let local = 0u128;
        let aligned = (&raw const local).addr().is_multiple_of(16);
        // SAFETY: the block is a `Pair`.
        unsafe {
            let pair = block.cast::<Pair>();
            switch(&raw mut (*pair).there, &raw const (*pair).here, Word::uninit(), aligned.into());
        }
        unreachable!()
    }
    let (fiber, coroutine) = (new_pair(), new_pair());
    // SAFETY: both are fresh.
    unsafe {
        (*fiber).there = Context::new(fiber.cast(), report);
        let (there, here) = (&raw const (*fiber).there, &raw mut (*fiber).here);
        assert_eq!(switch(here, there, Word::uninit(), 0).1, 1);
        let here = &raw mut (*coroutine).here;
        assert_eq!(start(here, coroutine.cast(), report, Word::uninit(), 0).1, 1);
    }
}

mod reference {
    use super::*;

    struct Sides {
        main: StackPointer,
        other: StackPointer,
        seen: Vec<u32>,
    }

    unsafe extern "C" fn other(sides: *mut u8) -> ! {
        let sides = sides.cast::<Sides>();
        let mut count = 0;
        loop {
            // SAFETY: `main` waits in its switch.
            unsafe {
                (*sides).seen.push(count);
                count += 1;
                ctx_switch(&raw mut (*sides).other, &raw const (*sides).main);
            }
        }
    }

    #[test]
    fn it_goes_there_and_back_and_keeps_locals() {
        let mut sides =
            Sides { main: StackPointer::empty(), other: StackPointer::empty(), seen: Vec::new() };
        let sides = &raw mut sides;
        // An odd top: it is rounded down.
        let top = keep_stack(64 << 10).wrapping_sub(7);
        // SAFETY: the stack is ours; both sides stay on this thread.
        unsafe {
            (*sides).other = StackPointer::prepare(top, other, sides.cast());
            for _ in 0..5 {
                ctx_switch(&raw mut (*sides).main, &raw const (*sides).other);
            }
            assert_eq!((*sides).seen, [0, 1, 2, 3, 4]);
        }
    }
}

#[test]
fn control_words_are_read_back_as_they_were_loaded() {
    let before = FloatControl::save();
    // SAFETY: nothing is computed in between.
    let read = unsafe {
        FloatControl::DEFAULT.load();
        let read = FloatControl::save();
        before.load();
        read
    };
    assert_eq!(read, FloatControl::DEFAULT);
}
