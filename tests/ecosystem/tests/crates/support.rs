//! Runs with one and with two workers, and conversations that are cut short.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ecru::net::TcpStream;
use ecru::{CancelReason, Cancelled};

use crate::common::Watchdog;
pub(crate) use crate::common::{listen, pair};

/// The time limit of a conversation that does not continue.
pub(crate) const SHORT: Duration = Duration::from_millis(10);

/// Runs `body` in a task, with one worker, then with two. If it hangs, the process is ended.
#[track_caller]
pub(crate) fn each_run(body: impl Fn() + Sync) {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = ecru::Runtime::builder().workers(workers).build().unwrap();
        // The body runs as a task on a stack of the default size, and not as the root, which has
        // the thread's own stack.
        runtime.run(|| ecru::scope(|s| s.spawn(&body).join().unwrap()));
    }
}

/// Runs two conversations at once in one scope: `serve` gets each connection, and `talk` gets the
/// client's number (0 or 1) and the address.
#[track_caller]
pub(crate) fn two_at_once(
    serve: impl Fn(TcpStream) + Sync,
    talk: impl Fn(usize, SocketAddr) + Sync,
) {
    let (serve, talk) = (&serve, &talk);
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn(|| {
                for _ in 0..2 {
                    let stream = listener.accept().unwrap().0;
                    s.spawn(move || serve(stream));
                }
            });
            for client in [0, 1] {
                s.spawn(move || talk(client, address));
            }
        });
    });
}

/// Runs a body that does not end by itself with a time limit, which must expire. Returns the body's
/// result.
#[track_caller]
pub(crate) fn interrupted<T>(body: impl FnOnce() -> T) -> T {
    let mut returned = None;
    let limited = ecru::timeout(SHORT, || returned = Some(body()));
    assert!(limited.is_err(), "it ended before the limit");
    returned.unwrap()
}

/// Asserts that an error that has come through another crate is that of the time limit.
#[track_caller]
pub(crate) fn assert_timed_out(error: &io::Error) {
    let found = Cancelled::find(error).map(|cancelled| cancelled.reason());
    assert_eq!(found, Some(CancelReason::Deadline), "{error:?}");
}
