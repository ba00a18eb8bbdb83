//! `slopes-gate` fails if an operation takes more instructions than the stored count, or fewer
//! without an update of that count. The same applies to its system calls and allocations.
//!
//! It runs `ecru-slopes` (built into the same folder) under valgrind at N and at 2N operations, and
//! compares the counts of one operation with `slopes.json`. It counts instructions and not time,
//! because the count repeats on a noisy machine.
//!
//! ```text
//! slopes-gate            compare; exit status 1 over the tolerance
//! slopes-gate --bless    write the measured counts to slopes.json
//! ```

#[path = "compare.rs"]
mod compare;
#[path = "counts.rs"]
mod counts;
#[path = "stored.rs"]
mod stored;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

use self::counts::{Counts, count, version};
use self::stored::Stored;

/// The compiler of the measured program.
const RUSTC: &str = env!("ECRU_BENCH_RUSTC");

fn main() -> ExitCode {
    let bless = std::env::args().skip(1).any(|argument| argument == "--bless");
    match run(bless) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("slopes-gate: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints, and compares or stores.
fn run(bless: bool) -> Result<(), String> {
    let valgrind = version()?;
    println!("{RUSTC}, {valgrind}");
    let measured = measure_all()?;
    let stored = Stored::read();
    if bless {
        let blessed = Stored::blessed(RUSTC, &valgrind, &measured, stored.as_ref().ok());
        compare::compare(RUSTC, &valgrind, &measured, &blessed)
            .lines
            .iter()
            .for_each(|line| println!("{line}"));
        return blessed.write();
    }
    let comparison = compare::compare(RUSTC, &valgrind, &measured, &stored?);
    comparison.lines.iter().for_each(|line| println!("{line}"));
    if comparison.failures.is_empty() {
        return Ok(());
    }
    let failures = comparison.failures.join("\n  ");
    Err(format!("over the tolerance; if it is meant, --bless:\n  {failures}"))
}

/// Counts every kind of work that `ecru-slopes` knows, on each core one at a time.
fn measure_all() -> Result<BTreeMap<String, Counts>, String> {
    let program = program()?;
    let list = Command::new(&program).arg("--list").output();
    let list = list.map_err(|error| format!("{}: {error}", program.display()))?;
    let works = String::from_utf8_lossy(&list.stdout).into_owned();
    // Valgrind runs one thread at a time, and what it counts does not depend on other processes.
    let works: Vec<&str> = works.lines().collect();
    let next = AtomicUsize::new(0);
    let count_some = || {
        let mut counts = vec![];
        while let Some(&work) = works.get(next.fetch_add(1, Ordering::Relaxed)) {
            counts.push((work.to_owned(), count(&program, work)?));
        }
        Ok::<_, String>(counts)
    };
    let counts: Result<Vec<_>, String> = std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let counters: Vec<_> = (0..cores).map(|_| scope.spawn(count_some)).collect();
        counters.into_iter().map(|counter| counter.join().expect("counting panics")).collect()
    });
    let counts: BTreeMap<_, _> = counts?.into_iter().flatten().collect();
    if counts.is_empty() { Err("nothing was measured".into()) } else { Ok(counts) }
}

/// Returns the path of `ecru-slopes`, next to this program.
fn program() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = this.with_file_name("ecru-slopes");
    if program.exists() { Ok(program) } else { Err(format!("{} is not built", program.display())) }
}
