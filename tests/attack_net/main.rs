//! What hostile peers, and hostile but safe code, might do to sockets and to the drivers below them: each of these once was, or could
//! become, a wait that nobody ends, a server that a stranger ends, or a processor that runs for nothing.

#[path = "../common/mod.rs"]
mod common;
mod names;
mod servers;
mod streams;
mod turns;

use ecru::{DriverKind, Runtime};

use common::{PATIENCE, Watchdog, ms, pair};

/// Runs `body` on each driver, with one worker and with two.
fn each(body: impl Fn()) {
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        for workers in [1, 2] {
            let _in_time = Watchdog::new();
            Runtime::builder()
                .workers(workers)
                .placement(ecru::Placement::Together)
                .driver(kind)
                .build()
                .unwrap()
                .run(&body);
        }
    }
}
