//! Switching back and forth: from a plain loop, and from the bottom of a chain of real calls.
//!
//! A return is predicted from a small stack of return addresses that the processor keeps beside
//! the real one. Nobody tells it that the stacks were switched, so after a switch the predictions
//! belong to the other side. When the two sides stand in *different* frames, every frame that was
//! entered before the switch and left after it is mispredicted, whatever the switch does. When
//! they stand in the *same* frames, the predictions are right by value, but only if the switch
//! itself pushed and popped nothing.
//!
//! All contenders go through the functions here, so call for call they do the same. Every type of
//! [`Step`] has its own copy of them; two sides of one type, such as [`Side`], share their frames.

use std::hint::black_box;

use crate::measure::Sample;

/// One end of a coroutine.
pub trait Step {
    /// Switches to the other end; returns when that has switched back.
    fn step(&mut self);
}

/// Both ends of a coroutine as one type, for the same frames on both sides.
pub enum Side<R, I> {
    Resumer(R),
    Inside(I),
}

impl<R: Step, I: Step> Step for Side<R, I> {
    #[inline(always)]
    fn step(&mut self) {
        match self {
            Side::Resumer(end) => end.step(),
            Side::Inside(end) => end.step(),
        }
    }
}

/// Times about `wish` one-way switches, the resuming side being a plain loop.
#[inline(always)]
pub fn time_in_loop(mut resumer: impl Step, wish: u64) -> Sample {
    let steps = wish.div_ceil(2);
    Sample::time(steps * 2, || {
        for _ in 0..steps {
            resumer.step();
        }
    })
}

/// Times about `wish` one-way switches, the resuming side being eight frames deep.
pub fn time_in_depth(mut resumer: impl Step, wish: u64) -> Sample {
    let steps = wish.div_ceil(2);
    Sample::time(steps * 2, || drive(&mut resumer, steps))
}

/// Steps for ever from the body of a coroutine.
#[inline(always)]
pub fn loop_forever(mut inside: impl Step) -> ! {
    loop {
        inside.step();
    }
}

/// Steps for ever from eight frames below the body of a coroutine.
pub fn drive_forever(mut inside: impl Step) -> ! {
    loop {
        drive(&mut inside, u64::MAX);
    }
}

/// Takes `steps` steps, each from eight frames below this one.
#[inline(never)]
fn drive<S: Step>(side: &mut S, steps: u64) {
    for _ in 0..steps {
        call_1(side);
    }
}

/// A function that only calls the next one of the chain. They are eight functions and not one that
/// recurses, because then all frames would return to one address, and predictions that are off by
/// a frame would come true by accident.
macro_rules! chain {
    ($($caller:ident calls $callee:ident,)*) => {$(
        #[inline(never)]
        fn $caller<S: Step>(side: &mut S) {
            $callee(side);
            // Something to do afterwards keeps call and return from becoming a jump.
            black_box(());
        }
    )*};
}

chain! {
    call_1 calls call_2,
    call_2 calls call_3,
    call_3 calls call_4,
    call_4 calls call_5,
    call_5 calls call_6,
    call_6 calls call_7,
    call_7 calls call_8,
}

#[inline(never)]
fn call_8<S: Step>(side: &mut S) {
    side.step();
    black_box(());
}
