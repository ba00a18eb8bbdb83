//! Forty look-ups, eight at a time, each with a time limit of 100 ms, which some of them exceed.

use ecru::{Cancelled, Elapsed, par};
use std::time::{Duration, Instant};

const LOOKUPS: u64 = 40;
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_millis(100);

fn main() {
    let started = Instant::now();
    let answers: Vec<Result<Result<u64, Cancelled>, Elapsed>> = ecru::run(|| {
        par::map_buffered(AT_ONCE, 0..LOOKUPS, |n| ecru::timeout(PATIENCE, || look_up(n)))
    });
    let took = started.elapsed();

    // Results are in the order of the questions, in whatever order the answers came.
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Ok(Ok(millis)) => println!("{n:3} {} {millis} ms", "#".repeat(*millis as usize / 2)),
            Ok(Err(cancelled)) => println!("{n:3} {cancelled}"),
            Err(elapsed) => println!("{n:3} {} {elapsed}", ".".repeat(50)),
        }
    }
    let in_a_row: u64 = (0..LOOKUPS).map(needs).sum();
    println!("\n{took:.0?} for what takes {in_a_row} ms one after another");

    let too_late = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(too_late, 4, "look-ups 9, 19, 29 and 39 take too long");
    assert!(took < Duration::from_millis(in_a_row));
}

/// Stands for a call to a server. `sleep` parks the task, and its thread runs the other tasks.
fn look_up(n: u64) -> Result<u64, Cancelled> {
    ecru::sleep(Duration::from_millis(needs(n)))?;
    Ok(needs(n))
}

fn needs(n: u64) -> u64 {
    if n % 10 == 9 { 1000 } else { 5 + n * 7 % 45 }
}
