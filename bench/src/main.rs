//! `ecru-bench`: ecru and its peers at the same work, in interleaved rounds of one run.
//!
//! ```text
//! ecru-bench                      every row
//! ecru-bench channels             the rows of a topic
//! ecru-bench switch spawn         the rows whose names begin with these words
//! ecru-bench coroutines 250000    a family of rows at another size
//! ecru-bench --save all           every row, saved under bench/results/
//! ecru-bench --resume FILE        the rest of an interrupted run
//! ecru-bench --list               the rows
//! ```
//!
//! The rows are grouped in [`topics`], the goals are in [`goals`], and the words are defined in
//! [`harness`].

mod arguments;
mod ecru_side;
mod explained;
mod fleet;
mod go;
mod goals;
mod harness;
mod jvm;
mod member;
mod peers;
mod placement;
mod rows;
mod serving;
mod simulation;
mod topics;
mod web;

use std::path::Path;
use std::process::ExitCode;

use lexopt::Parser;

use crate::arguments::{Options, parse};
use crate::harness::{Header, ROUNDS_FOR_A_VERDICT, Run};

fn main() -> ExitCode {
    let done = parse(Parser::from_env()).and_then(|options| run(&options));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ecru-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the program as the options say.
fn run(options: &Options) -> Result<(), String> {
    if let Some(child) = &options.child {
        return run_as_child(child);
    }
    if let Some(words) = &options.load {
        return match words.split_first() {
            Some((load, words)) if load == placement::LOAD => placement::clients_main(words),
            _ => serving::load_main(words),
        };
    }
    if options.list {
        list(options);
        return Ok(());
    }
    if cfg!(debug_assertions) {
        eprintln!("ecru-bench: this is a debug build; its numbers mean nothing (use --release)");
    }
    match &options.resume {
        Some(file) => resume(file),
        None => begin(options),
    }
}

/// Runs the rows from the first to the last.
fn begin(options: &Options) -> Result<(), String> {
    if let (true, false, Some(reason)) =
        (options.save.is_some(), options.allow_dirty, harness::why_not_clean())
    {
        return Err(format!("results are kept only for a commit: {reason} (or --allow-dirty)"));
    }
    let rounds = options.rounds.unwrap_or(ROUNDS_FOR_A_VERDICT);
    let repeats = options.repeats.unwrap_or(rounds);
    let header = Header::here(std::env::args().skip(1).collect(), rounds, repeats);
    Run::begin(header, options.save.as_deref())?.rows(&options.rows, &topics::goals())
}

/// Continues the run of this file.
fn resume(file: &Path) -> Result<(), String> {
    let results = harness::interrupted(file)?;
    let options = parse(Parser::from_args(&results.header.arguments))?;
    let now = Header::here(Vec::new(), results.header.rounds, results.header.repeats);
    Run::resume(results, file, &now)?.rows(&options.rows, &topics::goals())
}

/// Prints the rows and their contenders.
fn list(options: &Options) {
    for row in &options.rows {
        let names: Vec<_> = row.contenders.iter().map(|contender| contender.name).collect();
        println!("{:<20} {} [{}]", row.name(), row.title, names.join(", "));
    }
}

/// Measures one contender of one row, once.
fn run_as_child(name: &str) -> Result<(), String> {
    let unknown = || format!("there is no contender `{name}`");
    let (row, contender) = name.rsplit_once('/').ok_or_else(unknown)?;
    let row = topics::named(row).ok_or_else(unknown)?;
    let contender =
        row.contenders.iter().find(|candidate| candidate.name == contender).ok_or_else(unknown)?;
    harness::child_main(&row, contender)
}
