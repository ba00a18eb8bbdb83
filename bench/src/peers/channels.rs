//! The peers' channels, behind one trait for tasks and one for threads, so that a row's work is
//! written once for all of them.

use std::fmt::Debug;
use std::future::{Future, ready};

/// The number of messages that a channel holds; `None` for an unbounded channel.
pub(crate) type Capacity = Option<usize>;

/// No end is dropped early in these rows.
pub(crate) const ALIVE: &str = "both ends are alive";

/// Takes the value out of a peer's result, because both ends are alive.
pub(crate) trait Alive {
    type Value;

    fn alive(self) -> Self::Value;
}

impl<T> Alive for Option<T> {
    type Value = T;

    fn alive(self) -> T {
        self.expect(ALIVE)
    }
}

impl<T, E: Debug> Alive for Result<T, E> {
    type Value = T;

    fn alive(self) -> T {
        self.expect(ALIVE)
    }
}

/// A channel between tasks of tokio, whose executor also runs the tasks of channels without an
/// executor of their own.
///
/// The futures are the peer's own, because one more layer around them slows kanal down by a tenth.
pub(crate) trait TaskChannel: 'static {
    type Sender: Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn new(capacity: Capacity) -> (Self::Sender, Self::Receiver);

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send;

    fn recv(receiver: &mut Self::Receiver)
    -> impl Future<Output: Alive<Value = u64> + Send> + Send;
}

/// A channel between OS threads.
pub(crate) trait ThreadChannel: 'static {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver);

    fn send(sender: &Self::Sender, value: u64);

    fn recv(receiver: &Self::Receiver) -> u64;
}

/// tokio's bounded channel. tokio has none without a buffer.
pub(crate) enum Tokio {}

impl TaskChannel for Tokio {
    type Sender = tokio::sync::mpsc::Sender<u64>;
    type Receiver = tokio::sync::mpsc::Receiver<u64>;

    fn new(capacity: Capacity) -> (Self::Sender, Self::Receiver) {
        tokio::sync::mpsc::channel(capacity.expect("the unbounded one is another type"))
    }

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send {
        sender.send(value)
    }

    fn recv(
        receiver: &mut Self::Receiver,
    ) -> impl Future<Output: Alive<Value = u64> + Send> + Send {
        receiver.recv()
    }
}

/// tokio's unbounded channel.
pub(crate) enum TokioUnbounded {}

impl TaskChannel for TokioUnbounded {
    type Sender = tokio::sync::mpsc::UnboundedSender<u64>;
    type Receiver = tokio::sync::mpsc::UnboundedReceiver<u64>;

    fn new(_capacity: Capacity) -> (Self::Sender, Self::Receiver) {
        tokio::sync::mpsc::unbounded_channel()
    }

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send {
        ready(sender.send(value))
    }

    fn recv(
        receiver: &mut Self::Receiver,
    ) -> impl Future<Output: Alive<Value = u64> + Send> + Send {
        receiver.recv()
    }
}

/// kanal, between tasks or between threads.
pub(crate) enum Kanal {}

impl TaskChannel for Kanal {
    type Sender = kanal::AsyncSender<u64>;
    type Receiver = kanal::AsyncReceiver<u64>;

    fn new(capacity: Capacity) -> (Self::Sender, Self::Receiver) {
        capacity.map_or_else(kanal::unbounded_async, kanal::bounded_async)
    }

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send {
        sender.send(value)
    }

    fn recv(
        receiver: &mut Self::Receiver,
    ) -> impl Future<Output: Alive<Value = u64> + Send> + Send {
        receiver.recv()
    }
}

impl ThreadChannel for Kanal {
    type Sender = kanal::Sender<u64>;
    type Receiver = kanal::Receiver<u64>;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver) {
        kanal::bounded(capacity)
    }

    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect(ALIVE);
    }

    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect(ALIVE)
    }
}

/// flume, between tasks or between threads.
pub(crate) enum Flume {}

impl TaskChannel for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn new(capacity: Capacity) -> (Self::Sender, Self::Receiver) {
        capacity.map_or_else(flume::unbounded, flume::bounded)
    }

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send {
        sender.send_async(value)
    }

    fn recv(
        receiver: &mut Self::Receiver,
    ) -> impl Future<Output: Alive<Value = u64> + Send> + Send {
        receiver.recv_async()
    }
}

impl ThreadChannel for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver) {
        flume::bounded(capacity)
    }

    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect(ALIVE);
    }

    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect(ALIVE)
    }
}

/// async-channel, which has no channel without a buffer.
pub(crate) enum AsyncChannel {}

impl TaskChannel for AsyncChannel {
    type Sender = async_channel::Sender<u64>;
    type Receiver = async_channel::Receiver<u64>;

    fn new(capacity: Capacity) -> (Self::Sender, Self::Receiver) {
        capacity.map_or_else(async_channel::unbounded, async_channel::bounded)
    }

    fn send(
        sender: &Self::Sender,
        value: u64,
    ) -> impl Future<Output: Alive<Value = ()> + Send> + Send {
        sender.send(value)
    }

    fn recv(
        receiver: &mut Self::Receiver,
    ) -> impl Future<Output: Alive<Value = u64> + Send> + Send {
        receiver.recv()
    }
}

/// crossbeam-channel, between threads.
pub(crate) enum Crossbeam {}

impl ThreadChannel for Crossbeam {
    type Sender = crossbeam_channel::Sender<u64>;
    type Receiver = crossbeam_channel::Receiver<u64>;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver) {
        crossbeam_channel::bounded(capacity)
    }

    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect(ALIVE);
    }

    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect(ALIVE)
    }
}

/// std's own channel, between threads.
pub(crate) enum Std {}

impl ThreadChannel for Std {
    type Sender = std::sync::mpsc::SyncSender<u64>;
    type Receiver = std::sync::mpsc::Receiver<u64>;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver) {
        std::sync::mpsc::sync_channel(capacity)
    }

    fn send(sender: &Self::Sender, value: u64) {
        sender.send(value).expect(ALIVE);
    }

    fn recv(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect(ALIVE)
    }
}
