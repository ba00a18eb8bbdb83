//! Downloads many files at once in direct style: each in a task of its own, in plain
//! blocking-looking code.
//!
//! In reading order: [`batch`] (the whole job in one expression), [`fetch`] (one file), [`client`]
//! (HTTP over ecru's sockets), [`server`] (the embedded server), [`runtime`] (everything that the
//! program needs from ecru). [`fleet`] shares a list among many processes. Around them are the
//! command line, the limits, the progress and the report.

mod address;
mod args;
mod batch;
mod client;
mod content;
mod fetch;
mod flags;
mod fleet;
mod headers;
mod interrupt;
mod json;
mod limits;
mod measure;
mod output;
mod own;
mod progress;
mod report;
mod runtime;
mod server;
mod setup;
#[cfg(test)]
mod simulation;
mod sources;
mod throttle;
mod turns;
mod units;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use args::Args;
use batch::Batch;
use flags::{Mode, given};
use progress::{Show, write_line};
use setup::{fit, jobs, manner, per_host};

/// A download may have three files open: a socket, the connection kept from before it, and a file.
const FILES_EACH: u64 = 3;

/// The exit status for an invalid command line, as in clap.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let started = Instant::now();
    let status = match Args::command().try_get_matches() {
        Ok(matches) => run(&matches, started),
        Err(error) if error.use_stderr() => error.exit(),
        // This is what `--help` and `--version` print.
        Err(text) => {
            output::note(text.print().and_then(|()| io::stdout().flush()));
            0
        }
    };
    let Some(error) = output::error() else { return ExitCode::from(status) };
    write_line(&format!(
        "downloads: cannot write to standard output: {error}; see where it leads, then run the same command again"
    ));
    ExitCode::from(status.max(1))
}

fn run(matches: &ArgMatches, started: Instant) -> u8 {
    let args = Args::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    choose(&args, matches, started).unwrap_or_else(|error| {
        write_line(&format!("downloads: {error:#}"));
        USAGE
    })
}

fn choose(args: &Args, matches: &ArgMatches, started: Instant) -> anyhow::Result<u8> {
    let mode = Mode::of(matches);
    flags::check(matches, mode).map_err(anyhow::Error::msg)?;
    if let Some(line) = limits::raise().filter(|_| !args.quiet) {
        write_line(&line);
    }
    match mode {
        Mode::Serve => own::serve(args),
        Mode::Measure => measure::measure(args),
        Mode::Own => own::download(args, started),
        Mode::Urls => download(args, matches, started),
        Mode::Coordinator => fleet::coordinate(args, started),
        Mode::Worker => fleet::work(args, given(matches, "window")),
    }
}

/// Downloads the URLs on the command line and in lists.
fn download(args: &Args, matches: &ArgMatches, started: Instant) -> anyhow::Result<u8> {
    let sources = sources::gather(&args.urls, &args.input)?;
    let window = fit(args, args.window.min(sources.addresses.len()).max(1), FILES_EACH);
    let manner = manner(args, sources.addresses.len(), window)?;
    setup::prepare(args)?;
    let jobs = jobs(sources.addresses, args.keep_directories, &args.output);
    let batch = Batch {
        jobs: &jobs,
        window,
        expected: None,
        show: Show::choose(args.quiet),
        per_host: &|host| per_host(args, matches, host),
        json: args.json,
        started,
    };
    let mut result = runtime::run(args.workers, || batch.run(&manner))??;
    result.tally.bad_lines = sources.bad.len();
    if result.interrupted.is_some() {
        write_line(&report::interrupted(&result.tally));
    }
    sources::tell(&sources.bad, args.json);
    result.close(args, &jobs);
    Ok(result.status())
}
