//! Downloads many files at once in direct style: each in a task of its own, in plain blocking-looking code.
//!
//! In reading order: [`batch`] (the whole job in one expression), [`fetch`] (one file), [`client`] (HTTP over ecru's
//! sockets), [`server`] (the embedded one), [`runtime`] (all that is asked of ecru); around them the command line, the
//! limits, the progress and the report.

mod args;
mod batch;
mod client;
mod content;
mod fetch;
mod interrupt;
mod limits;
mod measure;
mod own;
mod progress;
mod report;
mod runtime;
mod server;
mod setup;
mod sources;
mod units;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use args::Args;
use batch::Batch;
use fetch::Job;
use progress::Show;
use setup::{fit, manner};

/// A download may have a socket, the connection kept from before it, and a file open.
const FILES_EACH: u64 = 3;

/// The exit status for a command line that makes no sense, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    match choose(&args) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("downloads: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}

fn choose(args: &Args) -> anyhow::Result<u8> {
    if let Some(line) = limits::raise() {
        eprintln!("{line}");
    }
    if let Some(address) = args.serve {
        return own::serve(args, address);
    }
    if args.measure {
        return measure::measure(args);
    }
    if args.urls.is_empty() && args.input.is_empty() {
        return own::download(args);
    }
    download(args)
}

/// Downloads the URLs that were given.
fn download(args: &Args) -> anyhow::Result<u8> {
    let urls = sources::gather(&args.urls, &args.input)?;
    let manner = manner(args)?;
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the folder {}", args.output.display()))?;
    let names = fetch::names::assign(&urls);
    let into = fetch::Into::Folder(args.output.clone());
    let jobs: Vec<Job> = urls
        .iter()
        .zip(names)
        .map(|(url, name)| Job { url: url.to_string(), name, into: into.clone() })
        .collect();
    let window = fit(args.window.min(jobs.len()), FILES_EACH);
    let batch = Batch { jobs: &jobs, window, expected: None, show: Show::choose(args.quiet) };
    let result = runtime::run(args.workers, || batch.run(&manner))??;
    if result.interrupted.is_some() {
        eprintln!("{}", report::interrupted(&result.tally));
    }
    println!("{}", report::summary(&result.tally, &result.figures, &jobs));
    Ok(result.status())
}
