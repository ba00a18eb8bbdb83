//! monoio on io_uring: a thread with a ring, to which buffers are lent.

use std::net::TcpListener;

use io_uring_of_monoio::IoUring;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use crate::serving::{IDLE_ROOM, ROOM, Service, Session};

/// Serves until the process ends. The ring has the settings that monoio's users choose for a
/// runtime with a thread of its own.
pub(crate) fn serve(service: Service, listener: TcpListener) {
    let mut ring = IoUring::builder();
    ring.setup_single_issuer().setup_defer_taskrun();
    let mut runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .with_entries(4096)
        .uring_builder(ring)
        .build()
        .expect("monoio starts");
    runtime.block_on(async move {
        let listener = monoio::net::TcpListener::from_std(listener).expect("a listener");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("it is TCP");
            match service {
                Service::Echo => monoio::spawn(echo(stream, ROOM)),
                Service::Idle => monoio::spawn(echo(stream, IDLE_ROOM)),
                Service::Http => monoio::spawn(http(stream)),
            };
        }
    });
}

/// Serves in monoio's idiom: the buffer goes to the kernel and comes back with the length of what
/// was read.
async fn echo(mut stream: TcpStream, room: usize) {
    let mut buffer: Vec<u8> = Vec::with_capacity(room);
    loop {
        let (result, read) = stream.read(buffer).await;
        let Ok(1..) = result else { return };
        let (result, written) = stream.write_all(read).await;
        if result.is_err() {
            return;
        }
        buffer = written;
    }
}

/// Received bytes are copied into the session, which has to keep parts of requests.
async fn http(mut stream: TcpStream) {
    let mut session = Session::new(Service::Http);
    let (mut input, mut output) = (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
    loop {
        let (result, read) = stream.read(input).await;
        let Ok(count @ 1..) = result else { return };
        session.room()[..count].copy_from_slice(&read[..count]);
        input = read;
        output.clear();
        output.extend_from_slice(session.answer(count));
        let (result, written) = stream.write_all(output).await;
        if result.is_err() {
            return;
        }
        output = written;
    }
}
