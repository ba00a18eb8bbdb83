//! The server: connections, requests, answers.

use crate::cache::Cache;
use crate::counts::{Counted, Counts};
use crate::fleet::Shared;
use crate::lines::Lines;
use crate::request::{Kind, Request};
use crate::stage::Stage;
use crate::work;
use ecru::channel::{self, Receiver};
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::{Permit, Semaphore};
use ecru::{Cancelled, sleep, unblock};
use ecru_fleet::Fleet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The number of CPU tasks that run at a time.
pub const CPU_TASKS: usize = 40;

/// The limit on one connection's requests that are running, or whose answers have not been sent. At
/// the limit nothing more is read from the connection: a client that does not read stops only
/// itself.
pub const IN_HAND: usize = 1024;

/// The minimum number of remembered answers.
const REMEMBERED: usize = 1 << 16;

/// A server of one stage, which may share its CPU tasks with other servers.
#[derive(Debug)]
pub struct Server<'f> {
    stage: Stage,
    pace: f64,
    processors: Semaphore,
    cache: Cache,
    counts: Arc<Counts>,
    shared: Option<Shared<'f>>,
}

/// An answer to be sent. Its permit is returned when it has been sent.
struct Answer<'s> {
    byte: u8,
    // This field is dropped before the permit. Otherwise the next request would be counted while
    // this one still is.
    _in_hand: Counted<'s>,
    _room: Permit,
}

