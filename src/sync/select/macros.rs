//! The [`select!`](crate::select) macro and what it expands to.
//!
//! The arms are taken apart one by one into `{name [maker] [pattern] [body]}`, all of them are made
//! and kept in variables of these names, and one is chosen. What came of it is wrapped into as many
//! [`Choice`]s as there were arms before it, so that the bodies run when all arms are gone, in a
//! plain `match`: they may use whatever the arms had borrowed, and `break`, `return` and `?`.
//! (The names are all `arm`; hygiene keeps those of different expansions apart.)

use super::{Arm, Missed, Patience, select};
use crate::sched::clock::Instant;

/// An arm of any type.
#[derive(Clone, Copy)]
pub struct Erased<'a>(pub(super) &'a dyn Arm);

/// The result of the first arm, or of one of the others.
pub enum Choice<A, B> {
    This(A),
    Other(B),
}

/// What came of none of the arms, in a select without a default.
pub enum Nobody {}

/// Reached after all arms.
pub fn nobody() -> Nobody {
    unreachable!("a select without a default chooses one of its arms")
}

/// Completes one of the arms and says which; the number after the last means the default.
#[inline]
pub fn choose<const N: usize>(arms: [Erased<'_>; N], biased: bool, default: bool) -> usize {
    let arms = arms.map(|Erased(arm)| arm);
    let patience = if default { Patience::None } else { Patience::Until(Instant::FAR_FUTURE) };
    match select(&arms, &mut std::array::from_fn::<usize, N, _>(|arm| arm), biased, patience) {
        Ok(arm) => arm,
        Err(Missed::NoneReady) => N,
        Err(Missed::TimedOut) => unreachable!("without a deadline of its own"),
    }
}

/// Waits for whichever of several operations can complete first, completes it, and goes on with the
/// expression that belongs to it.
///
/// ```
/// use pirn::sync::channel;
/// use pirn::thread;
/// use pirn::time::Duration;
///
/// pirn::run(|| {
///     let (numbers, from_numbers) = channel::unbounded();
///     let (to_words, words) = channel::rendezvous();
///     thread::spawn(move || numbers.send(1));
///     thread::spawn(move || words.recv());
///     for _ in 0..2 {
///         pirn::select! {
///             recv(from_numbers) -> number => println!("got {}", number.unwrap_or(0)),
///             send(to_words, "word") -> sent => println!("sent: {}", sent.is_ok()),
///             after(Duration::from_secs(1)) => println!("nothing happens"),
///         }
///     }
/// });
/// ```
///
/// # Arms
///
/// * `recv(receiver) -> pattern => body` matches what [`recv`](crate::sync::channel::Receiver::recv)
///   would return. The receiver may be that of a oneshot channel, which then must be mutable.
/// * `send(sender, value) -> pattern => body` matches what
///   [`send`](crate::sync::channel::Sender::send) would return.
/// * `send(sender, ref mut slot) -> pattern => body` does so with the value in a variable of type
///   `Option<T>`: it is `None` afterwards if this arm has won, and keeps the value if not. While it
///   is `None` the arm is never chosen.
/// * `after(duration) => body` when so much time has passed since the select began to wait; `timeout`
///   is another name for it.
/// * `at(instant) => body` when this time has come.
/// * `join(ref mut slot) -> pattern => body` when the fiber has ended whose
///   [handle](crate::thread::JoinHandle) is in a variable of type `Option<JoinHandle<T>>` (or
///   [`ScopedJoinHandle`](crate::thread::ScopedJoinHandle)); matches what
///   [`join`](crate::thread::JoinHandle::join) would return. The variable is `None` afterwards if this
///   arm has won, and keeps the handle if not. While it is `None` the arm is never chosen.
/// * `readable(stream) -> pattern => body` when a read may go on without waiting: from a
///   [socket](crate::net) or a [pipe](crate::io), or to accept from a listener. Nothing is read, so the
///   pattern matches an `io::Result<()>`. Who is alone in reading does so at once then.
/// * `writable(stream) -> pattern => body` when a write may, in the same way.
/// * `recv(signals) -> pattern => body` matches what
///   [`Signals::recv`](crate::io::Signals::recv) would return.
/// * `wait(child) -> pattern => body` when a [child process](crate::process::Child), which must be
///   mutable, has ended; matches what [`wait`](crate::process::Child::wait) would return, but leaves
///   the child's standard input open.
/// * `cancelled => body` when the calling fiber is [cancelled](crate::thread::JoinHandle::cancel):
///   see [below](#cancellation).
/// * `default => body` when nothing else can complete at once. There may be one.
///
/// The body is an expression of the type of the whole `select!`. Patterns must be irrefutable. The
/// expressions in the heads are evaluated once each, in order, before anything else happens.
///
/// An arm whose channel is disconnected can complete: with the error.
///
/// # What the others lose
///
/// Nothing: one arm completes, the others neither receive nor send. A value in `send(sender, value)`
/// is moved into the select, and dropped if another arm wins; with `ref mut slot` it stays:
///
/// ```
/// use pirn::sync::channel;
/// use pirn::select;
///
/// let (full, _receiver) = channel::bounded(0);
/// let mut letter = Some(String::from("dear reader"));
/// select! {
///     send(full, ref mut letter) -> _ => unreachable!("nobody receives"),
///     default => assert_eq!(letter.as_deref(), Some("dear reader")),
/// }
/// ```
///
/// # Fibers
///
/// A fiber may be joined in a select; losing leaves it, its result and its handle as they were:
///
/// ```
/// use pirn::{select, thread};
/// use pirn::time::Duration;
///
/// pirn::run(|| {
///     let mut worker = Some(thread::spawn(|| thread::sleep(Duration::from_secs(3600))));
///     let result = loop {
///         select! {
///             join(ref mut worker) -> result => break result,
///             after(Duration::from_millis(1)) => worker.as_ref().unwrap().cancel(),
///         }
///     };
///     assert!(result.is_err() && worker.is_none());
/// });
/// ```
///
/// # Descriptors, signals and children
///
/// ```
/// use pirn::{net::{TcpListener, TcpStream}, select, sync::channel};
///
/// pirn::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let (_stop, stopped) = channel::bounded::<()>(1);
///     let client = TcpStream::connect(listener.local_addr()?)?;
///     let (stream, _) = select! {
///         readable(listener) -> ready => ready.and_then(|()| listener.accept())?,
///         recv(stopped) -> _ => return Ok(()),
///     };
///     assert_eq!(stream.peer_addr()?, client.local_addr()?);
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
///
/// Such a select waits in the runtime's reactor. Outside a runtime, and in a destructor of a fiber that
/// panics, these arms complete with an error of the kind
/// [`Unsupported`](std::io::ErrorKind::Unsupported) when nothing is ready at once.
///
/// # Cancellation
///
/// A select in a fiber that is cancelled unwinds it, like every other wait, when nothing else can
/// complete at once. With an arm `cancelled` it completes that one instead, and the body can bring
/// things to an end: in a [`shield`](crate::thread::shield) if it has to wait for something, since the
/// fiber stays cancelled, and its next wait unwinds it. (So the arm would complete at once in the next
/// select, too: leave the loop.) Within a shield it never completes. A time limit, or the end of the
/// runtime, is not a cancellation.
///
/// ```
/// use pirn::sync::channel;
/// use pirn::{select, thread};
///
/// pirn::run(|| {
///     let (_sender, requests) = channel::bounded::<u32>(8);
///     let server = thread::spawn(move || {
///         let mut served = 0;
///         loop {
///             select! {
///                 recv(requests) -> _ => served += 1,
///                 cancelled => break served,
///             }
///         }
///     });
///     thread::yield_now();
///     server.cancel();
///     assert_eq!(server.join().unwrap(), 0);
/// });
/// ```
///
/// # Which one wins
///
/// If several can complete, one of them is drawn by lot, each with the same chance. The lots are the
/// same in each run of a program. With `biased;` before the arms it is the first, as written:
///
/// ```
/// use pirn::sync::channel;
/// use pirn::select;
///
/// let (urgent, from_urgent) = channel::unbounded();
/// let (_other, from_other) = channel::unbounded::<()>();
/// urgent.send("now").unwrap();
/// drop(_other);
/// let first = select! {
///     biased;
///     recv(from_urgent) -> word => word.unwrap(),
///     recv(from_other) -> _ => "later",
/// };
/// assert_eq!(first, "now");
/// ```
///
/// # Without arms
///
/// `select! {}` waits for ever, and is part of a deadlock report if everybody does.
///
/// # When the wait is called off
///
/// A fiber that waits when its runtime ends, or that is cancelled, is unwound; values that it was
/// sending stay in their slots, or are dropped. In a destructor in that unwind a select that would have to wait completes
/// its first arm at once, as if the channel were disconnected, the fiber cancelled, or the time had
/// come. See
/// [`pirn::thread`](crate::thread).
#[macro_export]
macro_rules! select {
    (biased; $($arms:tt)*) => {
        $crate::__select!(@head [true] [] [] $($arms)*)
    };
    ($($arms:tt)*) => {
        $crate::__select!(@head [false] [] [] $($arms)*)
    };
}

/// The steps of [`select!`](crate::select): `[biased] [arms so far] [body of default]`, and the rest.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // The head of an arm: how it is made, and the pattern.
    (@head $biased:tt $arms:tt $default:tt) => {
        $crate::__select!(@build $biased $arms $default)
    };
    (@head $biased:tt $arms:tt $default:tt
        recv($receiver:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($receiver).__receive_arm()] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        send($sender:expr, ref mut $slot:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($sender).__send_arm_from(&mut $slot)] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        send($sender:expr, $value:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($sender).__send_arm($value)] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt after($duration:expr $(,)?) => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [$crate::sync::select::__private::TimerArm::after($duration)] [()] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt timeout($duration:expr $(,)?) => $($rest:tt)*) => {
        $crate::__select!(@head $biased $arms $default after($duration) => $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt at($instant:expr $(,)?) => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [$crate::sync::select::__private::TimerArm::at($instant)] [()] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        join(ref mut $slot:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [$crate::sync::select::__private::JoinArm::new(&mut $slot)] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        readable($descriptor:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($descriptor).__readable_arm()] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        writable($descriptor:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($descriptor).__writable_arm()] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt
        wait($child:expr $(,)?) -> $pattern:pat => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [($child).__wait_arm()] [$pattern] $($rest)*)
    };
    (@head $biased:tt $arms:tt $default:tt cancelled => $($rest:tt)*) => {
        $crate::__select!(@body $biased $arms $default
            [$crate::sync::select::__private::CancellationArm] [()] $($rest)*)
    };
    (@head $biased:tt $arms:tt [] default => $($rest:tt)*) => {
        $crate::__select!(@default $biased $arms $($rest)*)
    };
    (@head $biased:tt $arms:tt [$body:expr] default => $($rest:tt)*) => {
        compile_error!("a select has at most one default")
    };
    (@head $biased:tt $arms:tt $default:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "expected one of `recv(receiver) -> pattern =>`, `send(sender, value) -> pattern =>`, \
             `join(ref mut slot) -> pattern =>`, `readable(descriptor) -> pattern =>`, \
             `writable(descriptor) -> pattern =>`, `wait(child) -> pattern =>`, `after(duration) =>`, `at(instant) =>`, \
             `cancelled =>`, `default =>`, found: ",
            stringify!($($rest)*)
        ))
    };

    // The body of an arm: an expression and a comma, or the last one, or a block.
    (@body $biased:tt [$($arms:tt)*] $default:tt $maker:tt $pattern:tt
        $body:expr, $($rest:tt)*) => {
        $crate::__select!(@head $biased [$($arms)* {arm $maker $pattern [$body]}] $default $($rest)*)
    };
    (@body $biased:tt [$($arms:tt)*] $default:tt $maker:tt $pattern:tt $body:expr) => {
        $crate::__select!(@head $biased [$($arms)* {arm $maker $pattern [$body]}] $default)
    };
    (@body $biased:tt [$($arms:tt)*] $default:tt $maker:tt $pattern:tt
        $body:block $($rest:tt)*) => {
        $crate::__select!(@head $biased [$($arms)* {arm $maker $pattern [$body]}] $default $($rest)*)
    };
    (@default $biased:tt $arms:tt $body:expr, $($rest:tt)*) => {
        $crate::__select!(@head $biased $arms [$body] $($rest)*)
    };
    (@default $biased:tt $arms:tt $body:expr) => {
        $crate::__select!(@head $biased $arms [$body])
    };
    (@default $biased:tt $arms:tt $body:block $($rest:tt)*) => {
        $crate::__select!(@head $biased $arms [$body] $($rest)*)
    };

    (@build $biased:tt [$($arms:tt)*] $default:tt) => {{
        let choice = $crate::__select!(@make $biased [$($arms)*] $default $($arms)*);
        $crate::__select!(@run choice $default $($arms)*)
    }};

    // Makes one arm after the other; then chooses.
    (@make $biased:tt $all:tt $default:tt
        {$arm:ident [$($maker:tt)*] $pattern:tt $body:tt} $($rest:tt)*) => {
        match $($maker)* {
            $arm => $crate::__select!(@make $biased $all $default $($rest)*),
        }
    };
    (@make [$biased:tt] [$({$arm:ident $maker:tt $pattern:tt $body:tt})*] [$($default:expr)?]) => {{
        let has_default = $crate::__select!(@is_there $($default)?);
        let number =
            $crate::sync::select::__private::choose([$($arm.erase()),*], $biased, has_default);
        $crate::__select!(@take number [$($default)?] $({$arm $maker $pattern $body})*)
    }};
    (@is_there) => { false };
    (@is_there $default:expr) => { true };

    // Takes what came of the chosen arm.
    (@take $number:ident $default:tt
        {$arm:ident $maker:tt $pattern:tt $body:tt} $($rest:tt)*) => {
        if $number == 0 {
            $crate::sync::select::__private::Choice::This($arm.finish())
        } else {
            let further = $number - 1;
            $crate::sync::select::__private::Choice::Other(
                $crate::__select!(@take further $default $($rest)*)
            )
        }
    };
    (@take $number:ident []) => {{
        let _ = $number;
        $crate::sync::select::__private::nobody()
    }};
    (@take $number:ident [$default:expr]) => {{
        let _ = $number;
    }};

    // Runs the body that belongs to it.
    (@run $choice:ident $default:tt
        {$arm:ident $maker:tt [$pattern:pat] [$body:expr]} $($rest:tt)*) => {
        match $choice {
            $crate::sync::select::__private::Choice::This($pattern) => $body,
            $crate::sync::select::__private::Choice::Other(other) => {
                $crate::__select!(@run other $default $($rest)*)
            }
        }
    };
    (@run $choice:ident []) => {
        match $choice {}
    };
    (@run $choice:ident [$default:expr]) => {{
        let () = $choice;
        $default
    }};
}
