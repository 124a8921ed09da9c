//! Channels and selects do what a simple sequential model says, whatever the order of operations.

mod child;

use std::collections::VecDeque;
use std::time::Duration;

use pirn::sync::channel::{self, Receiver, Sender, TryRecvError, TrySendError};
use pirn::{Builder, select, thread};
use proptest::prelude::*;

/// What the test does next, at one instant of virtual time after the other.
#[derive(Clone, Copy, Debug)]
enum Step {
    TrySend,
    TryRecv,
    /// A fiber of its own sends, for at most so many instants.
    Send(u64),
    /// A fiber of its own receives, for at most so many instants.
    Recv(u64),
    /// As the two before, by a select that also waits for a channel on which nothing ever happens.
    SelectSend(u64),
    SelectRecv(u64),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limit = 1_u64..12;
    let step = prop_oneof![
        4 => Just(Step::TrySend),
        4 => Just(Step::TryRecv),
        4 => limit.clone().prop_map(Step::Send),
        4 => limit.clone().prop_map(Step::Recv),
        3 => limit.clone().prop_map(Step::SelectSend),
        3 => limit.prop_map(Step::SelectRecv),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 1..60)
}

/// How an operation ended, by its number: for a receiver with what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Sent(usize),
    GaveUpSending(usize),
    CouldNotSend(usize),
    Received(usize, usize),
    GaveUpReceiving(usize),
    CouldNotReceive(usize),
}
use Event::*;

/// The model: a buffer, and who waits until when.
struct Model {
    capacity: usize,
    buffer: VecDeque<usize>,
    senders: VecDeque<(usize, u64)>,
    receivers: VecDeque<(usize, u64)>,
    closed: bool,
    events: Vec<Event>,
}

impl Model {
    fn send(&mut self, number: usize, until: Option<u64>) {
        if self.closed {
            self.events.push(CouldNotSend(number));
        } else if let Some((receiver, _)) = self.receivers.pop_front() {
            self.events.extend([Sent(number), Received(receiver, number)]);
        } else if self.buffer.len() < self.capacity {
            self.buffer.push_back(number);
            self.events.push(Sent(number));
        } else if let Some(until) = until {
            self.senders.push_back((number, until));
        } else {
            self.events.push(GaveUpSending(number));
        }
    }