impl<'f> Server<'f> {
    /// Creates a server. All its sleeps are scaled by `pace`, which is 1 except in tests.
    pub fn new(stage: Stage, pace: f64) -> Server<'f> {
        Server {
            stage,
            pace,
            processors: Semaphore::new(CPU_TASKS),
            cache: Cache::new(REMEMBERED),
            counts: Arc::default(),
            shared: None,
        }
    }

    /// Lets the server count in `counts`.
    pub fn with_counts(mut self, counts: &Arc<Counts>) -> Server<'f> {
        self.counts = Arc::clone(counts);
        self
    }

    /// Shares the CPU tasks with all servers of a fleet: the limit on those that run at a time, and
    /// the answers that are known. `compute` runs the tasks that this server gets.
    ///
    /// # Errors
    /// Returns the errors of [`Shared::join`].
    pub fn in_fleet(
        mut self,
        fleet: &Fleet<'f>,
        compute: impl Fn(u64) -> u8 + Send + Sync + 'f,
    ) -> io::Result<Server<'f>> {
        let counts = Arc::clone(&self.counts);
        self.shared = Some(Shared::join(fleet, move |seed| {
            counts.computed.fetch_add(1, Relaxed);
            let _running = counts.cpu.enter();
            unblock(|| compute(seed))
        })?);
        Ok(self)
    }

    /// Returns the counts of the server.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Serves all clients until it is cancelled. When it returns, the connections have ended too.
    ///
    /// # Errors
    /// Returns the errors of `accept`, except temporary ones: a client that has disconnected, or no
    /// free descriptors for a while. In a fleet, returns the errors of [`Shared::serve`].
    pub fn serve(&self, listener: &TcpListener) -> io::Result<()> {
        let Some(shared) = &self.shared else { return self.accept(listener) };
        // The one that fails ends the other.
        ecru::try_scope(|s| {
            s.spawn(|| shared.serve());
            self.accept(listener)
        })
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<()> {
        ecru::scope(|s| {
            loop {
                match listener.accept() {
                    Ok((stream, _)) if self.stage == Stage::Serial => self.connection(&stream),
                    Ok((stream, _)) => drop(s.spawn(move || self.connection(&stream))),
                    Err(error) if Cancelled::find(&error).is_some() => return Ok(()),
                    Err(error) if passes(&error) => _ = sleep(Duration::from_millis(10)),
                    Err(error) => {
                        s.cancel();
                        return Err(error);
                    }
                }
            }
        })
    }

    /// Serves one client until it disconnects, which it may do at any point.
    fn connection(&self, stream: &TcpStream) {
        let _connected = self.counts.connections.enter();
        let _ = stream.set_nodelay(true);
        let _ = match self.stage {
            Stage::Pipelined => self.at_once(stream),
            _ => self.in_turn(stream),
        };
    }

    /// Answers each request before it reads the next.
    fn in_turn(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut lines = Lines::new(stream);
        while let Some(request) = self.next_request(&mut lines)? {
            let _in_hand = self.counts.in_hand.enter();
            stream.write_all(&[self.answer(request)?])?;
        }
        Ok(())
    }

    /// Runs a task for each request, and one task that writes. A failure of any of them ends the
    /// others.
    fn at_once(&self, stream: &TcpStream) -> io::Result<()> {
        let room = Semaphore::new(IN_HAND);
        let (answers, unsent) = channel::unbounded();
        // The body owns its sender. When there are no more requests, and the last one has its
        // answer, the writer ends.
        ecru::try_scope(move |s| {
            s.spawn(move || send_all(stream, &unsent));
            let mut lines = Lines::new(stream);
            loop {
                let room = room.acquire()?;
                let Some(request) = self.next_request(&mut lines)? else { return Ok(()) };
                let (in_hand, answers) = (self.counts.in_hand.enter(), answers.clone());
                s.spawn(move || {
                    let byte = self.answer(request)?;
                    // If nothing receives the answer, the writer has failed, which ends this
                    // connection.
                    let _ = answers.send(Answer { byte, _in_hand: in_hand, _room: room });
                    Ok(())
                });
            }
        })
    }

    fn next_request(&self, lines: &mut Lines<&TcpStream>) -> io::Result<Option<Request>> {
        while let Some(line) = lines.next_line()? {
            match Request::parse(line) {
                Some(request) => {
                    self.counts.requests.fetch_add(1, Relaxed);
                    return Ok(Some(request));
                }
                None => _ = self.counts.malformed.fetch_add(1, Relaxed),
            }
        }
        Ok(None)
    }

    fn answer(&self, request: Request) -> io::Result<u8> {
        if self.stage < Stage::Cache {
            return self.work(request);
        }
        self.cache.answer(request, || self.work(request))
    }

    fn work(&self, request: Request) -> io::Result<u8> {
        self.counts.works.fetch_add(1, Relaxed);
        match (request.kind, &self.shared) {
            (Kind::Cpu, Some(shared)) => Ok(shared.answer(request.seed)?),
            (Kind::Cpu, None) if self.stage < Stage::Task => {
                let _running = self.counts.cpu.enter();
                Ok(work::compute(request.seed))
            }
            (Kind::Cpu, None) => {
                let _permit = self.processors.acquire()?;
                let _running = self.counts.cpu.enter();
                Ok(unblock(|| work::compute(request.seed)))
            }
            (Kind::Io, _) => {
                let _sleeping = self.counts.io.enter();
                let (length, answer) = work::sleep_of(request.seed);
                self.counts.slept_ms.fetch_add(length.as_millis() as u64, Relaxed);
                let length = length.mul_f64(self.pace);
                if self.stage == Stage::Client {
                    std::thread::sleep(length);
                } else {
                    sleep(length)?;
                }
                Ok(answer)
            }
        }
    }
}

/// Sends answers as they come, all available ones at a time, until the channel is disconnected.
fn send_all(mut stream: &TcpStream, unsent: &Receiver<Answer<'_>>) -> io::Result<()> {
    while let Ok(first) = unsent.recv() {
        let ready: Vec<Answer<'_>> =
            std::iter::once(first).chain(unsent.try_iter().take(IN_HAND - 1)).collect();
        let bytes: Vec<u8> = ready.iter().map(|answer| answer.byte).collect();
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// Returns whether an error of `accept` does not concern the listener itself.
fn passes(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::CONNABORTED, Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw_os_error(code)))
}
