//! ecru's servers.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use ecru::net::TcpListener;
use ecru::{DriverKind, Runtime};

use crate::goals::{ECRU, ECRU_POLL};
use crate::harness::Contender;
use crate::serving::{Service, Session, measure};

/// Returns ecru's contenders, on either driver.
pub(super) fn contenders(family: &str, connections: usize) -> Vec<Contender> {
    let Some(service) = Service::of(family) else { return Vec::new() };
    vec![
        contender(ECRU, service, connections, DriverKind::Uring),
        contender(ECRU_POLL, service, connections, DriverKind::Poll),
    ]
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
