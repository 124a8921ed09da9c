//! Why a stack could not be had: which limit, what it is set to, and what to do about it.

use core::ffi::c_int;
use core::fmt;
use std::error::Error;
use std::io;

use super::depot::{Refusal, Step};
use super::{SizeClass, kernel};

/// A stack could not be created.
///
/// Stacks that exist are not affected, and creating one succeeds again once stacks have come back
/// or the limit was raised. Sizes are in bytes.
///
/// ```
/// use pirn::stack::StackError;
///
/// fn advice(error: &StackError) -> &'static str {
///     match error {
///         StackError::Mappings { .. } => "raise vm.max_map_count",
///         StackError::AddressSpace { .. } => "ask for smaller stacks",
///         _ => "release something",
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// More was asked for than any machine could give.
    #[non_exhaustive]
    TooLarge {
        /// The stack size asked for.
        size: usize,
        /// The guard size asked for.
        guard: usize,
        /// The most that either may be.
        limit: usize,
    },
    /// The program asked for too many different combinations of stack and guard size.
    #[non_exhaustive]
    TooManyKinds {
        /// The stack size asked for.
        size: usize,
        /// The guard size asked for.
        guard: usize,
        /// How many combinations there may be.
        limit: usize,
    },
    /// The process has as many memory mappings as `vm.max_map_count` allows.
    ///
    /// Where guards are made by `mprotect` each stack takes two; see
    /// [`GuardKind`](super::GuardKind).
    #[non_exhaustive]
    Mappings {
        /// Size of the stack.
        size: usize,
        /// Size of its guard.
        guard: usize,
        /// How many mappings the process has.
        used: usize,
        /// The value of `vm.max_map_count`.
        limit: usize,
        /// The error of the operating system.
        os_error: i32,
    },
    /// There is no room left in the address space.
    #[non_exhaustive]
    AddressSpace {
        /// Size of the stack.
        size: usize,
        /// Size of its guard.
        guard: usize,
        /// Bytes of address space in use.
        used: usize,
        /// The resource limit (`RLIMIT_AS`, `ulimit -v`) in bytes; `None` if there is none.
        limit: Option<usize>,
        /// The error of the operating system.
        os_error: i32,
    },
    /// All memory of the process is locked (`mlockall`), and no more may be.
    #[non_exhaustive]
    LockedMemory {
        /// Size of the stack.
        size: usize,
        /// Size of its guard.
        guard: usize,
        /// The resource limit (`RLIMIT_MEMLOCK`, `ulimit -l`) in bytes; `None` if there is none.
        limit: Option<usize>,
        /// The error of the operating system.
        os_error: i32,
    },
    /// The kernel has no memory for it.
    #[non_exhaustive]
    Memory {
        /// Size of the stack.
        size: usize,
        /// Size of its guard.
        guard: usize,
        /// Whether the kernel promises only what it has (`vm.overcommit_memory = 2`), so that
        /// reserved counts as used.
        strict: bool,
        /// The error of the operating system.
        os_error: i32,
    },
}

impl StackError {
    /// The operating system's error number, if it was asked at all.
    pub fn raw_os_error(&self) -> Option<i32> {
        match *self {
            StackError::TooLarge { .. } | StackError::TooManyKinds { .. } => None,
            StackError::Mappings { os_error, .. }
            | StackError::AddressSpace { os_error, .. }
            | StackError::LockedMemory { os_error, .. }
            | StackError::Memory { os_error, .. } => Some(os_error),
        }
    }

