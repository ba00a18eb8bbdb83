//! The engine that the tests run on: one server for each test.

use std::io;
use std::time::Duration;

use ecru::Scope;
use ecru_fleet::Fleet;

use crate::server::Server;

/// Something that fleets can be opened on.
pub(crate) struct Broker(Server);

impl Broker {
    /// Opens a fleet.
    pub(crate) fn fleet<'s>(&self, s: &'s Scope<'s, '_>) -> Fleet<'s> {
        Fleet::connect(s, &self.0.url()).unwrap()
    }

    /// A lease that a test can wait for.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// Runs `body` with a fleet, if a server is installed.
pub(crate) fn each(body: impl Fn(&Broker, &Fleet<'_>) -> io::Result<()> + Send + Sync) {
    let Some(server) = Server::start("") else { return };
    let broker = Broker(server);
    ecru::run(|| ecru::scope(|s| body(&broker, &broker.fleet(s)))).unwrap();
}
