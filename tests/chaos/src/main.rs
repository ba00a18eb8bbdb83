//! Chaos from outside: the processes of a fleet and its brokers are killed, stopped and cut off by
//! a seeded plan, and a proof over what they wrote shows that no job is lost. See `README.md`.

mod brokers;
mod conductor;
mod control;
mod crew;
mod field;
mod journal;
mod plan;
mod proof;
mod proxy;
mod report;
mod roles;
mod shop;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ecru::Runtime;

use crate::field::Field;

const HELP: &str = "\
ecru-chaos [--seconds N] [--seed S]

  --seconds  how long the plan is; 120 by default. Then everything is settled and proven
  --seed     of the plan; 1 by default
";

/// After this time beyond the plan, a run is given up. It is the only limit that a slow machine can
/// reach.
const SETTLING: Duration = Duration::from_secs(1800);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["role", role, journal, urls, rest @ ..] = &arguments[..] {
        return match roles::run(role, journal, urls, rest) {
            Ok(code) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
            Err(error) => {
                eprintln!("{role}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let Some((seconds, seed)) = read(&arguments) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match run(Duration::from_secs(seconds), seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos could not be run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the seconds and the seed.
fn read(arguments: &[&str]) -> Option<(u64, u64)> {
    let (mut seconds, mut seed) = (120, 1);
    for pair in arguments.chunks(2) {
        match pair {
            ["--seconds", number] => seconds = number.parse().ok().filter(|number| *number > 0)?,
            ["--seed", number] => seed = number.parse().ok()?,
            _ => return None,
        }
    }
    Some((seconds, seed))
}

/// Runs the plan and the control run. Returns whether all is well.
fn run(length: Duration, seed: u64) -> io::Result<bool> {
    let folder = std::env::temp_dir().join(format!("ecru-chaos-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    give_up_after(length + SETTLING, folder.clone());
    let steps = plan::steps(seed, length);
    report::plan(seed, length, &steps);
    // All processes are started by one thread, with whose end they end.
    let runtime = Runtime::builder().workers(1).build()?;
    let is_well = runtime.run(|| {
        ecru::scope(|s| {
            let field = Field::start(s, &folder)?;
            let shown = ecru::scope(|s| conductor::conduct(s, &field, &folder, &steps, length))?;
            let control = ecru::scope(|s| control::run(s, &field, &folder))?;
            Ok::<bool, io::Error>(report::verdict(&shown, &control))
        })
    })?;
    finish(&folder, is_well)?;
    Ok(is_well)
}

/// Removes the files of a run in which all is well.
fn finish(folder: &Path, is_well: bool) -> io::Result<()> {
    if is_well {
        std::fs::remove_dir_all(folder)
    } else {
        println!("the journals and the logs of the brokers are in {}", folder.display());
        Ok(())
    }
}

fn give_up_after(limit: Duration, folder: PathBuf) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("FAILED: the run has not ended after {limit:?}; see {}", folder.display());
        // The processes end with this one.
        std::process::exit(3);
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments() {
        assert_eq!(super::read(&[]), Some((120, 1)));
        assert_eq!(super::read(&["--seed", "7", "--seconds", "3"]), Some((3, 7)));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seed", "x"], &["7"]] {
            assert_eq!(super::read(wrong), None);
        }
    }
}
