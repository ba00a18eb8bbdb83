//! monoio on io_uring: a thread with a ring, buffers lent to it.

use std::net::TcpListener;

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};

use crate::serving::{Service, Session};

/// Serves until the process ends.
pub(crate) fn serve(service: Service, listener: TcpListener) {
    let mut runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .with_entries(4096)
        .build()
        .expect("monoio starts");
    runtime.block_on(async move {
        let listener = monoio::net::TcpListener::from_std(listener).expect("a listener");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("it is TCP");
            monoio::spawn(async move {
                let mut session = Session::new(service);
                // It wants a buffer of its own; what comes is copied to the session and back, as its users do.
                let mut buffer = vec![0_u8; 4096];
                loop {
                    let (result, mut used) = stream.read(buffer).await;
                    let Ok(count @ 1..) = result else { return };
                    session.room()[..count].copy_from_slice(&used[..count]);
                    used.clear();
                    used.extend_from_slice(session.answer(count));
                    let (result, back) = stream.write_all(used).await;
                    if result.is_err() {
                        return;
                    }
                    buffer = back;
                    buffer.resize(4096, 0);
                }
            });
        }
    });
}
