//! The channel workloads on plain OS threads, for libraries whose channels block those.
//!
//! Every task is a thread of its own, on as many processors as there are: these figures are the
//! price of not having a scheduler, and no peer's best.

use std::hint::black_box;
use std::thread;

use crate::measure::{Entry, Sample};
use crate::workload::{PLACES, Workload};

/// A library's channels of numbers. Nobody hangs up early, so an error is a bug here.
pub trait Channels: 'static {
    type Sender: Clone + Send;
    type Receiver: Clone + Send;

    fn bounded(places: usize) -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, number: u64);
    /// The next number, or `None` when all senders are gone.
    fn receive(receiver: &Self::Receiver) -> Option<u64>;
}

/// The workloads that need nothing but such channels.
pub fn enter<C: Channels>(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous => Entry::runs(ping_pong::<C>),
        Workload::ChannelBounded { pairs } => {
            Entry::Runs(Box::new(move |wish| stream::<C>(pairs, wish)))
        }
        _ => Entry::Absent,
    }
}

fn ping_pong<C: Channels>(wish: u64) -> Sample {
    let (ping, from_ping) = C::bounded(0);
    let (pong, from_pong) = C::bounded(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(number) = C::receive(&from_ping) {
                C::send(&pong, number);
            }
        });
        let round_trips = wish.div_ceil(2);
        let sample = Sample::time(round_trips * 2, || {
            for number in 0..round_trips {
                C::send(&ping, number);
                assert_eq!(C::receive(&from_pong), Some(number));
            }
        });
        drop(ping);
        sample
    })
}

fn stream<C: Channels>(pairs: u64, wish: u64) -> Sample {
    let each = wish.div_ceil(pairs);
    let (sender, receiver) = C::bounded(PLACES);
    Sample::time(each * pairs, move || {
        thread::scope(|scope| {
            for _ in 0..pairs {
                let (sender, receiver) = (sender.clone(), receiver.clone());
                scope.spawn(move || (0..each).for_each(|number| C::send(&sender, number)));
                scope.spawn(move || {
                    while let Some(number) = C::receive(&receiver) {
                        black_box(number);
                    }
                });
            }
            drop((sender, receiver));
        });
    })
}
