//! Reading two pipes to their ends at once, as a child fills them.
//!
//! A child that writes to both waits for whoever reads until the one that it is writing to has room. So neither may be left alone. An epoll
//! descriptor over the two is readable when either is, and can itself be waited for like any other.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::driver::{Interest, OwnedDescriptor};
use crate::io::Stream;
use crate::sched::io::wait_until_ready;
use crate::task;

/// What a pipe holds, by default.
const CHUNK: usize = 64 * 1024;
/// How often one pipe is read before the other's turn comes.
const READS: usize = 8;

/// A pipe, and what has come through it.
struct Side<'a> {
    stream: Option<&'a Stream>,
    bytes: Vec<u8>,
    /// So many of them: the rest is room.
    filled: usize,
}

/// What a turn has left.
#[derive(PartialEq, Eq)]
enum Left {
    /// It has ended.
    Nothing,
    /// There may be more at once.
    Some,
    /// It has to be waited for.
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

/// Reads both to their ends.
pub(super) fn both(out: Option<&Stream>, err: Option<&Stream>) -> io::Result<(Vec<u8>, Vec<u8>)> {
    task::begin_wait()?;
    let either = OwnedDescriptor::new(epoll::create(CreateFlags::CLOEXEC)?);
    for stream in [out, err].into_iter().flatten() {
        epoll::add(&either, stream.as_fd(), EventData::new_u64(0), EventFlags::IN)?;
    }
    let mut sides = [Side::new(out), Side::new(err)];
    loop {
        let mut left = Left::Nothing;
        for side in &mut sides {
            let stream = side.stream;
            match (side.turn()?, stream) {
                // It would be ready for ever.
                (Left::Nothing, Some(ended)) => epoll::delete(&either, ended.as_fd())?,
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
