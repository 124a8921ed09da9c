//! Overflows are reported; everything else that faults is not.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use super::super::{Occupant, StackConfig, install_overflow_handler, stats};
use super::{PROTECTED, Stack, call_on, child, class, isolated, name, stack_pointer};

unsafe fn describe(_: *const Occupant, out: &mut dyn Write) {
    let _ = out.write_str("fiber 'worker' (id 7), spawned at src/main.rs:10:5");
}
static WORKER: Occupant = Occupant { describe };

/// Recurses without end.
#[allow(unconditional_recursion)]
extern "C" fn recurse(depth: usize) {
    let frame = [depth; 64];
    black_box(&frame);
    recurse(depth + 1);
    black_box(&frame);
}

extern "C" fn dereference_null(address: usize) {
    // SAFETY: none: this is the fault that is tested.
    black_box(unsafe { (black_box(address) as *const u8).read_volatile() });
}

/// Runs `body` on a stack of a child process that has our handler.
fn on_a_stack(
    test: &str,
    variables: &[(&str, &str)],
    body: extern "C" fn(usize),
    argument: usize,
) -> Output {
    child(test, variables, || {
        install_overflow_handler();
        let stack = Stack::acquire(class(64 << 10)).unwrap();
        stack.occupy(&WORKER);
        // SAFETY: the body does not return, or has enough stack.
        unsafe { call_on(stack.top(), body, argument) };
    })
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn is_reported(output: &Output) {
    let text = stderr(output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    let report = "\nfiber 'worker' (id 7), spawned at src/main.rs:10:5 has overflowed its stack of 122880 bytes (guard of 4096 bytes)\n";
    let last = "fatal runtime error: stack overflow, aborting\n";
    assert!(text.contains(&format!("{report}{last}")), "{text}");
}

#[track_caller]
fn died_plainly(output: &Output, signal: c_int) {
    let text = stderr(output);
    // A sanitizer's own handler, if there is one, was there before ours. It reports in its own way,
    // and exits.
    let sanitized = cfg!(pirn_asan) && text.contains("ERROR: AddressSanitizer");
    assert!(sanitized || output.status.signal() == Some(signal), "{}: {text}", output.status);
    assert!(!text.contains("has overflowed"), "{text}");
}

#[test]
fn an_overflow_names_the_occupant_the_size_and_the_guard() {
    for variables in [&[] as &[_], PROTECTED] {
        is_reported(&on_a_stack(
            name!(an_overflow_names_the_occupant_the_size_and_the_guard),
            variables,
            recurse,
            0,
        ));
    }
}

#[test]
#[cfg_attr(pirn_asan, ignore = "frames that the sanitizer lays out are not probed")]
fn a_frame_of_a_megabyte_is_caught_by_one_page_of_guard() {
    extern "C" fn large(index: usize) {
        let mut frame = [0u8; 1 << 20];
        frame[black_box(index)] = 1;
        black_box(&frame);
    }
    is_reported(&on_a_stack(
        name!(a_frame_of_a_megabyte_is_caught_by_one_page_of_guard),
        &[],
        large,
        0,
    ));
}

#[test]
fn an_unprobed_frame_is_caught_by_a_guard_that_is_larger() {
    /// Like C without stack probes: far below the stack pointer, in one step.
    extern "C" fn unprobed(distance: usize) {
        let bounds = super::super::bounds_at(stack_pointer()).unwrap();
        let target = black_box(bounds.start - distance) as *mut u8;
        let moved = target.wrapping_sub(4096).addr() & !15;
        // SAFETY: moves the stack pointer below the target and writes there: the fault that is
        // tested.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!("mov rsp, {sp}", "mov byte ptr [{at}], 1", "ud2", sp = in(reg) moved, at = in(reg) target)
        };
        // SAFETY: the same.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!("mov sp, {sp}", "strb wzr, [{at}]", "udf #0", sp = in(reg) moved, at = in(reg) target)
        };
    }
    let test = name!(an_unprobed_frame_is_caught_by_a_guard_that_is_larger);
    // The stack pointer ends up within the guard, and below it.
    for (distance, note) in [("1024", false), ("64000", true)] {
        let output = child(test, &[("PIRN_TEST_DISTANCE", distance)], || {
            install_overflow_handler();
            let class = StackConfig::DEFAULT.with_guard(64 << 10).class().unwrap();
            let stacks: Vec<Stack> = (0..4).map(|_| Stack::acquire(class).unwrap()).collect();
            stacks.iter().for_each(|stack| stack.occupy(&WORKER));
            let distance = std::env::var("PIRN_TEST_DISTANCE").unwrap().parse().unwrap();
            // SAFETY: the body does not return.
            unsafe { call_on(stacks[3].top(), unprobed, distance) };
        });
        let text = stderr(&output);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
        assert!(
            text.contains("has overflowed its stack of 192512 bytes (guard of 65536 bytes)"),
            "{text}"
        );
        assert_eq!(text.contains("its stack pointer is below the guard"), note, "{text}");
    }
}

#[test]
fn an_overflow_on_a_thread_of_a_c_library_is_reported() {
    extern "C" fn thread(_: *mut c_void) -> *mut c_void {
        install_overflow_handler();
        let stack = Stack::acquire(class(64 << 10)).unwrap();
        stack.occupy(&WORKER);
        // SAFETY: the body does not return.
        unsafe { call_on(stack.top(), recurse, 0) };
        std::ptr::null_mut()
    }
    is_reported(&child(name!(an_overflow_on_a_thread_of_a_c_library_is_reported), &[], || {
        let mut id = 0;
        // SAFETY: starts a thread and waits for it.
        unsafe {
            libc::pthread_create(&mut id, std::ptr::null(), thread, std::ptr::null_mut());
            libc::pthread_join(id, std::ptr::null_mut());
        }
    }));
}

