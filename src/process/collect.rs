//! Reading two pipes concurrently to their ends while a child fills them.
//!
//! A child that writes to a full pipe waits until the pipe is read. So neither pipe may be left
//! unread while the other one is waited for. A set of both pipes has a descriptor that is readable
//! when one of them is, and can itself be waited for like any other descriptor.

use std::io::{self, ErrorKind};

use crate::driver::request::{AddToSet, OpenReadableSet, RemoveFromSet};
use crate::driver::{Interest, request};
use crate::io::Stream;
use crate::sched::io::wait_until_ready;
use crate::task;

/// The default capacity of a pipe.
const CHUNK: usize = 64 * 1024;
/// How often one pipe is read before it is the other one's turn.
const READS: usize = 8;

/// A pipe and the bytes that were read from it.
struct Side<'a> {
    stream: Option<&'a Stream>,
    bytes: Vec<u8>,
    /// How many of the bytes are filled. The rest is free space.
    filled: usize,
}

/// What is left to read after a turn.
#[derive(PartialEq, Eq)]
enum Left {
    /// Nothing: the pipe has ended.
    Nothing,
    /// There may be more bytes right now.
    Some,
    /// More bytes have to be waited for.
    Later,
}

impl<'a> Side<'a> {
    fn new(stream: Option<&'a Stream>) -> Side<'a> {
        Side { stream, bytes: Vec::new(), filled: 0 }
    }

    fn turn(&mut self) -> io::Result<Left> {
        let Some(stream) = self.stream else { return Ok(Left::Nothing) };
        for _ in 0..READS {
            if self.bytes.len() == self.filled {
                self.bytes.resize((self.filled * 2).max(CHUNK), 0);
            }
            match stream.try_read(&mut self.bytes[self.filled..]) {
                Ok(0) => {
                    self.stream = None;
                    return Ok(Left::Nothing);
                }
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Left::Later),
                Err(error) => return Err(error),
            }
        }
        Ok(Left::Some)
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.filled);
        self.bytes.shrink_to_fit();
        self.bytes
    }
}

/// Reads both pipes to their ends.
pub(super) fn both(out: Option<&Stream>, err: Option<&Stream>) -> io::Result<(Vec<u8>, Vec<u8>)> {
    task::begin_wait()?;
    let either = request(OpenReadableSet {})?;
    for stream in [out, err].into_iter().flatten() {
        request(AddToSet { set: &either, member: stream.fd() })?;
    }
    let mut sides = [Side::new(out), Side::new(err)];
    loop {
        let mut left = Left::Nothing;
        for side in &mut sides {
            let stream = side.stream;
            match (side.turn()?, stream) {
                // An ended pipe would always be ready.
                (Left::Nothing, Some(ended)) => {
                    request(RemoveFromSet { set: &either, member: ended.fd() })?;
                }
                (Left::Nothing, None) => {}
                (Left::Later, _) if left == Left::Nothing => left = Left::Later,
                (Left::Later, _) => {}
                (Left::Some, _) => left = Left::Some,
            }
        }
        match left {
            Left::Nothing => break,
            Left::Some => task::begin_wait()?,
            Left::Later => wait_until_ready(&either, Interest::Read)?,
        }
    }
    let [out, err] = sides;
    Ok((out.into_bytes(), err.into_bytes()))
}
