//! ecru's servers.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use ecru::net::{TcpListener, TcpStream};
use ecru::{DriverKind, Runtime, Scope};

use crate::goals::{ECRU, ECRU_POLL, ECRU_WHEN};
use crate::harness::Contender;
use crate::serving::{Service, Session, measure};

/// Returns ecru's contenders, on either driver.
pub(super) fn contenders(family: &str, connections: usize) -> Vec<Contender> {
    let Some(service) = Service::of(family) else { return Vec::new() };
    let mut contenders = vec![
        contender(ECRU, service, connections, DriverKind::Uring),
        contender(ECRU_POLL, service, connections, DriverKind::Poll),
    ];
    if service == Service::Idle {
        let without_tasks = move || measure(service, connections, serve_without_tasks);
        let note = "a task of `spawn_when` for each request, and none between two";
        contenders.push(Contender::sampled(ECRU_WHEN, without_tasks).note(note));
    }
    contenders
}

/// Serves until the process ends. A connection has a task only while it is readable.
fn serve_without_tasks(listener: std::net::TcpListener) {
    let listener = TcpListener::from(OwnedFd::from(listener));
    let runtime = Runtime::builder().workers(1).build().expect("the runtime starts");
    runtime.run(|| {
        ecru::scope(|s| {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                stream.set_nodelay(true).expect("it is TCP");
                answer_next(s, stream, Session::new(Service::Idle));
            }
        });
    });
}

fn answer_next<'scope>(s: &'scope Scope<'scope, '_>, stream: TcpStream, mut session: Session) {
    s.spawn_when(stream.when_readable(), move |mut stream| {
        let count = stream.read(session.room())?;
        if count > 0 {
            stream.write_all(session.answer(count))?;
            answer_next(s, stream, session);
        }
        Ok::<_, std::io::Error>(())
    });
}

/// A server on one worker.
fn contender(
    name: &'static str,
    service: Service,
    connections: usize,
    driver: DriverKind,
) -> Contender {
    Contender::sampled(name, move || {
        measure(service, connections, move |listener| {
            serve(service, TcpListener::from(OwnedFd::from(listener)), driver)
        })
    })
}

/// Serves until the process ends.
fn serve(service: Service, listener: TcpListener, driver: DriverKind) {
    let runtime = Runtime::builder().workers(1).driver(driver).build().expect("the runtime starts");
    runtime.run(|| {
        ecru::scope(|s| {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                stream.set_nodelay(true).expect("it is TCP");
                s.spawn(move || {
                    let mut session = Session::new(service);
                    loop {
                        let count = stream.read(session.room())?;
                        if count == 0 {
                            return Ok::<_, std::io::Error>(());
                        }
                        stream.write_all(session.answer(count))?;
                    }
                });
            }
        });
    });
}
