//! A server for machines without nginx. Every file has the requested size and is sent at the
//! requested rate.

use ecru::net::{TcpListener, TcpStream};
use ecru::{Cancelled, sleep};
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

/// The number of pieces in which a second's bytes are sent.
const PIECES: u64 = 20;

/// Serves until it is cancelled.
pub(crate) fn serve(listener: &TcpListener, size: u64, rate: u64) {
    ecru::scope(|s| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => drop(s.spawn(move || answer(&stream, size, rate))),
                Err(error) if Cancelled::find(&error).is_some() => return,
                // Perhaps no descriptors are left. Connected clients will free some.
                Err(_) => _ = sleep(Duration::from_millis(10)),
            }
        }
    });
}

fn answer(mut stream: &TcpStream, size: u64, rate: u64) -> io::Result<()> {
    for line in BufReader::new(stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n")?;
    let piece = vec![0; usize::try_from(rate / PIECES).map_err(io::Error::other)?];
    let mut left = size;
    while left > 0 {
        let part = left.min(piece.len() as u64);
        stream.write_all(&piece[..part as usize])?;
        left -= part;
        sleep(Duration::from_secs_f64(part as f64 / rate as f64))?;
    }
    Ok(())
}
