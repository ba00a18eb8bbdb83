//! The thread that serves an inspect socket. The module above states the limits.
//!
//! ```text
//!   accepted --> Reads --- the line is there ---> Due --- it is the turn of ---> Writes --> closed
//!                  |                                      commands                 |
//!                  +--> closed: 2 s are over, or dismissed                         +--> 5 s are over
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;

use super::commands;
use crate::base::clock;
use crate::sched::Pool;

const CLIENTS_MAX: usize = 16;
const REQUEST_MAX: usize = 256;
const READ_LIMIT: Duration = Duration::from_secs(2);
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The number of bytes of answers beyond which no command is carried out.
const ANSWERS_MAX: usize = 64 << 20;
/// The next command waits for this many times the time that the last one has taken.
const REST: u32 = 4;
/// But not for longer: names of functions are looked up in a while that takes no time of the workers.
const REST_MAX: Duration = Duration::from_millis(200);
/// How long no client is accepted after an accept has failed, for example without descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// What each line begins with.
const VERSION: &str = "ecru/1 ";

/// See the module.
pub(super) struct Server {
    listener: UnixListener,
    stop: Arc<OwnedFd>,
    pool: Arc<Pool>,
}

struct Client {
    stream: UnixStream,
    stage: Stage,
    /// When the client is given up. While its request is due, it waits for this server.
    deadline: Option<Instant>,
}

enum Stage {
    Reads(Vec<u8>),
    Due(String),
    Writes { answer: Vec<u8>, sent: usize },
    Over,
}

impl Server {
    pub(super) fn new(listener: OwnedFd, stop: Arc<OwnedFd>, pool: Arc<Pool>) -> Server {
        Server { listener: UnixListener::from(listener), stop, pool }
    }

    pub(super) fn serve(self) {
        let mut clients: VecDeque<Client> = VecDeque::new();
        let (mut next_command, mut next_accept) = (clock::now(), clock::now());
        loop {
            let now = clock::now();
            let accepts = next_accept <= now && has_room(&clients);
            let until = until(&clients, now, next_command, next_accept);
            let Ok(ready) = self.wait(accepts, &clients, until) else { return };
            if ready.stops {
                return;
            }
            let now = clock::now();
            for (client, is_ready) in clients.iter_mut().zip(ready.clients) {
                if is_ready {
                    client.go_on(now);
                }
                if client.deadline.is_some_and(|deadline| deadline <= now) {
                    client.stage = Stage::Over;
                }
            }
            clients.retain(|client| !matches!(client.stage, Stage::Over));
            if ready.accepts && !accept(&self.listener, &mut clients) {
                next_accept = clock::now() + PAUSE;
            }
            if next_command <= now
                && answers(&clients) < ANSWERS_MAX
                && let Some(client) =
                    clients.iter_mut().find(|client| matches!(client.stage, Stage::Due(_)))
            {
                let begun = clock::now();
                client.answer(&self.pool);
                let ended = clock::now();
                let rest = REST * ended.saturating_duration_since(begun);
                next_command = ended + rest.min(REST_MAX);
            }
        }
    }

    /// Sleeps until something can be done.
    fn wait(
        &self,
        accepts: bool,
        clients: &VecDeque<Client>,
        until: Option<Instant>,
    ) -> io::Result<Ready> {
        let mut all = vec![PollFd::new(&self.stop, PollFlags::IN)];
        all.push(PollFd::from_borrowed_fd(
            self.listener.as_fd(),
            if accepts { PollFlags::IN } else { PollFlags::empty() },
        ));
        all.extend(clients.iter().map(|client| PollFd::new(&client.stream, client.awaits())));
        let left = until.map(|until| until.saturating_duration_since(clock::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut all, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<bool> = all.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok(Ready {
            stops: is_ready[0],
            accepts: accepts && is_ready[1],
            clients: is_ready[2..].to_vec(),
        })
    }
}

/// What can be done.
struct Ready {
    stops: bool,
    accepts: bool,
    clients: Vec<bool>,
}

/// Returns whether a client can be accepted, perhaps in the place of one that has sent no request.
fn has_room(clients: &VecDeque<Client>) -> bool {
    clients.len() < CLIENTS_MAX
        || clients.iter().any(|client| matches!(client.stage, Stage::Reads(_)))
}

fn answers(clients: &VecDeque<Client>) -> usize {
    let waiting = clients.iter().map(|client| match &client.stage {
        Stage::Writes { answer, .. } => answer.len(),
        _ => 0,
    });
    waiting.sum()
}

/// Returns when something is to be done, even if no client does anything.
fn until(
    clients: &VecDeque<Client>,
    now: Instant,
    next_command: Instant,
    next_accept: Instant,
) -> Option<Instant> {
    let is_due = |client: &Client| matches!(client.stage, Stage::Due(_));
    // Too many answers: a client takes one, or its deadline passes.
    let command =
        (clients.iter().any(is_due) && answers(clients) < ANSWERS_MAX).then_some(next_command);
    let accept = (next_accept > now).then_some(next_accept);
    let deadlines = clients.iter().filter_map(|client| client.deadline);
    deadlines.chain(command).chain(accept).min()
}

/// Accepts a client. Returns false if no client should be accepted for a moment.
fn accept(listener: &UnixListener, clients: &mut VecDeque<Client>) -> bool {
    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) => {
            return matches!(
                error.kind(),
                io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
            );
        }
    };
    let is_own =
        rustix::net::sockopt::socket_peercred(&stream).is_ok_and(|peer| peer.uid == geteuid());
    if !is_own || stream.set_nonblocking(true).is_err() {
        return true;
    }
    if clients.len() >= CLIENTS_MAX
        && let Some(oldest) =
            clients.iter().position(|client| matches!(client.stage, Stage::Reads(_)))
    {
        clients.remove(oldest);
    }
    let deadline = Some(clock::now() + READ_LIMIT);
    clients.push_back(Client { stream, stage: Stage::Reads(Vec::new()), deadline });
    true
}

