//! Standard streams, pipes, copying: `io`. Tests of the standard streams run in a process of their
//! own.

mod event_fd;
mod in_memory;
mod pipes;
mod standard_streams;

use crate::streams::{assert_cancelled, byte_at};
use ecru::io::{self, Read};

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(byte_at).collect()
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    all
}

/// Asserts that the result of a read is a cancellation.
#[track_caller]
fn cancelled(result: io::Result<usize>) {
    assert_cancelled(&result.unwrap_err());
}
