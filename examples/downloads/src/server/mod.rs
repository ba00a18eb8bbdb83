//! The embedded server: a task for each connection, with a rate limit for each response.
//!
//! It runs on a thread and a runtime of its own, so that the client's figures do not include it. It
//! serves `/file-N.bin` for N from 0, all of the same length, with the bytes that
//! [`content`](crate::content) defines.

mod pace;
mod request;
mod response;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::progress::write_line;
use crate::runtime::{self, CancelHandle, TcpListener, TcpStream};
use request::{Heads, Unreadable};

/// A kept-alive connection that sends nothing for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// A connection whose client reads nothing for this long is closed.
const STALLED: Duration = Duration::from_secs(60);

/// The files that are served, and their rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) files: u64,
    pub(crate) size: u64,
    /// Bytes per second for one response.
    pub(crate) rate: u64,
}

/// The path of one file.
pub(crate) fn path(index: u64) -> String {
    format!("/file-{index}.bin")
}

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: CancelHandle,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server on `address` (port 0: any free port), with a runtime of one worker.
    pub(crate) fn start(address: SocketAddr, offer: Offer) -> io::Result<Self> {
        let (started, start) = mpsc::channel();
        let failed = started.clone();
        let thread = std::thread::Builder::new().name("server".into()).spawn(move || {
            let ran = runtime::run(Some(1), || {
                runtime::cancel_scope(|stop| listen(address, offer, stop, &started))
            });
            if let Err(error) = ran {
                let _ = failed.send(Err(error));
            }
        })?;
        let answer = start
            .recv()
            .map_err(|_| io::Error::other("the server's thread ended before it listened"))?;
        let (address, stop) = answer?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The URL of one file.
    pub(crate) fn url(&self, index: u64) -> String {
        format!("http://{}{}", self.address, path(index))
    }

    /// Waits until the server ends, which happens only when it is stopped.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Returns a handle that stops the server from another thread.
    pub(crate) fn stopper(&self) -> CancelHandle {
        self.stop.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) type Started = mpsc::Sender<io::Result<(SocketAddr, CancelHandle)>>;

/// Serves until `stop` is cancelled. `started` receives the address.
pub(crate) fn listen(address: SocketAddr, offer: Offer, stop: CancelHandle, started: &Started) {
    let bound =
        TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let listener = match bound {
        Err(error) => return drop(started.send(Err(error))),
        Ok((address, listener)) => {
            let _ = started.send(Ok((address, stop)));
            listener
        }
    };
    // The expected error is that too many files are open. The connection then waits in the kernel's
    // queue until another has ended.
    let mut said = false;
    runtime::accept_each(
        &listener,
        |stream| {
            // A client may disconnect at any time, and the server of this program keeps no log.
            let _ = converse(&stream, offer);
        },
        |error| {
            if !std::mem::replace(&mut said, true) && error.raw_os_error() != Some(libc::EMFILE) {
                write_line(&format!(
                    "server: cannot accept a connection: {error}; it keeps trying"
                ));
            }
        },
    );
}

/// Answers one request after another, until the client or an error ends it.
fn converse(stream: &TcpStream, offer: Offer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(STALLED))?;
    let mut heads = Heads::new(stream);
    loop {
        match heads.next() {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => {
                let keep = request.keep_alive;
                response::answer(stream, &request, offer)?;
                if !keep {
                    return Ok(());
                }
            }
            Err(Unreadable::Io(error)) => return Err(error),
            Err(Unreadable::Bad(status)) => {
                let mut to = stream;
                return to.write_all(response::plain(status, false).as_bytes());
            }
        }
    }
}
