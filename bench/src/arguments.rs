//! The command line.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::harness::Row;
use crate::topics::{self, TOPICS};

pub(crate) const USAGE: &str = "\
usage: ecru-bench [TOPIC | ROW [NUMBER]]... [OPTION]...

  TOPIC             the rows of a topic: tasks, channels, servers, files, programs, gears,
                    placement, simulation, fleet, oversubscribed
  ROW               the rows whose names begin with this; none given: all
  NUMBER            run the family ROW (coroutines, parked, given-back, timer, sleeps, files-read,
                    files-write, fleet-naps, fleet-rerun, fleet-memory) with this number instead of its usual ones
  --rounds N        rounds of every row (default 9; fewer decide nothing)
  --repeats N       disturbed rounds of a row that are run again, at most (default: as many as rounds)
  --save NAME       keep the results in bench/results/<processor>/<date>-NAME.json, and a page beside
                    it; only from a clean tree; the name of a topic selects its rows if no others are
  --allow-dirty     keep them all the same, marked; `bench/report.py` refuses such a file
  --resume FILE     go on with an interrupted run: its rows, rounds and file
  --list            print the rows and end";

/// The parsed command line.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) rows: Vec<Row>,
    pub(crate) rounds: Option<usize>,
    pub(crate) repeats: Option<usize>,
    /// The name under which the results are kept.
    pub(crate) save: Option<String>,
    pub(crate) allow_dirty: bool,
    pub(crate) resume: Option<PathBuf>,
    pub(crate) list: bool,
    /// `row/contender`, if this is a child process.
    pub(crate) child: Option<String>,
    /// The words after `--load`, if this process is the load of a server.
    pub(crate) load: Option<Vec<String>>,
}

/// Reads the command line.
///
/// # Errors
///
/// Returns an error if an option or a row is unknown.
pub(crate) fn parse(mut arguments: Parser) -> Result<Options, String> {
    let mut selectors: Vec<(String, Option<usize>)> = Vec::new();
    let mut options = Options::default();
    while let Some(argument) = arguments.next().map_err(|error| error.to_string())? {
        match argument {
            Arg::Long("child") => options.child = Some(text(&mut arguments)?),
            Arg::Long("load") => {
                let words = arguments.values().map_err(|error| error.to_string())?;
                options.load =
                    Some(words.map(|word| word.to_string_lossy().into_owned()).collect());
            }
            Arg::Long("rounds") => options.rounds = Some(number(&text(&mut arguments)?)?.max(1)),
            Arg::Long("repeats") => options.repeats = Some(number(&text(&mut arguments)?)?),
            Arg::Long("save") => options.save = Some(text(&mut arguments)?),
            Arg::Long("allow-dirty") => options.allow_dirty = true,
            Arg::Long("resume") => options.resume = Some(text(&mut arguments)?.into()),
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
    if selectors.is_empty()
        && let Some(name) = options.save.as_ref()
        && TOPICS.iter().any(|topic| topic.name == name)
    {
        selectors.push((name.clone(), None));
    }
    options.rows = select(&selectors)?;
    Ok(options)
}

/// Returns the value of an option.
fn text(arguments: &mut Parser) -> Result<String, String> {
    arguments.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

/// Parses a whole number.
fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// Returns the rows that the selectors name, in the order of the topics. Rows with a number come
/// first.
fn select(selectors: &[(String, Option<usize>)]) -> Result<Vec<Row>, String> {
    let mut chosen = Vec::new();
    for (family, number) in selectors.iter().filter(|(_, number)| number.is_some()) {
        chosen.push(topics::build(family, *number).ok_or_else(|| {
            format!("there is no family of rows `{family}` that takes such a number; see --list")
        })?);
    }
    let words: Vec<_> = selectors.iter().filter(|(_, number)| number.is_none()).collect();
    if let Some((unknown, _)) = words.iter().find(|(word, _)| rows_by(word).next().is_none()) {
        return Err(format!("there is no topic and no row `{unknown}`; see --list"));
    }
    let wanted =
        |row: &Row| words.iter().any(|(word, _)| rows_by(word).any(|one| one.name() == row.name()));
    let usual = topics::all_rows().into_iter();
    chosen.extend(usual.filter(|row| selectors.is_empty() || wanted(row)));
    Ok(chosen)
}

/// Returns the rows that one word selects: those of the topic of that name, or otherwise those
/// whose names begin with it. `gears` also selects the files, which its notes measure.
fn rows_by(word: &str) -> impl Iterator<Item = Row> {
    let is_topic = TOPICS.iter().any(|topic| topic.name == word);
    TOPICS.iter().flat_map(move |topic| {
        let whole = topic.name == word || (word == "gears" && topic.name == "files");
        topics::rows_of(topic).filter(move |row| whole || (!is_topic && begins(row, word)))
    })
}

/// Returns whether a row's name begins with these words: `spawn-batch` and `spawn-batch-1` begin
/// with `spawn`, and `parked-1000000` does not begin with `parked-10000`.
fn begins(row: &Row, words: &str) -> bool {
    row.name().strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the rows that these arguments select.
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
        assert_eq!(selected(&[]).unwrap().len(), topics::all_rows().len());
    }

    #[test]
    fn a_topic_selects_all_of_its_rows() {
        let files = selected(&["files"]).unwrap();
        assert!(files.iter().all(|row| row.starts_with("files-")), "{files:?}");
        let gears = selected(&["gears"]).unwrap();
        for row in ["gears-future", "gears-race", "gears-mux-one", "files-write-40000000"] {
            assert!(gears.iter().any(|selected| selected == row), "{gears:?}");
        }
        // The names of the rows on eight workers begin with the same word and are not selected.
        let placement = selected(&["placement"]).unwrap();
        assert!(placement.iter().all(|row| !row.ends_with("-8")), "{placement:?}");
        let channels = selected(&["channels"]).unwrap();
        assert!(channels.iter().any(|row| row == "race-1"), "{channels:?}");
    }

    #[test]
    fn results_saved_as_a_topic_are_those_of_its_rows() {
        assert_eq!(selected(&["--save", "files"]).unwrap(), selected(&["files"]).unwrap());
        assert_eq!(selected(&["--save", "files", "switch"]).unwrap(), ["switch"]);
        assert_eq!(selected(&["--save", "all"]).unwrap(), selected(&[]).unwrap());
    }

    #[test]
    fn a_number_gives_a_family_another_size() {
        assert_eq!(
            selected(&["coroutines", "2500", "yield"]).unwrap()[..2],
            ["coroutines-2500", "yield"]
        );
    }

    #[test]
    fn what_does_not_exist_is_an_error_that_names_it() {
        assert!(selected(&["swich"]).unwrap_err().contains("swich"));
        assert!(selected(&["switch", "7"]).unwrap_err().contains("switch"));
        assert!(selected(&["--rounds", "many"]).unwrap_err().contains("many"));
    }
}
