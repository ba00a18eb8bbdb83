//! Attacks by hostile peers, and by hostile but safe code, on sockets and their drivers. Each of
//! these once was, or could become, a wait that never ends, a server that a peer ends, or a
//! processor that is busy for nothing.

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