    fn recv(&mut self, number: usize, until: Option<u64>) {
        if let Some(value) = self.buffer.pop_front() {
            self.events.push(Received(number, value));
            if let Some((sender, _)) = self.senders.pop_front() {
                self.buffer.push_back(sender);
                self.events.push(Sent(sender));
            }
        } else if let Some((sender, _)) = self.senders.pop_front() {
            self.events.extend([Received(number, sender), Sent(sender)]);
        } else if self.closed {
            self.events.push(CouldNotReceive(number));
        } else if let Some(until) = until {
            self.receivers.push_back((number, until));
        } else {
            self.events.push(GaveUpReceiving(number));
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.events.extend(self.senders.drain(..).map(|(number, _)| CouldNotSend(number)));
        self.events.extend(self.receivers.drain(..).map(|(number, _)| CouldNotReceive(number)));
    }

    fn expire(&mut self, now: u64) {
        let (senders, receivers) = (self.senders.clone(), self.receivers.clone());
        self.senders.retain(|&(_, until)| until > now);
        self.receivers.retain(|&(_, until)| until > now);
        let due = |&(_, until): &(usize, u64)| until <= now;
        self.events
            .extend(senders.into_iter().filter(due).map(|(number, _)| GaveUpSending(number)));
        self.events
            .extend(receivers.into_iter().filter(due).map(|(number, _)| GaveUpReceiving(number)));
    }
}

/// What the model says that happens.
fn expected(capacity: usize, steps: &[Step]) -> Vec<Event> {
    let mut model = Model {
        capacity,
        buffer: VecDeque::new(),
        senders: VecDeque::new(),
        receivers: VecDeque::new(),
        closed: false,
        events: Vec::new(),
    };
    for (now, (number, &step)) in (0..).zip(steps.iter().enumerate()) {
        // Time limits lie half way between two steps.
        model.expire(now);
        match step {
            Step::TrySend => model.send(number, None),
            Step::TryRecv => model.recv(number, None),
            Step::Send(limit) | Step::SelectSend(limit) => model.send(number, Some(now + limit)),
            Step::Recv(limit) | Step::SelectRecv(limit) => model.recv(number, Some(now + limit)),
            Step::Close => model.close(),
        }
    }
    model.expire(u64::MAX);
    model.events.sort();
    model.events
}

const INSTANT: Duration = Duration::from_secs(1);

/// One step as a fiber takes it.
fn take_step(
    number: usize,
    step: Step,
    sender: &Sender<usize>,
    receiver: &Receiver<usize>,
) -> Option<Event> {
    let limit = |instants: u64| INSTANT * instants as u32 - INSTANT / 2;
    let (_never, nothing) = channel::rendezvous::<()>();
    Some(match step {
        Step::TrySend => match sender.try_send(number) {
            Ok(()) => Sent(number),
            Err(TrySendError::Full(value)) => GaveUpSending(value),
            Err(TrySendError::Disconnected(value)) => CouldNotSend(value),
        },
        Step::TryRecv => match receiver.try_recv() {
            Ok(value) => Received(number, value),
            Err(TryRecvError::Empty) => GaveUpReceiving(number),
            Err(TryRecvError::Disconnected) => CouldNotReceive(number),
        },
        Step::Send(instants) => match sender.send_timeout(number, limit(instants)) {
            Ok(()) => Sent(number),
            Err(error) if error.is_timeout() => GaveUpSending(error.into_inner()),
            Err(error) => CouldNotSend(error.into_inner()),
        },
        Step::Recv(instants) => match receiver.recv_timeout(limit(instants)) {
            Ok(value) => Received(number, value),
            Err(channel::RecvTimeoutError::Timeout) => GaveUpReceiving(number),
            Err(channel::RecvTimeoutError::Disconnected) => CouldNotReceive(number),
        },
        Step::SelectSend(instants) => {
            let mut slot = Some(number);
            let sent = select! {
                send(sender, ref mut slot) -> sent => Some(sent),
                recv(nothing) -> _ => unreachable!(),
                after(limit(instants)) => None,
            };
            match sent {
                None => GaveUpSending(slot.unwrap()),
                Some(Ok(())) => Sent(number),
                Some(Err(error)) => CouldNotSend(error.0),
            }
        }
        Step::SelectRecv(instants) => select! {
            recv(nothing) -> _ => unreachable!(),
            recv(receiver) -> received => match received {
                Ok(value) => Received(number, value),
                Err(_) => CouldNotReceive(number),
            },
            after(limit(instants)) => GaveUpReceiving(number),
        },
        Step::Close => {
            sender.close();
            return None;
        }
    })
}

/// What really happens.
fn observed(capacity: usize, steps: &[Step]) -> Vec<Event> {
    let (log, events) = channel::unbounded();
    let steps = steps.to_vec();
    let runtime = Builder::new().virtual_time(true).build().unwrap();
    let run = move || {
        let (sender, receiver) = channel::bounded(capacity);
        let mut fibers = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let (log, sender, receiver) = (log.clone(), sender.clone(), receiver.clone());
            fibers.push(thread::spawn(move || {
                if let Some(event) = take_step(number, step, &sender, &receiver) {
                    log.send(event).unwrap();
                }
            }));
            thread::sleep(INSTANT);
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    };
    runtime.run(run).unwrap();
    let mut events: Vec<Event> = events.iter().collect();
    events.sort();
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 400 } else { 40 }))]

    #[test]
    fn a_channel_does_what_the_model_says(
        capacity in prop_oneof![Just(0_usize), 1_usize..4, Just(usize::MAX)],
        steps in steps(),
    ) {
        prop_assert_eq!(observed(capacity, &steps), expected(capacity, &steps));
    }

    /// Whenever the runtime ends: what was sent is received, still there, or was dropped with the
    /// fiber that was sending it.
    #[test]
    fn whenever_the_runtime_ends_each_value_exists_once(
        capacity in 0_usize..3,
        steps in steps(),
        seed: u64,
        turns in 0_usize..20,
    ) {
        let (sender, receiver) = channel::bounded(capacity);
        let (log, events) = channel::unbounded();
        let fibers_ends = (sender.clone(), receiver.clone());
        let all = steps.clone();
        let runtime = Builder::new().virtual_time(true).seed(seed).build().unwrap();
        runtime.run(move || {
            for (number, step) in all.into_iter().enumerate() {
                let (log, (sender, receiver)) = (log.clone(), fibers_ends.clone());
                thread::spawn(move || {
                    if let Some(event) = take_step(number, step, &sender, &receiver) {
                        log.send(event).unwrap();
                    }
                });
            }
            (0..turns).for_each(|_| thread::yield_now());
        }).unwrap();
        let mut left: Vec<usize> = receiver.try_iter().collect();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                Sent(number) => sent.push(number),
                Received(_, value) => received.push(value),
                _ => {}
            }
        }
        // A sender or receiver may have been unwound before it could say so: not both of a pair.
        received.append(&mut left);
        received.sort();
        let doubled = received.windows(2).any(|pair| pair[0] == pair[1]);
        prop_assert!(!doubled, "{received:?}");
        let lost = sent.iter().filter(|value| !received.contains(value)).count();
        prop_assert_eq!(lost, 0, "sent {:?}, received {:?}", sent, received);
    }
}
