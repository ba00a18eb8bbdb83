//! may's sockets.
#![expect(unsafe_code, reason = "passes a raw descriptor to it")]

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd};

use super::in_may;
use crate::serving::{Service, Session};

/// Serves until the process ends, on one worker of may.
pub(crate) fn serve(service: Service, listener: std::net::TcpListener) {
    in_may(1, move || {
        listener.set_nonblocking(true).expect("it is a socket");
        // SAFETY: the owner of the descriptor gives it away.
        let listener = unsafe { ::may::net::TcpListener::from_raw_fd(listener.into_raw_fd()) };
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            stream.set_nodelay(true).expect("it is TCP");
            ::may::go!(move || {
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
}
