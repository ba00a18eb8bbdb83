//! Streams: each byte that a write has reported comes once, and in order.

use super::everywhere_with_faults;
use ecru::io::{self, BufReader, Write};
use ecru::net::{TcpListener, TcpStream, UnixStream};
use ecru::{shield, sim};
use std::io::{BufRead, Read};
use std::net::Shutdown;
use std::time::Duration;

/// More than a connection has under way.
const LENGTH: usize = 70_000;

/// The byte at a place of a stream.
fn byte_at(place: usize) -> u8 {
    (place % 251) as u8
}

/// Writes until everything is written, or a write fails. Returns the number of bytes that the
/// stream has taken.
fn write_until_it_fails(mut stream: impl Write, length: usize) -> usize {
    let bytes: Vec<u8> = (0..length).map(byte_at).collect();
    let mut sent = 0;
    while sent < length {
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

/// Reads from the place `got` on, until the end or an error.
fn read_until_it_fails(mut stream: impl Read, got: &mut usize) -> io::Result<()> {
    let mut buffer = [0; 40_000];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let expected = (*got..*got + count).map(byte_at);
        assert!(buffer[..count].iter().copied().eq(expected), "from byte {got} on");
        *got += count;
    }
}

/// Sends bytes through a stream. If the reader is cancelled, or fails, the rest is read after it.
fn each_byte_comes_once<W, R>(pair: impl Fn() -> io::Result<(W, R)>, length: usize)
where
    W: Write + Send,
    R: Read + Send,
{
    let Ok((writer, mut reader)) = pair() else { return };
    ecru::scope(|s| {
        let writer = s.spawn(move || write_until_it_fails(writer, length));
        let reading = s.spawn(move || {
            let mut got = 0;
            let _ = read_until_it_fails(&mut reader, &mut got);
            (reader, got)
        });
        // A reader that has never begun is closed.
        let Ok((mut reader, mut got)) = shield(|| reading.join()) else { return };
        shield(|| while read_until_it_fails(&mut reader, &mut got).is_err() {});
        assert_eq!(got, shield(|| writer.join()).unwrap_or(0));
    });
}

fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok((client, server))
}

#[test]
fn each_byte_of_a_connection_comes_once_slow() {
    everywhere_with_faults(|| each_byte_comes_once(connected, LENGTH));
}

#[test]
fn each_byte_of_a_unix_stream_comes_once_slow() {
    everywhere_with_faults(|| each_byte_comes_once(UnixStream::pair, LENGTH));
}

#[test]
fn each_byte_of_a_pipe_comes_once_slow() {
    let pipe = || io::pipe().map(|(reader, writer)| (writer, reader));
    everywhere_with_faults(move || each_byte_comes_once(pipe, LENGTH));
}

#[test]
fn each_byte_of_a_memory_pipe_comes_once_slow() {
    let pipe = || {
        let (reader, writer) = io::memory_pipe(10);
        Ok((writer, reader))
    };
    everywhere_with_faults(move || each_byte_comes_once(pipe, 25));
}

/// A read of a line that fails keeps what it has read, in the line and in the buffer.
#[test]
fn lines_stay_whole_slow() {
    everywhere_with_faults(|| {
        let Ok((writer, reader)) = connected() else { return };
        ecru::scope(|s| {
            let writer = s.spawn(move || {
                let mut sent = 0;
                for line in ["one ", "line\n", "another", " line\nthe ", "end\n"] {
                    match (&writer).write(line.as_bytes()) {
                        Ok(count) => sent += count,
                        Err(_) => break,
                    }
                    let _ = ecru::yield_now();
                }
                sent
            });
            let reading = s.spawn(move || {
                let (mut reader, mut lines) = (BufReader::with_capacity(5, reader), Vec::new());
                let _ = reader.read_until(b'\n', &mut lines);
                let _ = reader.read_until(b'\n', &mut lines);
                (reader, lines)
            });
            let Ok((mut reader, mut lines)) = shield(|| reading.join()) else { return };
            shield(|| while reader.read_until(b'\n', &mut lines).is_ok_and(|count| count > 0) {});
            shield(|| while reader.read_until(b'\n', &mut lines).is_err() {});
            let sent = shield(|| writer.join()).unwrap_or(0);
            let all = b"one line\nanother line\nthe end\n";
            assert_eq!(String::from_utf8_lossy(&lines), String::from_utf8_lossy(&all[..sent]));
        });
    });
}

/// What a read with a time limit has not returned, the next one returns.
#[test]
fn a_read_that_times_out_takes_nothing_slow() {
    everywhere_with_faults(|| {
        let Ok((writer, reader)) = connected() else { return };
        let _ = reader.set_read_timeout(Some(Duration::from_millis(1)));
        ecru::scope(|s| {
            let writer = s.spawn(move || {
                let mut sent = 0;
                for _ in 0..3 {
                    let _ = ecru::sleep(Duration::from_millis(1));
                    sent += write_until_it_fails(&writer, 1);
                }
                sent
            });
            let mut got = 0;
            shield(|| {
                loop {
                    match (&reader).read(&mut [0; 8]) {
                        Ok(0) => return,
                        Ok(count) => got += count,
                        Err(_) => {}
                    }
                }
            });
            assert_eq!(got, shield(|| writer.join()).unwrap_or(0));
        });
    });
}

/// A proxy passes on both directions, and both ends. What it had read when it was cancelled is
/// lost, as documented, so what arrives is a beginning of what was sent.
#[test]
fn a_proxy_ends_both_directions_slow() {
    everywhere_with_faults(|| {
        let (Ok((client, front)), Ok((back, server))) = (UnixStream::pair(), UnixStream::pair())
        else {
            return;
        };
        ecru::scope(|s| {
            s.spawn(move || io::copy_bidirectional(&front, &back));
            for (own, other) in [(0, 7), (7, 0)] {
                let stream = if own == 0 { &client } else { &server };
                let stream = stream.try_clone();
                s.spawn(move || {
                    let Ok(mut stream) = stream else { return };
                    let _ = stream.write_all(&[own; 3]);
                    let _ = stream.shutdown(Shutdown::Write);
                    let mut got = Vec::new();
                    let _ = stream.read_to_end(&mut got);
                    assert!(got.len() <= 3 && got.iter().all(|byte| *byte == other), "{got:?}");
                });
            }
            drop((client, server));
        });
    });
}

#[test]
fn an_untouched_proxy_passes_everything_on() {
    sim::test(|| {
        let (client, front) = UnixStream::pair().unwrap();
        let (back, server) = UnixStream::pair().unwrap();
        let talk = |mut stream: UnixStream, own: u8| {
            stream.write_all(&[own; 3]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            got
        };
        ecru::scope(|s| {
            let proxy = s.spawn(move || io::copy_bidirectional(&front, &back));
            let one = s.spawn(move || talk(client, 1));
            let other = s.spawn(move || talk(server, 2));
            assert_eq!((one.join().unwrap(), other.join().unwrap()), (vec![2; 3], vec![1; 3]));
            assert_eq!(proxy.join().unwrap().unwrap(), (3, 3));
        });
    });
}
