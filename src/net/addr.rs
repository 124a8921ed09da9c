//! Addresses as the kernel has them.

use std::fmt;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;

/// An address of any family, and how much of it counts.
pub(super) struct RawAddr {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl RawAddr {
    /// Room for any address.
    pub(super) fn empty() -> RawAddr {
        // SAFETY: all zeroes is a value of such plain data.
        let storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        RawAddr { length: size_of_val(&storage) as libc::socklen_t, storage }
    }

    /// # Safety
    ///
    /// `T` must be one of the kernel's types of addresses.
    unsafe fn of<T>(address: T) -> RawAddr {
        let mut raw = RawAddr::empty();
        // SAFETY: the storage has room for each of them, and is aligned for each.
        unsafe { (&raw mut raw.storage).cast::<T>().write(address) };
        raw.length = size_of::<T>() as libc::socklen_t;
        raw
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn length(&self) -> libc::socklen_t {
        self.length
    }

    /// For a call that writes an address there.
    pub(super) fn as_mut(&mut self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        ((&raw mut self.storage).cast(), &raw mut self.length)
    }

    fn family(&self) -> libc::c_int {
        self.storage.ss_family.into()
    }

    /// The address of an IP socket.
    pub(super) fn to_ip(&self) -> io::Result<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: that is what the family says; the storage has the size.
                let raw: libc::sockaddr_in = unsafe { mem::transmute_copy(&self.storage) };
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Ok(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let raw: libc::sockaddr_in6 = unsafe { mem::transmute_copy(&self.storage) };
                let (ip, port) = (raw.sin6_addr.s6_addr.into(), u16::from_be(raw.sin6_port));
                let (flow, scope) = (raw.sin6_flowinfo, raw.sin6_scope_id);
                Ok(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            family => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an address of family {family} instead of IPv4 or IPv6"),
            )),
        }
    }

    /// The address of a Unix socket.
    pub(super) fn to_unix(&self) -> io::Result<net::SocketAddr> {
        let start = mem::offset_of!(libc::sockaddr_un, sun_path);
        // SAFETY: any bytes will do.
        let raw: libc::sockaddr_un = unsafe { mem::transmute_copy(&self.storage) };
        let length = (self.length as usize).saturating_sub(start).min(raw.sun_path.len());
        let name = raw.sun_path.map(|char| char.to_ne_bytes()[0]);
        match &name[..length] {
            [] => net::SocketAddr::from_pathname(""),
            [0, abstract_name @ ..] => net::SocketAddr::from_abstract_name(abstract_name),
            path => {
                let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
                let path = std::os::unix::ffi::OsStrExt::from_bytes(&path[..end]);
                net::SocketAddr::from_pathname::<&std::ffi::OsStr>(path)
            }
        }
    }
}

impl From<&SocketAddr> for RawAddr {
    fn from(address: &SocketAddr) -> RawAddr {
        match address {
            SocketAddr::V4(v4) => {
                let sin_addr = libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() };
                let family = libc::AF_INET as libc::sa_family_t;
                let sin_port = v4.port().to_be();
                let raw =
                    libc::sockaddr_in { sin_family: family, sin_port, sin_addr, sin_zero: [0; 8] };
                // SAFETY: it is one.
                unsafe { RawAddr::of(raw) }
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: Ipv6Addr::octets(v6.ip()) },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: it is one.
                unsafe { RawAddr::of(raw) }
            }
        }
    }
}

impl From<&net::SocketAddr> for RawAddr {
    fn from(address: &net::SocketAddr) -> RawAddr {
        // SAFETY: all zeroes is a value of such plain data.
        let mut raw: libc::sockaddr_un = unsafe { mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let (name, offset): (&[u8], usize) =
            match (address.as_abstract_name(), address.as_pathname()) {
                (Some(name), _) => (name, 1),
                (None, Some(path)) => (std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()), 0),
                (None, None) => (&[], 0),
            };
        // std's address has no more than fits.
        for (to, &from) in raw.sun_path[offset..].iter_mut().zip(name) {
            *to = from as libc::c_char;
        }
        let length = mem::offset_of!(libc::sockaddr_un, sun_path) + offset + name.len();
        // A path ends with a zero, which counts.
        let zero = usize::from(offset == 0 && !name.is_empty());
        // SAFETY: it is one.
        let mut this = unsafe { RawAddr::of(raw) };
        this.length = (length + zero) as libc::socklen_t;
        this
    }
}

/// For people: `127.0.0.1:80`, `[::1]:80`, `/run/x`, `@x`; nothing for an address without a name.
impl fmt::Display for RawAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(ip) = self.to_ip() {
            return write!(f, "{ip}");
        }
        match self.to_unix() {
            Ok(unix) => match (unix.as_pathname(), unix.as_abstract_name()) {
                (Some(path), _) => write!(f, "{}", path.display()),
                (None, Some(name)) => write!(f, "@{}", name.escape_ascii()),
                (None, None) => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }
}

/// An address for a report, unless it has no name.
fn named(result: libc::c_int, address: &RawAddr) -> Option<String> {
    (result == 0).then(|| address.to_string()).filter(|text| !text.is_empty())
}

/// The other side's address.
pub(super) fn peer(fd: BorrowedFd<'_>) -> Option<String> {
    let mut address = RawAddr::empty();
    let (storage, length) = address.as_mut();
    // SAFETY: the storage is valid for the length.
    let result = unsafe { libc::getpeername(fd.as_raw_fd(), storage, length) };
    named(result, &address)
}

/// The own address.
pub(super) fn own(fd: BorrowedFd<'_>) -> Option<String> {
    let mut address = RawAddr::empty();
    let (storage, length) = address.as_mut();
    // SAFETY: as above.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), storage, length) };
    named(result, &address)
}

/// The other side's address, before the connection stands as well; for IP.
pub(super) fn wanted_peer(fd: BorrowedFd<'_>) -> Option<String> {
    // asm-generic/socket.h
    const SO_PEERNAME: libc::c_int = 28;
    // The kernel refuses room for more than the address has.
    let sizes = [size_of::<libc::sockaddr_in6>(), size_of::<libc::sockaddr_in>()];
    sizes.into_iter().find_map(|size| {
        let mut address = RawAddr::empty();
        address.length = size as libc::socklen_t;
        let (storage, length) = address.as_mut();
        // SAFETY: as above.
        let result = unsafe {
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_PEERNAME, storage.cast(), length)
        };
        named(result, &address)
    })
}
