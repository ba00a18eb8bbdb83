//! The loops whose instructions callgrind counts: `ecru-slopes WORK N` does N operations of one kind, on one worker.
//!
//! The count at 2N less the count at N, divided by N, is the cost of one operation: start-up and end cancel out.

use std::hint::black_box;
use std::process::ExitCode;

use corosensei::{Coroutine, CoroutineResult};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().unwrap_or_default();
    let operations = arguments.next().and_then(|count| count.parse().ok());
    let Some(operations) = operations else {
        eprintln!("usage: ecru-slopes WORK N");
        return ExitCode::FAILURE;
    };
    match work.as_str() {
        "corosensei-switch" => corosensei_switch(operations),
        _ => {
            eprintln!("ecru-slopes: no work named `{work}`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The floor under `switch`, and a check that callgrind copes with stacks that switch.
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
}
