//! The same runs in other processes.

use std::fmt::Write;
use std::time::{Instant, SystemTime};

use ecru::sim::{self, Simulation};

use super::common::{alone_with, is_child, ms};
use super::random::{numbers, order};

/// What each line begins with.
const WORD: &str = "libc: ";

/// Returns what a run comes to that depends on clocks and random numbers.
fn line(seed: u64) -> String {
    let report = Simulation::new(seed).run(|| {
        let mut text = String::new();
        ecru::scope(|s| {
            for key in order() {
                s.spawn(move || (0..key).for_each(|_| sim::point()));
            }
        });
        ecru::sleep(ms(numbers()[0] % 1000)).unwrap();
        write!(text, "{:?} {:?} {:?}", numbers(), Instant::now(), SystemTime::now()).unwrap();
        text
    });
    let hash = report.trace_hash;
    format!("{WORD}{hash:016x} {}", report.unwrap())
}

/// - given: a program whose turns, sleeps and values depend on a `HashMap`, random numbers and
///   clocks
/// - when: it is run in two fresh processes
/// - then: the hashes of the runs, their instants, system times and numbers are the same
#[test]
fn libc_60_in_fresh_processes() {
    let test = "processes::libc_60_in_fresh_processes";
    let lines: Vec<_> = (0..3).map(line).collect();
    assert_eq!(lines, (0..3).map(line).collect::<Vec<_>>());
    if is_child(test) {
        // The runner has begun a line.
        println!();
        lines.iter().for_each(|line| println!("{line}"));
        return;
    }
    for _ in 0..2 {
        let output = alone_with(test, |_| {}, || unreachable!("this is the parent")).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<_> = text.lines().filter(|line| line.starts_with(WORD)).collect();
        assert_eq!(printed, lines);
    }
}
