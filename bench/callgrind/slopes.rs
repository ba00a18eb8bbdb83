//! The loops whose instructions callgrind counts. `ecru-slopes WORK N` performs N operations of one
//! kind, on one worker.
//!
//! The count at 2N minus the count at N, divided by N, is the cost of one operation. Start and end
//! of the process cancel out.

#[cfg(feature = "ecru")]
#[path = "channels.rs"]
mod channels;
#[cfg(feature = "ecru")]
#[path = "echo.rs"]
mod echo;
#[cfg(feature = "ecru")]
#[path = "ecru_side.rs"]
mod ecru_side;
#[cfg(feature = "ecru")]
#[path = "explained.rs"]
mod explained;

use std::hint::black_box;
use std::process::ExitCode;

use corosensei::{Coroutine, CoroutineResult};

/// A kind of work: its name, and the loop that performs a number of operations.
type Work = (&'static str, fn(u64));

/// The works that are always built.
const PEERS: &[Work] = &[("corosensei-switch", corosensei_switch)];

/// The works that are built with the feature `ecru`.
#[cfg(feature = "ecru")]
const OWN: &[&[Work]] = &[ecru_side::WORKS, channels::WORKS, echo::WORKS, explained::WORKS];
#[cfg(not(feature = "ecru"))]
const OWN: &[&[Work]] = &[];

fn main() -> ExitCode {
    let works = || PEERS.iter().chain(OWN.iter().copied().flatten());
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => works().for_each(|(name, _)| println!("{name}")),
        [name, operations] => {
            let work = works().find(|(known, _)| *known == name);
            let (Some((_, work)), Ok(operations)) = (work, operations.parse()) else {
                eprintln!("ecru-slopes: no work `{name}`, or `{operations}` is no number");
                return ExitCode::FAILURE;
            };
            begin();
            work(operations);
        }
        _ => {
            eprintln!("usage: ecru-slopes WORK N | --list");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Marks the moment from which the gate counts. Callgrind resets its counters when this function is
/// entered, and the call of `getppid` marks the place in the trace of system calls.
#[inline(never)]
fn begin() {
    black_box(rustix::process::getppid());
}

/// The lower bound of `switch`, and a check that callgrind handles stack switches.
fn corosensei_switch(operations: u64) {
    let mut coroutine = Coroutine::<u64, u64, ()>::new(|yielder, mut value| {
        loop {
            value = yielder.suspend(value + 1);
        }
    });
    for operation in 0..operations {
        let CoroutineResult::Yield(value) = coroutine.resume(operation) else {
            unreachable!("it loops for ever")
        };
        black_box(value);
    }
    coroutine.force_unwind();
}
