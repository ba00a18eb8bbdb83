//! A third round of attacks: on waits in panic hooks and initializers, pipelines, sends that a
//! shutdown ends, servers, combined sources, and dumps.

mod dumps;
mod explained;
mod hooks;
mod io;
mod names;
mod servers;
mod sockets;
mod sources;

use ecru::{DriverKind, Placement};

use crate::common::{OnDrop, Watchdog};

/// Runs `body` on a runtime with this driver, or not at all if the kernel refuses it.
#[track_caller]
fn run_by(driver: DriverKind, workers: usize, body: impl FnOnce()) {
    let _watchdog = Watchdog::new();
    let builder = ecru::Runtime::builder().driver(driver).workers(workers);
    if let Ok(runtime) = builder.placement(Placement::Together).build() {
        runtime.run(body);
    }
}

#[track_caller]
fn on_each_driver(workers: usize, body: impl Fn()) {
    for driver in [DriverKind::Uring, DriverKind::Poll] {
        run_by(driver, workers, &body);
    }
}
