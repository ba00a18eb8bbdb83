//! Connections.

use crate::program::{Model, scratch_path, shown, shown_error};
use ecru::channel;
use ecru::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ecru::sim;
use std::io::{self, Read, Write};
use std::net::Shutdown;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Streams {
    Tcp,
    /// With the kernel, these are on one machine, too.
    TcpBetweenHosts,
    /// A connection to a listener.
    Unix,
    UnixPair,
}

/// An operation on one of the two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write(usize, usize),
    Read(usize, usize),
    Peek(usize),
    Shut(usize, Shutdown),
    Close(usize),
    TakeError(usize),
    PeerAddr(usize),
    LocalAddr(usize),
    /// Closes without waiting for what was not sent.
    CloseHard(usize),
}

enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! on_end {
    ($end:expr, $stream:ident => $call:expr) => {
        match $end {
            End::Tcp($stream) => $call,
            End::Unix($stream) => $call,
        }
    };
}

pub(crate) struct State {
    ends: [Option<End>; 2],
    /// How many bytes each end has sent.
    sent: [u8; 2],
    /// Keeps the other host.
    _done: Option<channel::Sender<()>>,
}

fn tcp(address: &str) -> [TcpStream; 2] {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [client, listener.accept().unwrap().0]
}

fn between_hosts() -> ([TcpStream; 2], channel::Sender<()>) {
    let (tx, rx) = channel::bounded(1);
    let (done, waits) = channel::bounded::<()>(0);
    sim::host("peer", move || {
        let listener = TcpListener::bind("0.0.0.0:1")?;
        tx.send(listener.accept()?.0).unwrap();
        let _ = waits.recv();
        Ok(())
    });
    sim::settle();
    let client = TcpStream::connect("peer:1").unwrap();
    ([client, rx.recv().unwrap()], done)
}

fn unix() -> [UnixStream; 2] {
    let path = scratch_path();
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    let server = listener.accept().unwrap().0;
    ecru::fs::remove_file(&path).unwrap();
    [client, server]
}

impl Model for Streams {
    type Op = Op;
    type State = State;

    fn operations(self) -> Vec<Op> {
        let of = |end| {
            vec![
                Op::Write(end, 3),
                Op::Write(end, 0),
                Op::Read(end, 8),
                Op::Read(end, 1),
                Op::Read(end, 0),
                Op::Peek(end),
                Op::Shut(end, Shutdown::Read),
                Op::Shut(end, Shutdown::Write),
                Op::Shut(end, Shutdown::Both),
                Op::Close(end),
                Op::CloseHard(end),
                Op::TakeError(end),
                Op::PeerAddr(end),
                Op::LocalAddr(end),
            ]
        };
        [of(0), of(1)].concat()
    }

    fn begin(self) -> State {
        let (ends, done) = match self {
            Streams::TcpBetweenHosts if sim::is_simulated() => {
                let (ends, done) = between_hosts();
                (ends.map(End::Tcp), Some(done))
            }
            Streams::Tcp | Streams::TcpBetweenHosts => (tcp("127.0.0.1:0").map(End::Tcp), None),
            Streams::Unix => (unix().map(End::Unix), None),
            Streams::UnixPair => {
                let (one, other) = UnixStream::pair().unwrap();
                ([End::Unix(one), End::Unix(other)], None)
            }
        };
        for end in &ends {
            on_end!(end, stream => stream.set_nonblocking(true)).unwrap();
        }
        State { ends: ends.map(Some), sent: [0; 2], _done: done }
    }

    fn step(self, state: &mut State, op: Op) -> String {
        let (Op::Write(end, _)
        | Op::Read(end, _)
        | Op::Peek(end)
        | Op::Shut(end, _)
        | Op::Close(end)
        | Op::TakeError(end)
        | Op::PeerAddr(end)
        | Op::LocalAddr(end)
        | Op::CloseHard(end)) = op;
        let Some(stream) = &mut state.ends[end] else { return String::from("closed") };
        let sent = &mut state.sent[end];
        match op {
            Op::Write(_, count) => {
                let bytes: Vec<u8> = (0..count).map(|at| *sent + at as u8).collect();
                let result = on_end!(stream, stream => stream.write(&bytes));
                *sent += *result.as_ref().unwrap_or(&0) as u8;
                shown(result)
            }
            Op::Read(_, count) => {
                let mut bytes = vec![0; count];
                let result = on_end!(stream, stream => stream.read(&mut bytes));
                shown(result.map(|count| bytes[..count].to_vec()))
            }
            Op::Peek(_) => {
                let mut bytes = [0; 8];
                let result = on_end!(stream, stream => stream.peek(&mut bytes));
                shown(result.map(|count| bytes[..count].to_vec()))
            }
            Op::Shut(_, how) => shown(on_end!(stream, stream => stream.shutdown(how))),
            Op::TakeError(_) => {
                let result = on_end!(stream, stream => stream.take_error());
                shown(result.map(|error| error.map(|error| shown_error(&error))))
            }
            Op::PeerAddr(_) => shown_address(on_end!(stream, stream => name(stream.peer_addr()))),
            Op::LocalAddr(_) => shown_address(on_end!(stream, stream => name(stream.local_addr()))),
            Op::Close(_) => {
                state.ends[end] = None;
                String::from("closes")
            }
            Op::CloseHard(_) => {
                if let End::Tcp(stream) = stream {
                    stream.set_linger(Some(std::time::Duration::ZERO)).unwrap();
                }
                state.ends[end] = None;
                String::from("closes")
            }
        }
    }

    fn excuse(self, _program: &[Op], _real: &str, _simulated: &str) -> Option<&'static str> {
        None
    }
}

fn name<T: std::fmt::Debug>(address: io::Result<T>) -> io::Result<String> {
    address.map(|address| format!("{address:?}"))
}

/// Describes an address, of which only its kind is the same in both runs.
fn shown_address(name: io::Result<String>) -> String {
    let kind = |name: String| match name {
        name if name.contains("unnamed") => "unnamed",
        name if name.contains("0.0.0.0") => "unspecified",
        _ => "named",
    };
    shown(name.map(kind))
}
