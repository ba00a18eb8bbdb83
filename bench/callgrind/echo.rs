//! An echo between two tasks of one worker, over the kernel's sockets: 64 bytes each way.

use std::io::{Read, Write};

use ecru::net::{TcpListener, TcpStream, UnixStream};
use ecru::{DriverKind, Runtime};

use super::Work;

/// All works on sockets.
pub(super) const WORKS: &[Work] = &[
    ("echo-unix-uring", |operations| unix(DriverKind::Uring, operations)),
    ("echo-unix-poll", |operations| unix(DriverKind::Poll, operations)),
    ("echo-tcp-uring", |operations| tcp(DriverKind::Uring, operations)),
    ("echo-tcp-poll", |operations| tcp(DriverKind::Poll, operations)),
];

/// Bytes of a message.
const SIZE: usize = 64;

fn runtime(driver: DriverKind) -> Runtime {
    Runtime::builder().workers(1).driver(driver).build().expect("the runtime starts")
}

fn unix(driver: DriverKind, operations: u64) {
    runtime(driver).run(|| {
        let (client, server) = UnixStream::pair().expect("there are descriptors left");
        echo(client, server, operations);
    });
}

fn tcp(driver: DriverKind, operations: u64) {
    tcp_on(&runtime(driver), operations);
}

pub(super) fn tcp_on(runtime: &Runtime, operations: u64) {
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).expect("it listens");
        let (server, _) = listener.accept().expect("a connection");
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("it is TCP");
        }
        echo(client, server, operations);
    });
}

/// The client sends each request after the previous answer.
fn echo<S: Read + Write + Send>(mut client: S, mut server: S, operations: u64) {
    ecru::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; SIZE];
            for _ in 0..operations {
                server.read_exact(&mut buffer).expect("the client is there");
                server.write_all(&buffer).expect("the client is there");
            }
        });
        let mut buffer = [b'e'; SIZE];
        for _ in 0..operations {
            client.write_all(&buffer).expect("the server is there");
            client.read_exact(&mut buffer).expect("the server is there");
        }
    });
}
