//! `slopes-gate`: fails when an operation takes more instructions than it did, or fewer without saying so.
//!
//! Runs `ecru-slopes` (built into the same folder) under callgrind at N and at 2N operations, and compares the instructions per
//! operation with `slopes.json`. Instructions, not time: the count repeats to the last digit on a noisy machine.
//!
//! ```text
//! slopes-gate            compare; exit status 1 over the tolerance
//! slopes-gate --bless    write the measured slopes to slopes.json
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The stored slopes: the work's name and its instructions per operation.
type Slopes = BTreeMap<String, f64>;

/// Where they are stored.
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/slopes.json");

/// A difference from the stored count beyond this fraction fails, in either direction.
const TOLERANCE: f64 = 0.03;

/// Operations in the shorter of the two runs: enough to drown what differs between two starts, such as the length of the arguments.
const OPERATIONS: u64 = 20_000;

fn main() -> ExitCode {
    let bless = std::env::args().skip(1).any(|argument| argument == "--bless");
    match measure_all()
        .and_then(|measured| if bless { store(&measured) } else { compare(&measured) })
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("slopes-gate: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The slope of every kind of work that `ecru-slopes` knows.
fn measure_all() -> Result<Slopes, String> {
    let version = Command::new("valgrind").arg("--version").output();
    let version = version.map_err(|error| {
        format!("valgrind does not run, and without it there is no gate: {error}")
    })?;
    println!("{}", String::from_utf8_lossy(&version.stdout).trim());
    let program = program()?;
    let list = Command::new(&program)
        .arg("--list")
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let works = String::from_utf8_lossy(&list.stdout).into_owned();
    let slopes: Result<Slopes, String> =
        works.lines().map(|work| Ok((work.to_owned(), slope(&program, work)?))).collect();
    slopes.and_then(
        |slopes| if slopes.is_empty() { Err("nothing was measured".into()) } else { Ok(slopes) },
    )
}

/// `ecru-slopes`, next to this program.
fn program() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = this.with_file_name("ecru-slopes");
    if program.exists() { Ok(program) } else { Err(format!("{} is not built", program.display())) }
}

/// Instructions per operation.
fn slope(program: &Path, work: &str) -> Result<f64, String> {
    let short = instructions(program, work, OPERATIONS)?;
    let long = instructions(program, work, 2 * OPERATIONS)?;
    if long < short + OPERATIONS {
        return Err(format!(
            "{work}: {short} instructions for {OPERATIONS} operations, {long} for twice as many: it did not do the work"
        ));
    }
    Ok((long - short) as f64 / OPERATIONS as f64)
}

/// All instructions of one run, as callgrind counted them.
fn instructions(program: &Path, work: &str, operations: u64) -> Result<u64, String> {
    let counts = std::env::temp_dir()
        .join(format!("ecru-slopes.{}.{work}.{operations}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=no", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program).arg(work).arg(operations.to_string());
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let written = std::fs::read_to_string(&counts);
    let _gone_already = std::fs::remove_file(&counts);
    if !output.status.success() {
        return Err(format!(
            "{work} under valgrind: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let written = written.map_err(|error| format!("{work}: callgrind wrote no counts: {error}"))?;
    let total = written.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    total.ok_or_else(|| format!("{work}: callgrind's file has no totals"))
}

/// Prints every slope beside the stored one; an error if one differs too much, or is on one side only.
fn compare(measured: &Slopes) -> Result<(), String> {
    let text = std::fs::read_to_string(STORED)
        .map_err(|error| format!("{STORED}: {error}; --bless makes it"))?;
    let stored: Slopes =
        serde_json::from_str(&text).map_err(|error| format!("{STORED}: {error}"))?;
    let mut failures = Vec::new();
    for (work, &now) in measured {
        let Some(&before) = stored.get(work) else {
            failures.push(format!("{work}: {now:.2} instructions, none stored"));
            continue;
        };
        let change = now / before - 1.0;
        println!(
            "{work}: {now:.2} instructions per operation, stored {before:.2} ({:+.2}%)",
            change * 100.0
        );
        if change.abs() > TOLERANCE {
            failures.push(format!("{work}: {before:.2} became {now:.2} ({:+.2}%)", change * 100.0));
        }
    }
    let missing = stored.keys().filter(|work| !measured.contains_key(*work));
    failures.extend(missing.map(|work| {
        format!("{work}: stored, but this ecru-slopes does not know it (feature `ecru`?)")
    }));
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!(
        "over {}% of difference; if it is meant, --bless:\n  {}",
        TOLERANCE * 100.0,
        failures.join("\n  ")
    ))
}

/// Writes the slopes down.
fn store(measured: &Slopes) -> Result<(), String> {
    for (work, now) in measured {
        println!("{work}: {now:.2} instructions per operation");
    }
    let text = serde_json::to_string_pretty(measured).expect("names and numbers make JSON");
    std::fs::write(STORED, text + "\n").map_err(|error| format!("{STORED}: {error}"))
}
