//! One connection, and the clock of the server.

use std::io::{self, BufReader, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ecru::channel::{self, Receiver, Sender};
use ecru::net::{TcpListener, TcpStream};
use ecru::select;

use super::PORT;
use super::state::State;
use super::wire::{self, Frame};

/// What the tasks of the server share. No lock is held during a wait.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Tells the clock that something is due earlier than it thought.
    earlier: (Sender<()>, Receiver<()>),
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { state: Mutex::default(), earlier: channel::sliding(1) }
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no task of the server has panicked")
    }

    /// Does what is due, and sees to it that the clock does what is due later.
    fn advance(&self, state: &mut State) {
        if state.advance(ecru::time::now()) {
            let _ = self.earlier.0.try_send(());
        }
    }
}

/// Runs the server until its host stops.
pub(super) fn serve(shared: &Shared) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    ecru::scope(|s| {
        s.builder().name("clock").spawn_daemon(|| keep_time(shared));
        listener.serve(1000, |stream, _| speak(shared, &stream))
    })
}

fn keep_time(shared: &Shared) {
    let earlier = &shared.earlier.1;
    while !ecru::is_cancelled() {
        let due = {
            let mut state = shared.state();
            state.advance(ecru::time::now());
            state.due
        };
        let patience = due.map_or(Duration::MAX, |due| due - ecru::time::now());
        select! {
            recv(earlier) -> told => if told.is_err() { return },
            default(patience) => {},
        }
    }
}

/// Removes a connection when its task ends, also by a crash of the host.
struct Closing<'a>(&'a Shared, u64);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state().close(self.1);
    }
}

fn speak(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let (out, written) = channel::unbounded::<Vec<u8>>();
    let _ = out.send(INFO.into());
    let id = shared.state().open(out.clone());
    let _closing = Closing(shared, id);
    ecru::scope(|s| {
        s.builder().name("writer").spawn_daemon(move || write(stream, &written));
        let mut input = BufReader::new(stream);
        while let Some(frame) = wire::read(&mut input)? {
            let mut state = shared.state();
            match frame {
                Frame::Connect | Frame::Pong => {}
                Frame::Ping => drop(out.try_send(b"PONG\r\n".into())),
                Frame::Subscribe { subject, sid } => state.subscribe(id, sid, subject),
                Frame::Unsubscribe { sid } => state.unsubscribe(id, sid),
                Frame::Publish(message) => state.publish(message, ecru::time::now()),
            }
            shared.advance(&mut state);
        }
        Ok(())
    })
}

const INFO: &str = "INFO {\"server_id\":\"SIM\",\"server_name\":\"broker\",\"version\":\"2.12.1\",\
    \"headers\":true,\"jetstream\":true,\"max_payload\":1048576}\r\n";

fn write(mut stream: &TcpStream, written: &Receiver<Vec<u8>>) -> io::Result<()> {
    for mut bytes in written {
        while let Ok(more) = written.try_recv() {
            bytes.extend(more);
        }
        stream.write_all(&bytes)?;
    }
    Ok(())
}
