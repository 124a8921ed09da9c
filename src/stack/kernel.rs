//! The few system calls that this floor is made of, and what it must know about the machine.

use core::ffi::{CStr, c_int};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::annotate;

/// `MADV_GUARD_INSTALL`, Linux 6.13: libc does not name it yet everywhere.
pub(super) const MADV_GUARD_INSTALL: c_int = 102;
/// `PIDFD_SELF_THREAD_GROUP`, Linux 6.14: "this process" without opening a descriptor. After `fork`
/// it means the child, where an opened one would still mean the parent.
const PIDFD_SELF: c_int = -10001;

/// Bytes of a page: 4 KiB usually; 16 or 64 KiB on some AArch64 kernels.
#[inline]
pub(super) fn page_size() -> usize {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a constant of the machine; asking twice does no harm.
    match PAGE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: no preconditions.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            PAGE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// Bytes that the kernel needs to deliver a signal on a stack: it depends on the processor's vector
/// registers.
pub(super) fn signal_frame() -> usize {
    /// Before Linux 5.14 (x86-64) the kernel does not tell.
    const UNKNOWN: usize = 4096;
    // SAFETY: no preconditions.
    (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(UNKNOWN)
}

/// The least usable bytes of any stack: a signal frame and as much again for code.
pub(super) fn least_stack() -> usize {
    signal_frame() + 4096
}

/// The calling thread's `errno`.
pub(super) fn errno() -> c_int {
    // SAFETY: libc's errno location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Reserves `len` bytes of zeroed, lazily committed, small-paged memory; `Err(errno)` when refused.
pub(super) fn reserve(len: usize) -> Result<*mut u8, c_int> {
    const FLAGS: c_int =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let base = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return Err(errno());
    }
    // One huge page would make sixteen stacks resident at the first touch. Kernels without huge
    // pages say EINVAL, which is as good.
    // SAFETY: the mapping was just made; the advice does not change its contents.
    unsafe { libc::madvise(base, len, libc::MADV_NOHUGEPAGE) };
    Ok(base.cast())
}

/// Makes sure that `len` more bytes could be had for other purposes; `Err(errno)` if not.
pub(super) fn check_headroom(len: usize) -> Result<(), c_int> {
    const FLAGS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let probe = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0)
    };
    if probe == libc::MAP_FAILED {
        return Err(errno());
    }
    // SAFETY: `probe` was just mapped and is known to nobody.
    unsafe { libc::munmap(probe, len) };
    Ok(())
}

/// Unmaps what [`reserve`] returned. It can fail when the kernel would have to split a mapping and
/// may not.
///
/// # Safety
///
/// Nobody uses these bytes any more.
pub(super) unsafe fn unreserve(base: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's contract.
    unsafe { libc::munmap(base.cast(), len) == 0 }
}

/// Makes a range inaccessible for good; `Err(errno)` when refused.
///
/// # Safety
///
/// The range is whole pages of a reservation, and holds nothing of value.
pub(super) unsafe fn protect(start: *mut u8, len: usize) -> Result<(), c_int> {
    // SAFETY: the caller's contract.
    match unsafe { libc::mprotect(start.cast(), len, libc::PROT_NONE) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Applies one advice to many ranges, in one system call where the kernel can do that.
///
/// Returns how many ranges were done, and the error that stopped it if that was not all.
///
/// # Safety
///
/// The ranges are whole pages of reservations and hold nothing of value.
pub(super) unsafe fn advise(ranges: &[libc::iovec], advice: c_int) -> (usize, c_int) {
    let mut done = 0;
    // Valgrind does not know the call, and complains.
    if ranges.len() > 1 && !annotate::on_valgrind() {
        // SAFETY: the slice describes whole pages of this process, by the caller's contract.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                PIDFD_SELF,
                ranges.as_ptr(),
                ranges.len(),
                advice,
                0,
            )
        };
        // The kernel tells how many bytes it has done before it stopped. A range done by half is
        // done again.
        let mut left = bytes.max(0) as usize;
        while let Some(range) = ranges.get(done).filter(|range| range.iov_len <= left) {
            left -= range.iov_len;
            done += 1;
        }
    }
    // Kernels that cannot (before 6.13 for these advices, before 6.14 for `PIDFD_SELF`), and
    // sandboxes that forbid it.
    for range in &ranges[done..] {
        // SAFETY: as above.
        if unsafe { libc::madvise(range.iov_base, range.iov_len, advice) } != 0 {
            return (done, errno());
        }
        done += 1;
    }
    (done, 0)
}

/// The address of the lowest resident page between `start` (page-aligned) and `end`.
pub(super) fn lowest_resident(start: *mut u8, end: *mut u8) -> Option<usize> {
    const PAGES: usize = 256;
    let page = page_size();
    let mut at = start;
    while at < end {
        let mut resident = [0u8; PAGES];
        let len = (end.addr() - at.addr()).min(PAGES * page);
        // SAFETY: `mincore` writes one byte a page, and `len` is at most `PAGES` pages.
        if unsafe { libc::mincore(at.cast(), len, resident.as_mut_ptr()) } != 0 {
            return None;
        }
        if let Some(first) = resident[..len.div_ceil(page)].iter().position(|byte| byte & 1 != 0) {
            return Some(at.addr() + first * page);
        }
        at = at.wrapping_add(len);
    }
    None
}

/// The first number in a file of /proc. Without allocation: memory may be what is missing.
pub(super) fn read_number(path: &CStr) -> Option<usize> {
    let mut buffer = [0u8; 64];
    let mut number = None;
    let len = File::open(path)?.read(&mut buffer)?;
    for byte in &buffer[..len] {
        match byte {
            b'0'..=b'9' => number = Some(number.unwrap_or(0) * 10 + usize::from(byte - b'0')),
            _ => break,
        }
    }
    number
}

/// How many memory mappings this process has.
pub(super) fn count_mappings() -> Option<usize> {
    let mut buffer = [0u8; 4096];
    let mut count = 0;
    let file = File::open(c"/proc/self/maps")?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Some(count),
            len => count += buffer[..len].iter().filter(|&&byte| byte == b'\n').count(),
        }
    }
}

/// An open file, closed when dropped.
struct File(c_int);

impl File {
    fn open(path: &CStr) -> Option<File> {
        // SAFETY: a C string, and no other preconditions.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (fd >= 0).then_some(File(fd))
    }

    fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the buffer is valid for writing its length.
        usize::try_from(unsafe { libc::read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) })
            .ok()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(self.0) };
    }
}
