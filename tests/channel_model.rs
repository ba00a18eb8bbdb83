//! Channels against a model: a queue, and lists of waiters.
//!
//! There is one worker, so operations happen one after another. A script of random steps is run,
//! each step in a task of its own, and after each step every task that can continue does. The model
//! then says which tasks have ended with which result, and what is left in the channel. The seed of
//! a failure is printed. `ECRU_MODEL_SEED` repeats a seed, and `ECRU_MODEL_ROUNDS` sets the number
//! of scripts.

use std::collections::VecDeque;
use std::sync::Mutex;

use ecru::channel::{self, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use ecru::{Source, select, source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bounded(usize),
    Unbounded,
    Dropping(usize),
    Sliding(usize),
    Oneshot,
}

impl Kind {
    fn make(self) -> (Sender<u32>, Receiver<u32>) {
        match self {
            Kind::Bounded(capacity) => channel::bounded(capacity),
            Kind::Unbounded => channel::unbounded(),
            Kind::Dropping(capacity) => channel::dropping(capacity),
            Kind::Sliding(capacity) => channel::sliding(capacity),
            Kind::Oneshot => channel::oneshot(),
        }
    }

    fn capacity(self) -> usize {
        match self {
            Kind::Bounded(capacity) | Kind::Dropping(capacity) | Kind::Sliding(capacity) => {
                capacity
            }
            Kind::Unbounded => usize::MAX,
            Kind::Oneshot => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Send(u32),
    TrySend(u32),
    Recv,
    /// Receives through a select that lists the channel twice.
    SelectRecv,
    /// Receives by a race of the receiver with itself.
    RaceRecv,
    SelectSend(u32),
    /// Receives only values of this parity.
    Filter(u32),
    TryRecv,
    TryFilter(u32),
    /// Cancels the task of that step.
    Cancel(usize),
    Close,
    CloseNow,
}

/// The result of the task of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sent,
    Got(u32),
    Full(u32),
    Empty,
    GoneWith(u32),
    Gone,
    CancelledWith(u32),
    Cancelled,
    Done,
}

/// A waiting sender or receiver.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    step: usize,
    /// The sender's value, or the parity that a receiver accepts.
    value: Option<u32>,
    /// Whether the sender evaluates its value only when its turn has come.
    lazy: bool,
}

struct Model {
    kind: Kind,
    buffer: VecDeque<u32>,
    senders: VecDeque<Waiting>,
    receivers: VecDeque<Waiting>,
    closed: bool,
    ends: Vec<Option<End>>,
}

fn wants(waiting: &Waiting, value: u32) -> bool {
    waiting.value.is_none_or(|parity| value % 2 == parity)
}

impl Model {
    fn new(kind: Kind) -> Model {
        Model {
            kind,
            buffer: VecDeque::new(),
            senders: VecDeque::new(),
            receivers: VecDeque::new(),
            closed: false,
            ends: Vec::new(),
        }
    }

    /// Gives the value to the first waiter that accepts it.
    fn hand_over(&mut self, value: u32) -> bool {
        let Some(at) = self.receivers.iter().position(|waiting| wants(waiting, value)) else {
            return false;
        };
        let receiver = self.receivers.remove(at).unwrap();
        self.ends[receiver.step] = Some(End::Got(value));
        true
    }

    fn offer(&mut self, value: u32) -> End {
        if self.closed {
            return End::GoneWith(value);
        }
        if !(self.buffer.is_empty() && self.hand_over(value)) {
            if self.buffer.len() < self.kind.capacity() {
                self.buffer.push_back(value);
            } else {
                match self.kind {
                    Kind::Dropping(_) => {}
                    Kind::Sliding(_) => {
                        self.buffer.pop_front();
                        self.buffer.push_back(value);
                    }
                    _ => return End::Full(value),
                }
            }
        }
        if self.kind == Kind::Oneshot {
            self.closed = true;
        }
        self.settle();
        End::Sent
    }

    fn take(&mut self, parity: Option<u32>) -> End {
        let taker = Waiting { step: 0, value: parity, lazy: false };
        if let Some(front) = self.buffer.front().copied() {
            if !wants(&taker, front) {
                return End::Empty;
            }
            self.buffer.pop_front();
            self.settle();
            return End::Got(front);
        }
        if self.kind.capacity() == 0 {
            let fits = |sender: &Waiting| !sender.lazy && wants(&taker, sender.value.unwrap());
            if let Some(at) = self.senders.iter().position(fits) {
                let sender = self.senders.remove(at).unwrap();
                self.ends[sender.step] = Some(End::Sent);
                self.settle();
                return End::Got(sender.value.unwrap());
            }
        }
        if self.drained() { End::Gone } else { End::Empty }
    }

    /// A poll meets the first waiting select with a send arm, which evaluates its value for the
    /// poll.
    fn meet(&mut self) -> End {
        let Some(at) = self.senders.iter().position(|sender| sender.lazy) else {
            return End::Empty;
        };
        let sender = self.senders.remove(at).unwrap();
        self.ends[sender.step] = Some(End::Sent);
        End::Got(sender.value.unwrap())
    }

    fn drained(&self) -> bool {
        self.closed && self.buffer.is_empty() && self.senders.is_empty()
    }

    /// Completes every wait that can continue.
    fn settle(&mut self) {
        loop {
            while self.buffer.len() < self.kind.capacity()
                && let Some(sender) = self.senders.pop_front()
            {
                self.buffer.push_back(sender.value.unwrap());
                self.ends[sender.step] = Some(End::Sent);
            }
            let Some(front) = self.buffer.front().copied() else { break };
            if !self.hand_over(front) {
                break;
            }
            self.buffer.pop_front();
        }
        // Without a buffer, a select with a send arm sends to a waiting receiver that accepts the
        // value.
        if self.kind.capacity() == 0 {
            while let Some(at) = self.senders.iter().position(|sender| {
                sender.lazy && self.receivers.iter().any(|r| wants(r, sender.value.unwrap()))
            }) {
                let sender = self.senders.remove(at).unwrap();
                assert!(self.hand_over(sender.value.unwrap()));
                self.ends[sender.step] = Some(End::Sent);
            }
        }
        if self.drained() {
            for receiver in std::mem::take(&mut self.receivers) {
                self.ends[receiver.step] = Some(End::Gone);
            }
        }
    }

    fn play(&mut self, number: usize, step: Step) {
        self.ends.push(None);
        let end = match step {
            Step::Send(value) | Step::SelectSend(value) => match self.offer(value) {
                End::Full(value) => {
                    let lazy = matches!(step, Step::SelectSend(_));
                    self.senders.push_back(Waiting { step: number, value: Some(value), lazy });
                    None
                }
                end => Some(end),
            },
            Step::TrySend(value) => Some(self.offer(value)),
            Step::TryRecv => Some(match self.take(None) {
                End::Empty => self.meet(),
                end => end,
            }),
            Step::TryFilter(parity) => Some(self.take(Some(parity))),
            Step::Recv | Step::SelectRecv | Step::RaceRecv | Step::Filter(_) => {
                let parity = if let Step::Filter(parity) = step { Some(parity) } else { None };
                match self.take(parity) {
                    End::Empty => {
                        self.receivers.push_back(Waiting {
                            step: number,
                            value: parity,
                            lazy: false,
                        });
                        None
                    }
                    end => Some(end),
                }
            }
            Step::Cancel(victim) => {
                self.cancel(victim);
                Some(End::Done)
            }
            Step::Close | Step::CloseNow => {
                self.closed = true;
                let now = step == Step::CloseNow;
                if now {
                    self.buffer.clear();
                }
                let (stay, go): (VecDeque<_>, VecDeque<_>) =
                    self.senders.iter().copied().partition(|sender| !now && !sender.lazy);
                self.senders = stay;
                for sender in go {
                    self.ends[sender.step] = Some(End::GoneWith(sender.value.unwrap()));
                }
                Some(End::Done)
            }
        };
        if end.is_some() {
            self.ends[number] = end;
        }
        self.settle();
    }

    fn cancel(&mut self, victim: usize) {
        if let Some(at) = self.senders.iter().position(|sender| sender.step == victim) {
            let sender = self.senders.remove(at).unwrap();
            self.ends[victim] = Some(End::CancelledWith(sender.value.unwrap()));
        }
        if let Some(at) = self.receivers.iter().position(|receiver| receiver.step == victim) {
            self.receivers.remove(at);
            self.ends[victim] = Some(End::Cancelled);
        }
    }
}

fn received(result: Result<u32, RecvError>) -> End {
    match result {
        Ok(value) => End::Got(value),
        Err(RecvError::Disconnected) => End::Gone,
        Err(RecvError::Cancelled) => End::Cancelled,
    }
}

fn sent(result: Result<(), SendError<u32>>) -> End {
    match result {
        Ok(()) => End::Sent,
        Err(SendError::Disconnected(value)) => End::GoneWith(value),
        Err(SendError::Cancelled(value)) => End::CancelledWith(value),
    }
}

/// Performs the step, in a task of its own.
fn perform(step: Step, sender: &Sender<u32>, receiver: &Receiver<u32>) -> End {
    match step {
        Step::Send(value) => sent(sender.send(value)),
        Step::SelectSend(value) => select! {
            send(sender, value) -> result => sent(result),
            send(sender, value) -> result => sent(result),
        },
        Step::TrySend(value) => match sender.try_send(value) {
            Ok(()) => End::Sent,
            Err(TrySendError::Full(value)) => End::Full(value),
            Err(TrySendError::Disconnected(value)) => End::GoneWith(value),
        },
        Step::Recv => received(receiver.recv()),
        Step::SelectRecv => select! {
            recv(receiver) -> result => received(result),
            recv(receiver) -> result => received(result),
        },
        Step::RaceRecv => {
            source::race([receiver, receiver]).wait().map_or(End::Cancelled, received)
        }
        Step::Filter(parity) => receiver
            .filter(move |value| value % 2 == parity)
            .wait()
            .map_or(End::Cancelled, received),
        Step::TryRecv => match receiver.try_recv() {
            Ok(value) => End::Got(value),
            Err(TryRecvError::Empty) => End::Empty,
            Err(TryRecvError::Disconnected) => End::Gone,
        },
        Step::TryFilter(parity) => {
            match receiver.filter(move |value| value % 2 == parity).try_take() {
                Some(result) => received(result),
                None => End::Empty,
            }
        }
        Step::Close => {
            if fastrand::bool() {
                sender.close()
            } else {
                receiver.close()
            }
            End::Done
        }
        Step::CloseNow => {
            if fastrand::bool() {
                sender.close_now()
            } else {
                receiver.closer().close_now()
            }
            End::Done
        }
        Step::Cancel(_) => unreachable!("played by the script"),
    }
}

fn script(random: &mut fastrand::Rng, with_offers: bool) -> Vec<Step> {
    let length = random.usize(5..60);
    // In some scripts one side is in the majority, and few scripts close early.
    let bias = random.u32(0..3);
    (0..length)
        .map(|number| {
            let value = random.u32(0..1_000);
            let side = match bias {
                0 => random.u32(0..20),
                1 => random.u32(0..26) % 20,
                _ => random.u32(6..32) % 20,
            };
            match side {
                0..3 => Step::Send(value),
                3 => Step::TrySend(value),
                4..6 if with_offers => Step::SelectSend(value),
                4..6 => Step::Send(value),
                6..8 => Step::Recv,
                8 => Step::SelectRecv,
                9 => Step::RaceRecv,
                10 | 11 => Step::Filter(value % 2),
                12 => Step::TryRecv,
                13 => Step::TryFilter(value % 2),
                14..18 if number > 0 => Step::Cancel(random.usize(0..number)),
                18 if random.u32(0..6) == 0 => Step::Close,
                19 if random.u32(0..12) == 0 => Step::CloseNow,
                _ => Step::Recv,
            }
        })
        .collect()
}

fn kind(random: &mut fastrand::Rng) -> Kind {
    let some = random.usize(1..4);
    match random.u32(0..8) {
        0..3 => Kind::Bounded(0),
        3 | 4 => Kind::Bounded(some),
        5 => Kind::Unbounded,
        6 => [Kind::Dropping(some), Kind::Sliding(some)][random.usize(0..2)],
        _ => Kind::Oneshot,
    }
}

/// Lets all tasks run until none can.
fn settle() {
    for _ in 0..12 {
        ecru::yield_now().unwrap();
    }
}

fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let kind = kind(&mut random);
    // A refusing receiver, and a sender that has not evaluated its value, cannot know that they
    // will not agree. When room for two has come, an existing value may also be faster than one
    // that has yet to be evaluated. A script therefore has either selects that send, or receivers
    // that refuse.
    let with_offers = random.bool();
    let mut script = script(&mut random, with_offers);
    if with_offers {
        for step in &mut script {
            if let Step::Filter(_) = step {
                *step = Step::Recv;
            }
        }
    }
    let mut model = Model::new(kind);
    let (sender, receiver) = kind.make();
    let ends = Mutex::new(vec![None; script.len()]);
    ecru::scope(|s| {
        let mut tasks = Vec::new();
        for (number, step) in script.iter().copied().enumerate() {
            let (sender, receiver, ends) = (&sender, &receiver, &ends);
            if let Step::Cancel(victim) = step {
                let victim: &ecru::JoinHandle<'_, ()> = &tasks[victim];
                victim.cancel();
                ends.lock().unwrap()[number] = Some(End::Done);
                tasks.push(s.spawn_local(|| ()));
            } else {
                tasks.push(s.spawn_local(move || {
                    let end = perform(step, sender, receiver);
                    ends.lock().unwrap()[number] = Some(end);
                }));
            }
            settle();
            model.play(number, step);
            let seen = ends.lock().unwrap()[..=number].to_vec();
            assert_eq!(
                seen, model.ends,
                "seed {seed}, {kind:?}: after step {number} of {script:?}"
            );
            assert_eq!(
                receiver.len(),
                model.buffer.len(),
                "seed {seed}: step {number} of {script:?}"
            );
            assert_eq!(sender.is_closed(), model.closed, "seed {seed}");
        }
        s.cancel();
    });
    // The remaining waiters were cancelled. The channel contains what the model contains.
    assert!(receiver.try_iter().eq(model.buffer), "seed {seed}: {script:?}");
}

#[test]
fn channels_do_as_the_model() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ECRU_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let rounds = if cfg!(ecru_baton) { 20 } else { 400 };
            let first = fastrand::u64(0..u64::MAX / 2);
            first..first + number("ECRU_MODEL_ROUNDS").unwrap_or(rounds)
        }
    };
    println!("seeds {seeds:?}");
    let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
    for seed in seeds {
        runtime.run(|| play(seed));
    }
}