#[test]
fn an_overflow_is_reported_with_all_memory_locked() {
    extern "C" fn locked(depth: usize) {
        // SAFETY: no preconditions.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
        recurse(depth);
    }
    is_reported(&on_a_stack(name!(an_overflow_is_reported_with_all_memory_locked), &[], locked, 0));
}

#[test]
fn a_null_dereference_is_not_an_overflow() {
    died_plainly(
        &on_a_stack(name!(a_null_dereference_is_not_an_overflow), &[], dereference_null, 0),
        libc::SIGSEGV,
    );
}

#[test]
fn a_wild_pointer_into_another_stacks_guard_is_not_an_overflow() {
    extern "C" fn wild(_: usize) {
        let other =
            Stack::acquire(StackConfig::DEFAULT.with_size(1 << 20).class().unwrap()).unwrap();
        other.occupy(&WORKER);
        dereference_null(other.bottom().addr() - 8);
    }
    died_plainly(
        &on_a_stack(
            name!(a_wild_pointer_into_another_stacks_guard_is_not_an_overflow),
            &[],
            wild,
            0,
        ),
        libc::SIGSEGV,
    );
}

#[test]
fn a_signal_that_was_sent_is_not_an_overflow_and_still_kills() {
    extern "C" fn send(_: usize) {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) };
        // The handler puts the default action back and sends it again.
        std::thread::sleep(std::time::Duration::from_secs(10));
    }
    died_plainly(
        &on_a_stack(name!(a_signal_that_was_sent_is_not_an_overflow_and_still_kills), &[], send, 0),
        libc::SIGSEGV,
    );
}

#[test]
fn stds_message_for_its_own_threads_still_comes() {
    let output = child(name!(stds_message_for_its_own_threads_still_comes), &[], || {
        install_overflow_handler();
        std::thread::Builder::new()
            .name("ordinary".into())
            .spawn(|| {
                install_overflow_handler();
                recurse(0);
            })
            .unwrap()
            .join()
            .unwrap();
    });
    if cfg!(pirn_asan) {
        // std leaves the signal to the sanitizer's handler.
        assert!(
            stderr(&output).contains("AddressSanitizer: stack-overflow"),
            "{}",
            stderr(&output)
        );
        return;
    }
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("'ordinary'") && stderr(&output).contains("overflowed its stack")
    );
}

/// Sets an action for SIGSEGV before our handler comes.
fn set_action(handler: usize, flags: c_int) {
    let mut action = super::super::overflow::plain_action(handler);
    action.sa_flags = flags;
    // SAFETY: of this process, which is a test's child.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) }, 0);
}

fn after_action(test: &str, handler: usize, flags: c_int, body: extern "C" fn(usize)) -> Output {
    child(test, &[], || {
        set_action(handler, flags);
        install_overflow_handler();
        body(0);
    })
}

#[test]
fn earlier_handlers_get_their_faults_with_their_signature() {
    extern "C" fn plain(signal: c_int) {
        assert_eq!(signal, libc::SIGSEGV);
        std::process::exit(41);
    }
    extern "C" fn with_info(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's pointer, passed on.
        let address = unsafe { (*info).si_addr() };
        assert!(signal == libc::SIGSEGV && address.is_null() && !context.is_null());
        std::process::exit(42);
    }
    let test = name!(earlier_handlers_get_their_faults_with_their_signature);
    for expected in [41, 42] {
        let output = child(test, &[("PIRN_TEST_WHICH", &expected.to_string())], || {
            match std::env::var("PIRN_TEST_WHICH").unwrap().as_str() {
                "41" => set_action(plain as *const () as usize, 0),
                _ => set_action(with_info as *const () as usize, libc::SA_SIGINFO),
            }
            install_overflow_handler();
            dereference_null(0);
        });
        assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
    }
}

#[test]
fn the_default_action_kills_by_the_signal() {
    let test = name!(the_default_action_kills_by_the_signal);
    died_plainly(&after_action(test, libc::SIG_DFL, 0, dereference_null), libc::SIGSEGV);
}

#[test]
fn an_ignored_signal_is_ignored_when_sent_but_not_when_it_is_a_fault() {
    extern "C" fn both(_: usize) {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) };
        eprintln!("still here");
        dereference_null(0);
    }
    let test = name!(an_ignored_signal_is_ignored_when_sent_but_not_when_it_is_a_fault);
    let output = after_action(test, libc::SIG_IGN, 0, both);
    died_plainly(&output, libc::SIGSEGV);
    assert!(stderr(&output).contains("still here"));
}

#[test]
fn an_alternate_stack_of_ours_goes_with_its_thread() {
    extern "C" fn thread(_: *mut c_void) -> *mut c_void {
        install_overflow_handler();
        install_overflow_handler();
        std::ptr::null_mut()
    }
    isolated(name!(an_alternate_stack_of_ours_goes_with_its_thread), &[], || {
        let mut baseline = 0;
        for round in 0..50 {
            let mut id = 0;
            // SAFETY: starts a thread and waits for it.
            unsafe {
                libc::pthread_create(&mut id, std::ptr::null(), thread, std::ptr::null_mut());
                libc::pthread_join(id, std::ptr::null_mut());
            }
            match round {
                5 => baseline = super::mappings(),
                _ if round > 5 => assert!(super::mappings() <= baseline + 2, "round {round}"),
                _ => {}
            }
        }
        assert_eq!(stats().in_use, 0);
    });
}
