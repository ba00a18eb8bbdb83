//! Rows of `doc/behaviour/channel.md`: kinds of channels, waiting at either end, errors.

mod apart;
mod beside;
mod closing;
mod ends;
mod errors;
mod kinds;
mod limits;
mod many;
mod order;
mod permits;

use std::thread;
use std::time::Instant;

use crate::common::PATIENCE;
use crate::support::until;
use ecru::channel::{self, Receiver, Sender};

/// Returns one channel of each kind that keeps every value, with its name.
fn kinds<T>() -> [(&'static str, Sender<T>, Receiver<T>); 4] {
    let named = |name, (sender, receiver)| (name, sender, receiver);
    [
        named("rendezvous", channel::bounded(0)),
        named("one", channel::bounded(1)),
        named("several", channel::bounded(7)),
        named("unbounded", channel::unbounded()),
    ]
}

/// Waits for a condition on a task or on a thread.
fn until_on(side: crate::support::Side, mut condition: impl FnMut() -> bool) {
    match side {
        crate::support::Side::Task => until(condition),
        crate::support::Side::Thread => {
            let start = Instant::now();
            while !condition() {
                assert!(start.elapsed() < PATIENCE / 2, "what is waited for does not happen");
                thread::yield_now();
            }
        }
    }
}

/// A type that cannot be formatted, compared or cloned.
struct Opaque;
