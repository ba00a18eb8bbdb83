//! `ecru-bench`: ecru and its peers at the same work, in interleaved rounds of one run.
//!
//! ```text
//! ecru-bench                      every row
//! ecru-bench switch spawn         the rows whose names begin so
//! ecru-bench coroutines 250000    a family of rows at another size (coroutines, parked, given-back, timer, sleeps, files-read, files-write)
//! ecru-bench gears                the measurements of gears' notes: its own rows, and those of files
//! ecru-bench --list               the rows
//! ```
//!
//! The goals are in [`goals`], the words in [`harness`].

mod ecru_side;
mod go;
mod goals;
mod harness;
mod jvm;
mod peers;
mod rows;
mod serving;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};

use crate::harness::{Machine, Row, RowResult};

const USAGE: &str = "\
usage: ecru-bench [ROW [NUMBER]]... [--rounds N] [--json FILE] [--list]

  ROW            the rows whose names begin with this; none given: all
  NUMBER         run the family ROW (coroutines, parked, given-back, timer, sleeps, files-read, files-write) with this number instead of its usual ones
  --rounds N     rounds of every row (default 5; rows that take seconds stop at fewer)
  --json FILE    write the results there, and as markdown next to it
  --list         print the rows and end";

/// What the command line asks for.
struct Options {
    rows: Vec<Row>,
    rounds: usize,
    json: Option<PathBuf>,
    list: bool,
    /// `row/contender`: this is a child process.
    child: Option<String>,
    /// This is the load of a server: the words after `--load`.
    load: Option<Vec<String>>,
}

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

/// Reads the command line.
fn parse(mut arguments: Parser) -> Result<Options, String> {
    let mut selectors: Vec<(String, Option<usize>)> = Vec::new();
    let mut options =
        Options { rows: Vec::new(), rounds: 5, json: None, list: false, child: None, load: None };
    while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
        match argument {
            Arg::Long("child") => options.child = Some(text(&mut arguments)?),
            Arg::Long("load") => {
                let words = arguments.values().map_err(|error| error.to_string())?;
                options.load =
                    Some(words.map(|word| word.to_string_lossy().into_owned()).collect());
            }
            Arg::Long("rounds") => options.rounds = number(&text(&mut arguments)?)?.max(1),
            Arg::Long("json") => options.json = Some(text(&mut arguments)?.into()),
            Arg::Long("list") => options.list = true,
            Arg::Long("help") | Arg::Short('h') => {
                return Err(format!("{}\n\n{USAGE}", env!("CARGO_PKG_DESCRIPTION")));
            }
            Arg::Value(value) => {
                let value = value.string().map_err(|error| error.to_string())?;
                match (value.parse(), selectors.last_mut()) {
                    (Ok(size), Some((_, given @ None))) => *given = Some(size),
                    _ => selectors.push((value, None)),
                }
            }
            other => return Err(format!("{}\n{USAGE}", other.unexpected())),
        }
    }
    options.rows = select(&selectors)?;
    Ok(options)
}

