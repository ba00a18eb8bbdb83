//! Attacks on tasks whose work is a future, on `block_on` and on polled sockets: wakers at the worst
//! moment and in the wrong hands, futures that break the rules in a poll or in their destructors,
//! and values that are leaked.
#![expect(clippy::mem_forget, reason = "handles and futures that are forgotten are attacks")]

mod blocked;
mod ends;
mod leaks;
mod sockets;
mod wakers;

use std::sync::Mutex;
use std::task::{Poll, Waker};

use ecru::JoinError;

/// Runs `body` with one worker, and with two.
fn each_run(body: impl Fn()) {
    for workers in [1, 2] {
        crate::run_on(workers, &body);
    }
}

/// Is pending once, and wakes itself.
async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Adds its waker to `to`, and is pending until it is polled again.
async fn given_away(to: &Mutex<Vec<Waker>>) {
    let mut has_waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        to.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Returns the text of the panic with which a task has ended.
#[track_caller]
fn panic_of<T>(joined: Result<T, JoinError>) -> String {
    match joined {
        Err(JoinError::Panicked(payload)) => payload.message().unwrap_or_default().to_owned(),
        Err(other) => panic!("no panic but {other}"),
        Ok(_) => panic!("it did not panic"),
    }
}
