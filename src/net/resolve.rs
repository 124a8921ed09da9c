//! From names to addresses, off the carrier.

use std::io;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::option;
use std::slice;
use std::sync::{Arc, PoisonError, RwLock};
use std::vec;

use crate::blocking;
use crate::sched::carrier::Carrier;
use crate::sched::clock::Instant;
use crate::sync::promise;

/// What names one or more addresses; pirn's counterpart of [`std::net::ToSocketAddrs`], for the same
/// types.
///
/// A host name is looked up on the [pool of blocking calls](mod@crate::blocking), while the fiber waits and
/// others run. (On a thread outside a runtime it is looked up there.) Addresses that are written out need no look-up.
///
/// ```
/// use pirn::net::ToSocketAddrs;
///
/// pirn::run(|| {
///     let local: Vec<_> = ("localhost", 80).to_socket_addrs()?.collect();
///     assert!(local.iter().all(|address| address.ip().is_loopback()));
///     assert_eq!("[::1]:80".to_socket_addrs()?.next(), Some("[::1]:80".parse().unwrap()));
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub trait ToSocketAddrs {
    /// The addresses, in the order in which they are to be tried.
    type Iter: Iterator<Item = SocketAddr>;

    /// The addresses.
    ///
    /// # Errors
    ///
    /// When the text is no address, or the name cannot be looked up.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;

    /// The addresses, if they are known by then.
    #[doc(hidden)]
    fn to_socket_addrs_until(&self, _deadline: Instant) -> io::Result<Self::Iter> {
        self.to_socket_addrs()
    }
}

/// Types that are an address.
macro_rules! addresses {
    ($($type:ty),*) => {$(
        impl ToSocketAddrs for $type {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(Some(SocketAddr::from(*self)).into_iter())
            }
        }
    )*};
}
addresses!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

/// Types that may have to be looked up.
macro_rules! names {
    ($($type:ty: |$name:ident, $deadline:ident| $addresses:expr;)*) => {$(
        impl ToSocketAddrs for $type {
            type Iter = vec::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                self.to_socket_addrs_until(Instant::FAR_FUTURE)
            }

            fn to_socket_addrs_until(&self, $deadline: Instant) -> io::Result<Self::Iter> {
                let $name = self;
                $addresses
            }
        }
    )*};
}
names! {
    str: |text, deadline| match text.parse::<SocketAddr>() {
        Ok(address) => Ok(vec![address].into_iter()),
        Err(_) => split(text).and_then(|(host, port)| look_up(host, port, deadline)),
    };
    String: |text, deadline| (**text).to_socket_addrs_until(deadline);
    (&str, u16): |name, deadline| look_up(name.0, name.1, deadline);
    (String, u16): |name, deadline| look_up(&name.0, name.1, deadline);
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = iter::Cloned<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<A: ToSocketAddrs + ?Sized> ToSocketAddrs for &A {
    type Iter = A::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }

    fn to_socket_addrs_until(&self, deadline: Instant) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs_until(deadline)
    }
}

/// "host:port".
fn split(text: &str) -> io::Result<(&str, u16)> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| {
        let text =
            format!("{text:?} is no address: it should be like host:80, 1.2.3.4:80, [::1]:80");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

type Resolver = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// What looks names up instead of the system.
static RESOLVER: RwLock<Option<Arc<Resolver>>> = RwLock::new(None);

/// Has host names looked up by `resolver` from now on, in the whole process, instead of by the system.
///
/// It is called off the carrier and may block, unless an OS thread outside a runtime asks.
///
/// ```
/// use pirn::net::{ToSocketAddrs, set_resolver};
///
/// set_resolver(|host| match host {
///     "loom" => Ok(vec!["192.0.2.7".parse().unwrap()]),
///     _ => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such host")),
/// });
/// pirn::run(|| {
///     assert_eq!("loom:80".to_socket_addrs().unwrap().next(), "192.0.2.7:80".parse().ok());
///     assert!("warp:80".to_socket_addrs().is_err());
/// });
/// ```
pub fn set_resolver(resolver: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) {
    *RESOLVER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(resolver));
}

/// Looks a name up where that may block.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let resolver = RESOLVER.read().unwrap_or_else(PoisonError::into_inner).clone();
    match resolver {
        Some(resolver) => {
            Ok(resolver(host)?.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
        }
        None => Ok(std::net::ToSocketAddrs::to_socket_addrs(&(host, port))?.collect()),
    }
}

fn look_up(host: &str, port: u16, deadline: Instant) -> io::Result<vec::IntoIter<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)].into_iter());
    }
    if Carrier::current().is_none() {
        return Ok(resolve(host, port)?.into_iter());
    }
    let (answer, future) = promise();
    let name = host.to_owned();
    let _asked = Asked(blocking::try_spawn(move || {
        // Whoever asked may have gone.
        let _ = answer.set(resolve(&name, port).map_err(Arc::new));
    })?);
    match future.get_deadline(deadline) {
        Some(Ok(Ok(addresses))) => Ok(addresses.clone().into_iter()),
        Some(Ok(Err(error))) => Err(io::Error::new(error.kind(), error.clone())),
        Some(Err(error)) => Err(io::Error::other(error)),
        None => Err(too_late(host)),
    }
}

/// A look-up that nobody waits for any more when this goes.
struct Asked(blocking::Job<()>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn too_late(host: &str) -> io::Error {
    let text = format!("the name {host:?} could not be looked up in time");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Tries an action with each address, until one succeeds.
pub(super) fn each_address<A: ToSocketAddrs, T>(
    addresses: A,
    deadline: Instant,
    mut action: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs_until(deadline)? {
        match action(&address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the name stands for no address at all")
    }))
}