impl Client {
    fn awaits(&self) -> PollFlags {
        match self.stage {
            Stage::Reads(_) => PollFlags::IN,
            Stage::Writes { .. } => PollFlags::OUT,
            // It is not looked at, so that a client which has gone does not keep the thread busy.
            Stage::Due(_) | Stage::Over => PollFlags::empty(),
        }
    }

    /// Does what can be done without waiting.
    fn go_on(&mut self, now: Instant) {
        let done = match &mut self.stage {
            Stage::Reads(line) => read_line(&mut self.stream, line),
            Stage::Writes { answer, sent } => match self.stream.write(&answer[*sent..]) {
                Ok(0) => Some(Stage::Over),
                Ok(count) => {
                    *sent += count;
                    (*sent == answer.len()).then_some(Stage::Over)
                }
                Err(error) => stays(&error),
            },
            Stage::Due(_) if has_gone(&self.stream) => Some(Stage::Over),
            Stage::Due(_) | Stage::Over => None,
        };
        if let Some(stage) = done {
            self.enter(stage, now);
        }
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.deadline = match stage {
            Stage::Writes { .. } => Some(now + WRITE_LIMIT),
            _ => None,
        };
        self.stage = stage;
    }

    /// Carries out the request that is due.
    fn answer(&mut self, pool: &Arc<Pool>) {
        let Stage::Due(request) = &self.stage else { return };
        let made = panic::catch_unwind(AssertUnwindSafe(|| commands::run(pool, request)));
        let made = made.unwrap_or_else(|_| Err(String::from("the command has failed")));
        let answer = match made {
            Ok(text) => {
                let mut answer = format!("{VERSION}ok {}\n", text.len()).into_bytes();
                answer.extend_from_slice(text.as_bytes());
                answer
            }
            Err(error) => refusal(&error),
        };
        self.enter(Stage::Writes { answer, sent: 0 }, clock::now());
    }
}

/// Returns whether the client has closed its end. `poll` reports that unasked.
fn has_gone(stream: &UnixStream) -> bool {
    let mut one = [PollFd::new(stream, PollFlags::empty())];
    let polled = poll(&mut one, Some(&Timespec::default()));
    polled.is_ok() && one[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn refusal(text: &str) -> Vec<u8> {
    format!("{VERSION}error {}\n", text.replace('\n', " ")).into_bytes()
}

/// Returns `None` if the client stays as it is until the next event.
fn stays(error: &io::Error) -> Option<Stage> {
    let stays = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    (!stays).then_some(Stage::Over)
}

/// Reads more of the request. Returns the next stage when it is complete.
fn read_line(stream: &mut UnixStream, line: &mut Vec<u8>) -> Option<Stage> {
    let mut room = [0; REQUEST_MAX];
    let count = match stream.read(&mut room[..REQUEST_MAX - line.len()]) {
        Ok(0) => return Some(Stage::Over),
        Ok(count) => count,
        Err(error) => return stays(&error),
    };
    line.extend_from_slice(&room[..count]);
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let is_full = line.len() == REQUEST_MAX;
        let refused = || refusal("the request is longer than 256 bytes");
        return is_full.then(|| Stage::Writes { answer: refused(), sent: 0 });
    };
    Some(match parse(&line[..end]) {
        Ok(request) => Stage::Due(request),
        Err(text) => Stage::Writes { answer: refusal(text), sent: 0 },
    })
}

/// Returns the command of a request, with its arguments.
fn parse(line: &[u8]) -> Result<String, &'static str> {
    let text = str::from_utf8(line).map_err(|_| "the request is not UTF-8")?;
    match text.trim_end_matches('\r').strip_prefix(VERSION) {
        Some(request) => Ok(request.to_owned()),
        None => Err("the request does not begin with `ecru/1 `, the version of this protocol"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{parse, refusal};

    #[test]
    fn requests_have_a_version() {
        assert_eq!(parse(b"ecru/1 dump json"), Ok(String::from("dump json")));
        assert_eq!(parse(b"ecru/1 dump\r"), Ok(String::from("dump")));
        for wrong in [&b""[..], b"dump", b"ecru/2 dump", b"ecru/1", b"\xff\xff", b"GET / HTTP/1.1"]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_error_is_one_line() {
        assert_eq!(refusal("a\nb"), b"ecru/1 error a b\n");
    }
}
