//! Setting the wall clock moves no deadline.
//!
//! This program has a `clock_gettime` of its own, which goes before the C library's: it can set the
//! wall clock, for this process alone.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use pirn::thread;
use pirn::time::{Duration, Instant, Timer};

/// By how many seconds the wall clock has been set forward.
static JUMP: AtomicI64 = AtomicI64::new(0);

/// # Safety
///
/// `time` must be valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    // SAFETY: as the C library does; the caller's pointer is valid.
    unsafe {
        let result = libc::syscall(libc::SYS_clock_gettime, clock, time);
        if clock == libc::CLOCK_REALTIME && result == 0 {
            (*time).tv_sec += JUMP.load(Ordering::Relaxed);
        }
        result as libc::c_int
    }
}

#[test]
fn setting_the_wall_clock_moves_no_deadline() {
    let duration = Duration::from_millis(50);
    for hours in [1, -1] {
        let waits: [fn(Duration); 4] = [
            thread::sleep,
            thread::park_timeout,
            |duration| Timer::after(duration).wait(),
            |duration| thread::sleep_until(Instant::now() + duration),
        ];
        for on_a_fiber in [true, false] {
            for wait in waits {
                while !is_set_during(duration, hours * 3_600, || {
                    if on_a_fiber {
                        pirn::run(|| wait(duration));
                    } else {
                        wait(duration);
                    }
                }) {}
            }
        }
    }
}

/// Runs `wait`, which must take `duration`, while another thread sets the wall clock forward by
/// `jump` seconds. Whether that happened in time: a thread that came late has tested nothing.
fn is_set_during(duration: Duration, jump: i64, wait: impl FnOnce()) -> bool {
    let wall = SystemTime::now();
    let before = JUMP.load(Ordering::Relaxed);
    let start = Instant::now();
    let setter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        JUMP.store(before + jump, Ordering::Relaxed);
    });
    wait();
    let waited = start.elapsed();
    let in_time = JUMP.load(Ordering::Relaxed) != before;
    assert!(waited >= duration && waited < Duration::from_secs(60), "{waited:?}");
    setter.join().unwrap();
    // The clock was set indeed.
    let moved = match SystemTime::now().duration_since(wall) {
        Ok(forward) => forward.as_secs() as i64,
        Err(back) => -(back.duration().as_secs() as i64),
    };
    assert!((moved - jump).abs() < 60, "{moved} s");
    in_time
}
