//! Servers on one worker, under load from another core: echo, and a short page over HTTP.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::harness::{Contender, Row};
use crate::peers;
use crate::serving::{IDLE_METRICS, METRICS, Service, Session, measure};

/// A row with this number of connections, each with one request in flight.
pub(crate) fn row(service: Service, connections: usize) -> Row {
    let title = match service {
        Service::Echo => format!("echo of 64 bytes over {connections} connections, one worker"),
        Service::Idle => {
            format!("{connections} connections that are open and do nothing, bytes for each")
        }
        Service::Http => {
            format!("a short page over HTTP, {connections} connections, one worker, load by wrk")
        }
    };
    let by = move |name, serve: fn(Service, TcpListener)| {
        Contender::sampled(name, move || {
            measure(service, connections, move |listener| serve(service, listener))
        })
    };
    let mut contenders = vec![
        by("raw-uring", peers::raw_uring::serve)
            .note("a loop over the ring, a linked send and recv for each answer"),
        by("raw-epoll", peers::raw_epoll::serve).note("a loop over epoll"),
        by("tokio", peers::tokio::serve),
        by("monoio", peers::monoio::serve).note("on io_uring"),
        by("may", peers::may::serve),
        by("smol", peers::smol::serve),
        Contender::go(1, &["serve", service.name(), &connections.to_string()]),
    ];
    if connections <= 64 {
        contenders.push(by("threads", threads).note("a thread for each connection"));
    }
    Row {
        family: service.name(),
        number: Some(connections),
        title,
        cores: 1,
        metrics: if service == Service::Idle { IDLE_METRICS } else { METRICS },
        contenders,
        note: if service == Service::Idle {
            "resident bytes of the server's process with page tables; a buffer of 64 bytes is the server's own"
        } else {
            "cpu: of the server's process, for a request; time: of the clock, for a request; the load has a core of its own"
        },
    }
}

fn threads(service: Service, listener: TcpListener) {
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        std::thread::spawn(move || {
            stream.set_nodelay(true)?;
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
}