/// The value of an option.
fn text(arguments: &mut Parser) -> Result<String, String> {
    arguments.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

/// A whole number.
fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// The rows that the selectors name, in the order of the list.
fn select(selectors: &[(String, Option<usize>)]) -> Result<Vec<Row>, String> {
    let mut chosen = Vec::new();
    for (prefix, size) in selectors {
        if size.is_some() {
            let row = rows::build(prefix, *size);
            chosen.push(row.ok_or_else(|| {
                format!(
                    "there is no family of rows `{prefix}` that takes such a number; see --list"
                )
            })?);
        }
    }
    let usual = rows::ALL
        .iter()
        .map(|&(family, number)| rows::build(family, number).expect("the list names what exists"));
    let mut usual: Vec<_> = usual.collect();
    if !selectors.is_empty() {
        let prefixes: Vec<_> =
            selectors.iter().filter(|(_, size)| size.is_none()).map(|(prefix, _)| prefix).collect();
        if let Some(unknown) =
            prefixes.iter().find(|prefix| !usual.iter().any(|row| begins(row, prefix)))
        {
            return Err(format!("there is no row `{unknown}`; see --list"));
        }
        usual.retain(|row| prefixes.iter().any(|prefix| begins(row, prefix)));
    }
    chosen.extend(usual);
    Ok(chosen)
}

/// Whether a row's name begins with these words: `spawn-batch` and `spawn-batch-1` do with `spawn`, `parked-1000000` not with `parked-10000`.
/// What gears' notes measure has files in it, which are rows of their own.
fn begins(row: &Row, words: &str) -> bool {
    let is = |words| {
        row.name().strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    is(words) || (words == "gears" && is("files"))
}

/// Does what the options say.
fn run(options: &Options) -> Result<(), String> {
    if let Some(child) = &options.child {
        return run_as_child(child);
    }
    if let Some(words) = &options.load {
        return serving::load_main(words);
    }
    if options.list {
        for row in &options.rows {
            let names: Vec<_> = row.contenders.iter().map(|contender| contender.name).collect();
            println!("{:<20} {} [{}]", row.name(), row.title, names.join(", "));
        }
        return Ok(());
    }
    if cfg!(debug_assertions) {
        eprintln!("ecru-bench: this is a debug build; its numbers mean nothing (use --release)");
    }
    let results: Vec<RowResult> = options
        .rows
        .iter()
        .map(|row| harness::run_row(row, options.rounds, |running| eprintln!("  {running}")))
        .collect();
    let machine = Machine::here();
    let page = harness::markdown(&results, &machine);
    print!("{page}");
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&harness::json(&results, &machine))
            .expect("names and numbers make JSON");
        write(file, &(text + "\n"))?;
        write(&file.with_extension("md"), &page)?;
    }
    Ok(())
}

/// Measures one contender of one row, once.
fn run_as_child(name: &str) -> Result<(), String> {
    let unknown = || format!("there is no contender `{name}`");
    let (row, contender) = name.rsplit_once('/').ok_or_else(unknown)?;
    let row = rows::named(row).ok_or_else(unknown)?;
    let contender =
        row.contenders.iter().find(|candidate| candidate.name == contender).ok_or_else(unknown)?;
    harness::child_main(&row, contender)
}

/// Writes a file, or says which one could not be written.
fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the rows that these arguments select.
    fn selected(arguments: &[&str]) -> Result<Vec<String>, String> {
        let options = parse(Parser::from_args(arguments))?;
        Ok(options.rows.iter().map(Row::name).collect())
    }

    #[test]
    fn words_select_every_row_that_begins_with_them() {
        assert_eq!(selected(&["switch"]).unwrap(), ["switch"]);
        let spawning = ["spawn-join-1", "spawn-join-2", "spawn-batch-1", "spawn-batch-2"];
        assert_eq!(selected(&["spawn"]).unwrap(), spawning);
        assert_eq!(selected(&["parked-10000"]).unwrap(), ["parked-10000"]);
        assert_eq!(selected(&[]).unwrap().len(), rows::ALL.len());
        let gears = selected(&["gears"]).unwrap();
        for row in ["gears-future", "gears-race", "gears-mux-one", "files-write-40000000"] {
            assert!(gears.iter().any(|selected| selected == row), "{gears:?}");
        }
    }

    #[test]
    fn a_number_gives_a_family_another_size() {
        assert_eq!(
            selected(&["coroutines", "2500", "yield"]).unwrap(),
            ["coroutines-2500", "yield"]
        );
    }

    #[test]
    fn what_does_not_exist_is_an_error_that_names_it() {
        assert!(selected(&["swich"]).unwrap_err().contains("swich"));
        assert!(selected(&["yield", "7"]).unwrap_err().contains("yield"));
        assert!(selected(&["--rounds", "many"]).unwrap_err().contains("many"));
    }
}
