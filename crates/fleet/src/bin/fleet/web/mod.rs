//! `fleet web`: a page with the queues, for a browser.
//!
//! The page is one file without anything from elsewhere. It reads a stream of server-sent events,
//! and sends the token with each request in a header: see [`guard`]. What jobs and servers have
//! chosen reaches the browser as JSON and is shown as text.

mod answer;
mod detail;
mod guard;
mod watch;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ecru::net::TcpListener;
use ecru_hyper::{direct, serve};

use crate::args;
use crate::asking::Asking;
use crate::options;
use answer::Site;
use watch::Watchers;

/// The most connections. A browser has a few.
const CONNECTIONS: usize = 128;

/// How long a browser may take for the head of a request, or for its body.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may be idle, or its browser take nothing of what is sent.
const IDLE: Duration = Duration::from_secs(30);

/// The most bytes of a request's body.
const BODY: usize = 4096;

/// Serves the page until it is interrupted. Returns the exit code.
pub(crate) fn run(settings: args::Web) -> io::Result<u8> {
    ecru::scope(|s| {
        let client = options(&settings.login, settings.limit)?.connect(s, &settings.login.urls)?;
        let listener = TcpListener::bind(&settings.listen).map_err(|error| {
            let text = format!("cannot listen at {}: {error}", settings.listen);
            io::Error::new(error.kind(), text)
        })?;
        let address = listener.local_addr()?;
        let is_made = settings.token.is_none();
        let token = settings.token.map_or_else(guard::secret, Ok)?;
        greet(address, is_made.then_some(&*token), settings.changes)?;
        let watchers = Arc::new(Watchers::new());
        let asking = Asking::new(client.clone(), settings.limit);
        let (own, changes) = (Arc::clone(&watchers), settings.changes);
        let site =
            Site { client, limit: settings.limit, token, changes, hosts: settings.hosts, watchers };
        let served = s.spawn(move || {
            serve(&listener, direct(move |request| site.answer(request)))
                .limit(CONNECTIONS)
                .header_timeout(PATIENCE)
                .idle_timeout(IDLE)
                .body_limit(BODY)
                .body_timeout(PATIENCE)
                .run()
        });
        s.spawn_daemon(move || watch::run(&own, &asking, changes));
        served.join().unwrap_or_else(|error| Err(io::Error::other(error.to_string())))?;
        Ok(0)
    })
}

/// Says where the page is. The token is after `#`, which a browser keeps to itself.
fn greet(address: SocketAddr, made: Option<&str>, may_change: bool) -> io::Result<()> {
    let mut out = ecru::io::stdout();
    let token = made.map(|token| format!("#token={token}")).unwrap_or_default();
    writeln!(out, "http://{address}/{token}")?;
    out.flush()?;
    let mut notes = io::stderr();
    if !may_change {
        writeln!(notes, "fleet: the page only shows; --allow-changes lets it change the dead")?;
    }
    if !address.ip().is_loopback() {
        writeln!(
            notes,
            "fleet: {address} can be reached from other machines, without encryption; put a proxy \
             with TLS before it"
        )?;
    }
    Ok(())
}
