//! Channels whose lock is no longer biased to one thread, and channels whose users wait in turn.

use std::hint::black_box;
use std::thread;

use ecru::channel::{Receiver, Sender, bounded};

use super::Work;
use super::ecru_side::{ALIVE, one_worker};

/// All works on channels.
pub(super) const WORKS: &[Work] = &[
    ("channel-rendezvous-revoked", |operations| hand_over(revoked(0), operations)),
    ("channel-128-revoked", |operations| send_and_receive(&revoked(128), operations)),
    ("channel-1-waits", |operations| hand_over(bounded(1), operations)),
    ("channel-16-waits", |operations| hand_over(bounded(16), operations)),
];

/// Returns a channel that one thread has used often and another thread once. Its lock is not biased
/// any more.
fn revoked(capacity: usize) -> (Sender<u64>, Receiver<u64>) {
    let (sender, receiver) = bounded(capacity);
    for _ in 0..200 {
        assert!(receiver.try_recv().is_err(), "nothing was sent");
    }
    thread::scope(|threads| {
        threads.spawn(|| assert!(receiver.try_recv().is_err(), "nothing was sent"));
    });
    (sender, receiver)
}

/// A message into a buffer and out of it, without a wait.
pub(super) fn send_and_receive((sender, receiver): &(Sender<u64>, Receiver<u64>), operations: u64) {
    one_worker().run(|| {
        for operation in 0..operations {
            sender.send(operation).expect(ALIVE);
            black_box(receiver.recv().expect(ALIVE));
        }
    });
}

/// A message from task to task. The sender waits when the buffer is full, the receiver when it is
/// empty.
pub(super) fn hand_over((sender, receiver): (Sender<u64>, Receiver<u64>), operations: u64) {
    one_worker().run(|| {
        ecru::scope(|scope| {
            scope.spawn(|| (0..operations).for_each(|value| sender.send(value).expect(ALIVE)));
            for _ in 0..operations {
                black_box(receiver.recv().expect(ALIVE));
            }
        });
    });
}
