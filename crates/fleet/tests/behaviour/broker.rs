//! The engines that the tests run on.

use std::io;
use std::time::Duration;

use ecru::Scope;
use ecru_fleet::Fleet;

/// Something that fleets can be opened on.
pub(crate) struct Broker;

impl Broker {
    /// Opens a fleet.
    pub(crate) fn fleet<'s>(&self, s: &'s Scope<'s, '_>) -> Fleet<'s> {
        Fleet::local(s)
    }

    /// A lease that a test can wait for.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Runs `body` on each engine, with a fleet. In memory it runs in simulations.
pub(crate) fn each(body: impl Fn(&Broker, &Fleet<'_>) -> io::Result<()> + Send + Sync) {
    ecru::sim::test(|| ecru::scope(|s| body(&Broker, &Broker.fleet(s))).unwrap());
}
