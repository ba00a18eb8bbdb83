//! The lower bound for readiness: a loop over epoll, without a runtime.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::serving::{Service, Session};

const LISTENER: u64 = u64::MAX;

/// Serves until the process ends. Answers are short, and a send that would block is an error.
pub(crate) fn serve(service: Service, listener: TcpListener) {
    let poll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
    listener.set_nonblocking(true).expect("it is a socket");
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).expect("added");
    let mut connections: Vec<Option<(TcpStream, Session)>> = Vec::new();
    let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
    let mut events = [empty; 256];
    loop {
        let ready = epoll::wait(&poll, &mut events, None).expect("it waits");
        for event in &events[..ready] {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).expect("it is a socket");
                    stream.set_nodelay(true).expect("it is TCP");
                    let data = EventData::new_u64(connections.len() as u64);
                    let flags = EventFlags::IN | EventFlags::ET;
                    epoll::add(&poll, &stream, data, flags).expect("added");
                    connections.push(Some((stream, Session::new(service))));
                }
                continue;
            }
            let place = &mut connections[event.data.u64() as usize];
            let Some((stream, session)) = place else { continue };
            if answer_all(stream, session).is_err() {
                *place = None;
            }
        }
    }
}

/// Reads until no more bytes are there. The end of the stream is also an error.
fn answer_all(stream: &mut TcpStream, session: &mut Session) -> std::io::Result<()> {
    loop {
        let room = session.room();
        let length = room.len();
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                stream.write_all(session.answer(count))?;
                // The read returned less than there was room for, so nothing is left. The next edge
                // comes with the next bytes.
                if count < length {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