    fn sizes(&self) -> (usize, usize) {
        match *self {
            StackError::TooLarge { size, guard, .. }
            | StackError::TooManyKinds { size, guard, .. }
            | StackError::Mappings { size, guard, .. }
            | StackError::AddressSpace { size, guard, .. }
            | StackError::LockedMemory { size, guard, .. }
            | StackError::Memory { size, guard, .. } => (size, guard),
        }
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, guard) = self.sizes();
        write!(f, "cannot create a stack of {size} bytes with a guard of {guard} bytes: ")?;
        match self {
            StackError::TooLarge { limit, .. } => {
                write!(f, "neither may be larger than {limit} bytes")?
            }
            StackError::TooManyKinds { limit, .. } => write!(
                f,
                "the program already uses {limit} other combinations of sizes, none of which would do"
            )?,
            StackError::Mappings { used, limit, .. } => write!(
                f,
                "the process has {used} memory mappings and vm.max_map_count allows {limit}; raise it with sysctl"
            )?,
            StackError::AddressSpace { used, limit: Some(limit), .. } => write!(
                f,
                "{used} bytes of address space are in use and the resource limit RLIMIT_AS (ulimit -v) allows {limit}"
            )?,
            StackError::AddressSpace { used, limit: None, .. } => {
                write!(f, "the address space is exhausted, with {used} bytes in use")?
            }
            StackError::LockedMemory { limit: Some(limit), .. } => write!(
                f,
                "memory is locked and the resource limit RLIMIT_MEMLOCK (ulimit -l) allows {limit} bytes of it"
            )?,
            StackError::LockedMemory { limit: None, .. } => {
                write!(f, "no more memory can be locked")?
            }
            StackError::Memory { strict: true, .. } => write!(
                f,
                "the kernel does not promise more memory than it has (vm.overcommit_memory is 2)"
            )?,
            StackError::Memory { strict: false, .. } => {
                write!(f, "the kernel has no memory for it")?
            }
        }
        match self.raw_os_error() {
            Some(number) => write!(f, " ({})", io::Error::from_raw_os_error(number)),
            None => Ok(()),
        }
    }
}

impl Error for StackError {}

impl From<StackError> for io::Error {
    fn from(error: StackError) -> io::Error {
        let kind = match error {
            StackError::TooLarge { .. } | StackError::TooManyKinds { .. } => {
                io::ErrorKind::InvalidInput
            }
            _ => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, error)
    }
}

/// Finds out which limit a refusal is due to.
///
/// The kernel says "cannot allocate memory" to nearly everything, so the limits are compared with
/// what is in use.
pub(super) fn explain(class: SizeClass, refusal: Refusal) -> StackError {
    /// How near to the limit counts as having hit it: an operation takes up to two mappings, and
    /// other threads go on.
    const NEAR: usize = 4;
    let guard = class.guard_size();
    let size = class.slot_size() - guard;
    let os_error = refusal.errno;
    if os_error == libc::EAGAIN {
        return StackError::LockedMemory {
            size,
            guard,
            limit: resource_limit(libc::RLIMIT_MEMLOCK),
            os_error,
        };
    }
    if let (Some(used), Some(limit)) =
        (kernel::count_mappings(), kernel::read_number(c"/proc/sys/vm/max_map_count"))
        && used + NEAR >= limit
    {
        return StackError::Mappings { size, guard, used, limit, os_error };
    }
    let strict = kernel::read_number(c"/proc/sys/vm/overcommit_memory") == Some(2);
    if refusal.step == Step::Guard {
        return StackError::Memory { size, guard, strict, os_error };
    }
    let pages = kernel::read_number(c"/proc/self/statm").unwrap_or(0);
    let used = pages * kernel::page_size();
    let limit = resource_limit(libc::RLIMIT_AS);
    let beyond =
        limit.is_some_and(|limit| used + class.slot_size() + super::region::HEADROOM > limit);
    match (beyond, strict) {
        (false, true) => StackError::Memory { size, guard, strict, os_error },
        // Reservations are not accounted as memory, so it is the room for them that is missing.
        _ => StackError::AddressSpace {
            size,
            guard,
            used,
            limit: limit.filter(|_| beyond),
            os_error,
        },
    }
}

/// The soft limit of a resource, if it is limited.
#[allow(clippy::unnecessary_cast)] // The type of resources differs between C libraries.
fn resource_limit(resource: libc::__rlimit_resource_t) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is valid for writing.
    let result: c_int = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}
