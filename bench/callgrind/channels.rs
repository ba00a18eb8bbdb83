//! Messages through channels.

use std::hint::black_box;

use ecru::Runtime;
use ecru::channel::{Receiver, Sender, bounded, unbounded};

use super::Work;
use super::ecru_side::{ALIVE, one_worker};

/// All works on channels.
pub(super) const WORKS: &[Work] = &[
    ("channel-rendezvous", |operations| hand_over(bounded(0), operations)),
    ("channel-128", |operations| send_and_receive(&bounded(128), operations)),
    ("channel-unbounded", |operations| send_and_receive(&unbounded(), operations)),
    ("channel-1-waits", |operations| hand_over(bounded(1), operations)),
    ("channel-16-waits", |operations| hand_over(bounded(16), operations)),
];

/// A message into a buffer and out of it, without a wait.
fn send_and_receive((sender, receiver): &(Sender<u64>, Receiver<u64>), operations: u64) {
    one_worker().run(|| {
        for operation in 0..operations {
            sender.send(operation).expect(ALIVE);
            black_box(receiver.recv().expect(ALIVE));
        }
    });
}

/// A message from task to task. The sender waits when the buffer is full, the receiver when it is
/// empty.
fn hand_over(channel: (Sender<u64>, Receiver<u64>), operations: u64) {
    hand_over_on(&one_worker(), channel, operations);
}

pub(super) fn hand_over_on(
    runtime: &Runtime,
    (sender, receiver): (Sender<u64>, Receiver<u64>),
    operations: u64,
) {
    runtime.run(|| {
        ecru::scope(|scope| {
            scope.spawn(|| (0..operations).for_each(|value| sender.send(value).expect(ALIVE)));
            for _ in 0..operations {
                black_box(receiver.recv().expect(ALIVE));
            }
        });
    });
}
