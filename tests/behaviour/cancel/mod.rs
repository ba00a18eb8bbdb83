//! Cancellation, timeouts, shields and hooks.

mod clocks;
mod hooks;
mod limits;
mod reach;
mod reasons;
mod sections;
mod shields;
mod timeouts;
mod waits;

use std::time::{Duration, Instant};

use ecru::net::{TcpListener, TcpStream};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Calls `body` in a section that is already cancelled.
fn cancelled<T>(body: impl FnOnce() -> T) -> T {
    ecru::cancel_scope(|c| {
        c.cancel();
        body()
    })
}

/// Computes for this time without waiting.
fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}
