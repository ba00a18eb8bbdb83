//! Runs with one and with two workers, and conversations that are cut short.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ecru::net::TcpStream;
use ecru::{CancelReason, Cancelled};

use crate::common::Watchdog;
pub(crate) use crate::common::{listen, pair};

/// How long a conversation in the middle is waited for that does not go on.
pub(crate) const SHORT: Duration = Duration::from_millis(10);

/// Runs `body` in a task, with one worker, then with two. What hangs ends the process.
#[track_caller]
pub(crate) fn each_run(body: impl Fn() + Sync) {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = ecru::Runtime::builder().workers(workers).build().unwrap();
        // Not as the root, which has the thread's own stack: as a task on a stack of the default size.
        runtime.run(|| ecru::scope(|s| s.spawn(&body).join().unwrap()));
    }
}

/// Two conversations at once in one scope: what the server does with each connection, and what client 0, or 1, does with the address.
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

/// Runs what does not end by itself with a time limit, which has to strike; gives what it returned.
#[track_caller]
pub(crate) fn interrupted<T>(body: impl FnOnce() -> T) -> T {
    let mut returned = None;
    let limited = ecru::timeout(SHORT, || returned = Some(body()));
    assert!(limited.is_err(), "it ended before the limit");
    returned.unwrap()
}

/// Whether an error that has come through somebody's crate is the time limit's.
#[track_caller]
pub(crate) fn assert_timed_out(error: &io::Error) {
    let found = Cancelled::find(error).map(|cancelled| cancelled.reason());
    assert_eq!(found, Some(CancelReason::Deadline), "{error:?}");
}
