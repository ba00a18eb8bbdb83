//! Pipes.

use crate::program::{Model, shown};
use ecru::io::{PipeReader, PipeWriter, pipe};
use std::io::{self, Read, Write};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipes;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write(usize),
    Read(usize),
    CloseReader,
    CloseWriter,
}

pub(crate) struct State {
    reader: Option<PipeReader>,
    writer: Option<PipeWriter>,
}

/// Calls `f`, and gives up after a while.
fn briefly<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
    match ecru::timeout(Duration::from_millis(3), f) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(error)) if ecru::Cancelled::find(&error).is_none() => Err(error),
        _ => Ok(None),
    }
}

impl Model for Pipes {
    type Op = Op;
    type State = State;

    fn operations(self) -> Vec<Op> {
        let sizes = [0, 1, 100, 2_000, 4_095, 4_096, 4_097, 10_000, 30_000, 65_536, 70_000];
        let writes = sizes.iter().map(|size| Op::Write(*size));
        let reads = sizes.iter().map(|size| Op::Read(*size));
        writes.chain(reads).chain([Op::CloseReader, Op::CloseWriter]).collect()
    }

    fn begin(self) -> State {
        let (reader, writer) = pipe().unwrap();
        State { reader: Some(reader), writer: Some(writer) }
    }

    fn step(self, state: &mut State, op: Op) -> String {
        match (op, &mut state.reader, &mut state.writer) {
            (Op::Write(size), _, Some(writer)) => shown(briefly(|| writer.write(&vec![7; size]))),
            (Op::Read(size), Some(reader), _) => shown(briefly(|| reader.read(&mut vec![0; size]))),
            (Op::CloseReader, ..) => {
                state.reader = None;
                String::from("closes")
            }
            (Op::CloseWriter, ..) => {
                state.writer = None;
                String::from("closes")
            }
            _ => String::from("closed"),
        }
    }

    fn excuse(self, _: &[Op], _: &str, _: &str) -> Option<&'static str> {
        None
    }
}
