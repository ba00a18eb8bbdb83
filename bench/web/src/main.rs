//! Web programs, each on ecru and on tokio, and what they cost for a request.
//!
//! ```sh
//! cargo build --release -p ecru-bench-web
//! target/release/ecru-bench-web compare health 15      # interleaved rounds, and their ratios
//! target/release/ecru-bench-web measure ecru health    # one round of one side
//! ```
//! The server's process has the first core and one worker, and the load has the second core: wrk,
//! or h2load for HTTP/2. With several workers, server and load share as many cores. What is counted is the CPU time of the server's process, in user and kernel
//! mode. Both sides have the same versions of hyper and axum, the same allocator and the same build.

mod load;
mod on_ecru;
mod on_tokio;
mod pages;
mod waits;

use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A program that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// hyper alone, a short page.
    Bare,
    /// axum's router, a short page.
    Health,
    /// axum's router, a body in JSON that is parsed, changed and returned.
    Json,
    /// As `Health`, over TLS.
    Tls,
    /// As `Health`, over HTTP/2 without TLS.
    Http2,
    /// As `Health`, ten requests for each connection.
    Close,
    /// As `Health`. The connections are then idle, and the memory of one is measured.
    Idle,
    /// A row of a table in PostgreSQL, by its key, as JSON.
    Postgres,
    /// A handler that may wait anywhere, beside `Health` on tokio.
    Direct,
    /// No server: a request to a task of tokio's and its answer, from a task of ecru's by
    /// `ecru_tokio::wait`, and from a thread by `Handle::block_on`.
    Crossing,
    /// No server: a request to another task and its answer on one worker, by `ecru::block_on` and by
    /// tasks of tokio's.
    BlockOn,
}

impl Kind {
    const ALL: [(&str, Kind); 11] = [
        ("bare", Kind::Bare),
        ("health", Kind::Health),
        ("json", Kind::Json),
        ("tls", Kind::Tls),
        ("http2", Kind::Http2),
        ("close", Kind::Close),
        ("idle", Kind::Idle),
        ("direct", Kind::Direct),
        ("postgres", Kind::Postgres),
        ("crossing", Kind::Crossing),
        ("block-on", Kind::BlockOn),
    ];

    fn of(name: &str) -> Result<Kind> {
        let found = Kind::ALL.into_iter().find(|(own, _)| *own == name);
        Ok(found.ok_or_else(|| format!("`{name}` is no program"))?.1)
    }

    fn name(self) -> &'static str {
        Kind::ALL.into_iter().find(|(_, kind)| *kind == self).expect("all are listed").0
    }
}

/// A runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Tokio,
    /// On io_uring.
    Ecru,
    /// On epoll.
    EcruPoll,
}

impl Side {
    const ALL: [(&str, Side); 3] =
        [("tokio", Side::Tokio), ("ecru", Side::Ecru), ("ecru-poll", Side::EcruPoll)];

    fn of(name: &str) -> Result<Side> {
        let found = Side::ALL.into_iter().find(|(own, _)| *own == name);
        Ok(found.ok_or_else(|| format!("`{name}` is no side"))?.1)
    }

    fn name(self) -> &'static str {
        Side::ALL.into_iter().find(|(_, side)| *side == self).expect("all are listed").0
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", side, kind, workers] => serve(side, kind, workers),
        ["measure", side, kind] => measure(side, kind, "1"),
        ["measure", side, kind, workers] => measure(side, kind, workers),
        ["compare", kind] => compare(kind, "9", "1"),
        ["compare", kind, rounds] => compare(kind, rounds, "1"),
        ["compare", kind, rounds, workers] => compare(kind, rounds, workers),
        _ => Err("usage: compare KIND [ROUNDS [WORKERS]] | measure SIDE KIND [WORKERS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the address, and serves until the process is killed.
fn serve(side: &str, kind: &str, workers: &str) -> Result<()> {
    let (side, kind, workers) = (Side::of(side)?, Kind::of(kind)?, workers.parse()?);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    match side {
        Side::Tokio => on_tokio::serve(kind, workers, listener),
        Side::Ecru => on_ecru::serve(kind, workers, listener, ecru::DriverKind::Uring),
        Side::EcruPoll => on_ecru::serve(kind, workers, listener, ecru::DriverKind::Poll),
    }
}

/// Prints the metrics of one round.
fn measure(side: &str, kind: &str, workers: &str) -> Result<()> {
    for (name, value) in once(Side::of(side)?, Kind::of(kind)?, workers.parse()?)? {
        println!("{name} {value}");
    }
    Ok(())
}

/// Runs one side for one round.
fn once(side: Side, kind: Kind, workers: usize) -> Result<load::Sample> {
    match kind {
        Kind::Crossing | Kind::BlockOn => waits::measure(side, kind),
        _ => load::measure(side, kind, workers),
    }
}

/// Runs all sides in each round, and prints the medians and the ratios to tokio.
fn compare(kind: &str, rounds: &str, workers: &str) -> Result<()> {
    let (kind, rounds) = (Kind::of(kind)?, rounds.parse::<usize>()?);
    let workers = workers.parse()?;
    let mut all: Vec<Vec<load::Sample>> = Vec::new();
    for round in 0..rounds {
        let mut samples = vec![Vec::new(); Side::ALL.len()];
        for turn in 0..Side::ALL.len() {
            let index = (round + turn) % Side::ALL.len();
            samples[index] = once(Side::ALL[index].1, kind, workers)?;
        }
        all.push(samples);
    }
    let metrics: Vec<&str> = all[0][0].iter().map(|(name, _)| *name).collect();
    for (place, metric) in metrics.iter().enumerate() {
        for (index, (side, _)) in Side::ALL.iter().enumerate() {
            let values = sorted(all.iter().map(|samples| samples[index][place].1));
            let ratio = |samples: &Vec<load::Sample>| samples[index][place].1 / samples[0][place].1;
            let ratios = sorted(all.iter().map(ratio));
            let middle = rounds / 2;
            println!(
                "{:8} {metric:7} {side:10} median {:10.0}  of tokio {:.3} ({:.3} to {:.3})",
                kind.name(),
                values[middle],
                ratios[middle],
                ratios[rounds / 8],
                ratios[rounds - 1 - rounds / 8],
            );
        }
    }
    Ok(())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
