//! Promises of this floor. What concerns the whole process is tried in a child process of its own.

mod limits;
mod overflow;
mod pool;
mod sizes;

use std::process::{Command, Output};

use super::{SizeClass, Stack, StackConfig};

/// Set for a child to the name of the test whose body it runs.
const CHILD: &str = "PIRN_STACK_TEST_CHILD";

/// Runs `body` in a child process, with variables set in its environment, and returns how that
/// ended.
///
/// `test` is the calling test's full name (see `name!`): the child is this test program again,
/// running only it.
fn child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Output {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        body();
        std::process::exit(0);
    }
    let program = std::env::current_exe().unwrap();
    let run = |mut command: Command| {
        command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, test).envs(variables.iter().copied()).output()
    };
    let has_run =
        |output: &Output| String::from_utf8_lossy(&output.stdout).contains("running 1 test");
    if let Ok(output) = run(Command::new(&program))
        && has_run(&output)
    {
        return output;
    }
    // This program is for another processor, and the emulator that runs it has to run the child as
    // well.
    let runner = std::env::var("PIRN_TEST_RUNNER")
        .unwrap_or("qemu-aarch64 -L /usr/aarch64-linux-gnu".into());
    let mut words = runner.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(&program);
    let output = run(command).unwrap();
    assert!(has_run(&output), "{test} cannot be run, or there is no such test: {output:?}");
    output
}

/// Whether limits and figures of memory mean what they say.
///
/// User-mode emulators do not apply all resource limits, and their own memory counts as ours; they
/// are known by the kernel's variables missing in the map that they show. The sanitizers' shadows
/// are larger than any limit.
fn is_native() -> bool {
    !cfg!(any(pirn_asan, pirn_tsan))
        && std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vvar"))
}

/// The stack pointer of the calling function, or a little below it.
#[inline(always)]
fn stack_pointer() -> usize {
    let sp: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {sp}, rsp", sp = out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("mov {sp}, sp", sp = out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    sp
}

/// Runs `body` in a child process and fails unless it ends well.
fn isolated(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let output = child(test, variables, body);
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test} {variables:?}: {}\n{text}", output.status);
    if let Some(at) = text.find("SKIPPED") {
        eprintln!("{test}: {}", text[at..].lines().next().unwrap());
    }
}

/// The full name of a test in the calling module, as the test program knows it.
macro_rules! name {
    ($test:ident) => {
        concat!(module_path!(), "::", stringify!($test)).split_once("::").unwrap().1
    };
}
use name;

/// Forces guards by `mprotect`.
const PROTECTED: &[(&str, &str)] = &[("PIRN_GUARD", "mprotect")];

fn class(size: usize) -> SizeClass {
    StackConfig::DEFAULT.with_size(size).class().unwrap()
}

/// Writes to a stack's first and last `len` usable bytes.
fn touch(stack: &Stack, len: usize) {
    // SAFETY: both ranges are usable bytes of a stack that is owned.
    unsafe {
        stack.bottom().write_bytes(0xA5, len);
        stack.top().sub(len).write_bytes(0x5A, len);
    }
}

/// Whether a byte can be read, found out without a fault.
fn is_readable(address: *const u8) -> bool {
    let word = (address.addr() & !7) as *const u8;
    let mut copy = [0u8; 8];
    let mut pipe = [0; 2];
    // SAFETY: the kernel copies eight bytes into a pipe and back, or says that it cannot.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let written = libc::write(pipe[1], word.cast(), 8);
        if written == 8 {
            libc::read(pipe[0], copy.as_mut_ptr().cast(), 8);
        }
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        written == 8
    }
}

/// Without pages of files, such as the code of the program, which come as it runs. Counted page by
/// page: the figure in `statm` may lag behind by some pages for every processor.
fn resident_bytes() -> usize {
    let totals = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let resident = totals.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    resident.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() << 10
}

fn mappings() -> usize {
    super::kernel::count_mappings().unwrap()
}

/// Calls `body` on a stack.
///
/// # Safety
///
/// `top` is the upper end of memory that is large enough, and `body` does not unwind.
unsafe fn call_on(top: *mut u8, body: extern "C" fn(usize), argument: usize) {
    assert_eq!(top.addr() % 64, 0);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the stack pointer is kept in a register that the callee preserves, and put back.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp", "mov rsp, {top}", "call {body}", "mov rsp, r12",
            top = in(reg) top, body = in(reg) body, in("rdi") argument, out("r12") _, clobber_abi("C"),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mov x20, sp", "mov sp, {top}", "blr {body}", "mov sp, x20",
            top = in(reg) top, body = in(reg) body, in("x0") argument, out("x20") _, clobber_abi("C"),
        );
    }
}
