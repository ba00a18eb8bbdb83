//! The inspect socket of a runtime: other programs ask it what the run is doing.
//!
//! # Protocol, version 1
//! The socket is a Unix socket of the type `SOCK_STREAM`. A connection carries one request and one
//! answer. The request is one line of at most 256 bytes:
//!
//! ```text
//! ecru/1 COMMAND ARGUMENTS
//! ```
//!
//! The answer is one line, followed by as many bytes as it says if the request has succeeded. Then
//! the connection is closed.
//!
//! ```text
//! ecru/1 ok LENGTH
//! ecru/1 error TEXT
//! ```
//!
//! The command `help` returns the list of [`commands`].
//!
//! # Who is served, and how much
//! - The socket has the mode 0600, and a client of another user is refused (`SO_PEERCRED`).
//! - One thread of the runtime, `ecru-inspect`, serves all clients. It is no worker, so it answers
//!   while every worker is blocked: the dump then says what the workers are busy with.
//! - A client has two seconds to send its request, and five to take the answer. At most 16 are
//!   served at a time. If a further one comes, the oldest that has not sent its request is
//!   dismissed. If all have, the further one waits in the backlog.
//! - At most 64 MiB of answers are kept for clients that have not taken them. Further requests wait.
//! - The requests together take at most about a fifth of the time, because a dump takes time of the
//!   workers. After a command that has taken a while, the next one waits four times as long, but at
//!   most 200 ms.
//!
//! So a client can delay other clients, but not the program.

mod commands;
mod place;
mod serve;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use self::place::Bound;
use self::serve::Server;
use crate::base::report;
use crate::sched::Pool;

/// The environment variable that opens a socket.
const VARIABLE: &str = "ECRU_INSPECT";

/// The inspect socket of a runtime. It is removed when this is dropped.
pub(crate) struct Inspect {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Removed after the thread has ended.
    _bound: Bound,
}

/// Where a runtime opens its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InspectAt {
    /// At the default place, which is made from the id of the process.
    Default,
    Path(PathBuf),
}

/// Returns where the environment asks for a socket.
pub(crate) fn inspected_by_default() -> Option<InspectAt> {
    let value = std::env::var_os(VARIABLE)?;
    match value.to_str() {
        Some("" | "0") => None,
        Some("1") => Some(InspectAt::Default),
        _ => Some(InspectAt::Path(PathBuf::from(value))),
    }
}

impl Inspect {
    /// Opens the socket and starts its thread.
    ///
    /// # Errors
    /// Returns the system's error if the socket cannot be opened, `AddrInUse` if a program serves
    /// it, and `AlreadyExists` if there is a file of another kind. The text says what to do.
    pub(crate) fn begin(pool: &Arc<Pool>, at: &InspectAt) -> io::Result<Inspect> {
        let (listener, bound) = match at {
            InspectAt::Default => place::bind_by_default()?,
            InspectAt::Path(path) => place::bind(path)?,
        };
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let server = Server::new(listener, Arc::clone(&stop), Arc::clone(pool));
        let builder = thread::Builder::new().name(String::from("ecru-inspect"));
        let thread = Some(builder.spawn(move || server.serve())?);
        Ok(Inspect { stop, thread, _bound: bound })
    }

    /// Opens the socket for which the environment asks. The program goes on without it if that
    /// fails.
    pub(crate) fn begin_if_possible(pool: &Arc<Pool>, at: &InspectAt) -> Option<Inspect> {
        let begun = Inspect::begin(pool, at);
        begun.map_err(|error| report::say(format!("ecru: {VARIABLE}: {error}"))).ok()
    }

    pub(crate) fn path(&self) -> &Path {
        self._bound.path()
    }
}

impl Drop for Inspect {
    fn drop(&mut self) {
        // The write fails only if the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Inspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspect").field("path", &self.path()).finish_non_exhaustive()
    }
}
