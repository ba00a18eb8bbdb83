//! The contenders in Rust of the topic `fleet`. `ecru-bench` starts the servers, then this program:
//!
//! ```text
//! ecru-bench-fleet CONTENDER WORK URL NUMBER
//! ```
//! The contender is `ecru` or `tokio`, which is async-nats on tokio. It prints one line `metric
//! value` for each metric. The works `worker-*` are those of processes that this program starts
//! itself.

mod measure;
mod on_ecru;
mod on_tokio;
mod workers;

use std::error::Error;
use std::process::ExitCode;

use measure::Sample;

/// The most messages without an acknowledgement, and the most jobs that are worked on at once.
const WINDOW: usize = 256;

/// The bytes of a message.
const PAYLOAD: &[u8] = &[b'p'; 128];

/// The stream of the rows without a fleet, and its subject.
const STREAM: &str = "BENCH";
const SUBJECT: &str = "bench.messages";

/// The consumer of that stream.
const CONSUMER: &str = "workers";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(sample) => {
            for (metric, value) in sample {
                println!("{metric} {value}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ecru-bench-fleet: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<Sample> {
    let [contender, work, url, number] = words else {
        return Err("usage: ecru-bench-fleet CONTENDER WORK URL NUMBER".into());
    };
    let number: usize = number.parse()?;
    match (*contender, *work) {
        ("ecru", "publish") => on_ecru::publish(url, number),
        ("ecru", "pull") => on_ecru::pull(url, number),
        ("ecru", "call") => on_ecru::call(url, number),
        ("ecru", "noop") => on_ecru::noop(url, number),
        ("ecru", "naps") => on_ecru::naps(url, number),
        ("ecru", "rerun") => on_ecru::rerun(url, number),
        ("ecru", "memory") => on_ecru::memory(url, number),
        ("ecru", workers::NAPS) => workers::naps(url, number),
        ("ecru", workers::HOLD) => workers::hold(url, number),
        ("tokio", "publish") => on_tokio::publish(url, number),
        ("tokio", "pull") => on_tokio::pull(url, number),
        ("tokio", "call") => on_tokio::call(url, number),
        _ => Err(format!("{contender} has no work {work}").into()),
    }
}
