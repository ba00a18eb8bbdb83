//! The flags that apply to each mode of the program. A flag that would be ignored is an error
//! instead.

use clap::ArgMatches;
use clap::parser::ValueSource;

/// What the command line asks the program to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Download the URLs on the command line and in lists.
    Urls,
    /// Download the embedded server's files.
    Own,
    /// `--measure`.
    Measure,
    /// `--serve`.
    Serve,
    /// `--fleet` with `--run`.
    Coordinator,
    /// `--fleet` with `--worker`.
    Worker,
}

impl Mode {
    pub(crate) fn of(matches: &ArgMatches) -> Self {
        if given(matches, "serve") {
            Self::Serve
        } else if given(matches, "measure") {
            Self::Measure
        } else if given(matches, "worker") {
            Self::Worker
        } else if given(matches, "fleet") {
            Self::Coordinator
        } else if given(matches, "urls") || given(matches, "input") {
            Self::Urls
        } else {
            Self::Own
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Urls => "to a download of URLs",
            Self::Own => "without a URL, where the program downloads from its own server",
            Self::Measure => "to --measure",
            Self::Serve => "to --serve",
            Self::Coordinator => "to --run",
            Self::Worker => "to --worker",
        }
    }
}

use Mode::{Coordinator, Measure, Own, Serve, Urls, Worker};

const DOWNLOADS: &[Mode] = &[Urls, Own, Measure, Worker];
/// The modes with a list, and those with a folder.
const LISTS: &[Mode] = &[Urls, Coordinator];
const FOLDERS: &[Mode] = &[Urls, Worker];
const FLEET: &[Mode] = &[Coordinator, Worker];
const RUNS: &[Mode] = &[Urls, Own, Measure, Coordinator, Worker];
const SERVERS: &[Mode] = &[Own, Measure, Serve];

/// Each flag, the modes in which it applies, and what to do in the other modes.
const FLAGS: &[(&str, &[Mode], &str)] = &[
    ("urls", LISTS, "leave the URL or the other flag out"),
    ("input", LISTS, "leave the list or the other flag out"),
    ("window", DOWNLOADS, ""),
    ("per_host", &[Urls], "use -c"),
    ("output", FOLDERS, "nothing is written there"),
    ("keep_directories", LISTS, "nothing is written there"),
    ("overwrite", FOLDERS, "nothing is written there"),
    ("keep", FOLDERS, "nothing is written there"),
    ("no_resume", FOLDERS, "nothing is written there"),
    ("retries", DOWNLOADS, ""),
    ("backoff", DOWNLOADS, ""),
    ("timeout", DOWNLOADS, ""),
    ("header", FOLDERS, ""),
    ("ca", FOLDERS, "the embedded server uses no TLS"),
    ("insecure", FOLDERS, "the embedded server uses no TLS"),
    ("limit_rate", FOLDERS, "--rate limits the embedded server"),
    ("json", &[Urls, Own, Coordinator], ""),
    ("quiet", RUNS, ""),
    ("workers", RUNS, ""),
    ("files", SERVERS, "it is a number of the embedded server's files"),
    ("size", SERVERS, "it is the size of the embedded server's files"),
    ("rate", SERVERS, "it is the embedded server's; --limit-rate limits a download"),
    ("many", &[Measure], "it belongs to --measure"),
    ("fleet", FLEET, "choose one"),
    ("run", &[Coordinator], "choose one"),
    ("worker", &[Worker], "choose one"),
    ("lease", FLEET, "it belongs to --fleet"),
    ("serve", &[Serve], ""),
    ("measure", &[Measure], "choose one"),
    ("with_parent", &[Serve], ""),
];

/// Refuses flags that would be ignored.
///
/// # Errors
/// Returns the message for each such flag.
pub(crate) fn check(matches: &ArgMatches, mode: Mode) -> Result<(), String> {
    let ignored: Vec<String> = FLAGS
        .iter()
        .filter(|(id, modes, _)| given(matches, id) && !modes.contains(&mode))
        .map(|(id, modes, instead)| {
            let flag = match *id {
                "urls" => "a URL".to_string(),
                id => format!("--{}", id.replace('_', "-")),
            };
            let instead = match mode {
                Coordinator if modes.contains(&Worker) => "give it to the workers",
                Worker if modes.contains(&Coordinator) => "give it to the process with --run",
                _ => instead,
            };
            let instead = if instead.is_empty() { String::new() } else { format!(" ({instead})") };
            format!("{flag} does not apply {}{instead}", mode.name())
        })
        .collect();
    if ignored.is_empty() { Ok(()) } else { Err(ignored.join("\n")) }
}

/// Whether the command line has this flag.
pub(crate) fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    fn check_line(line: &str) -> Result<(), String> {
        let matches = Args::command().get_matches_from(line.split(' '));
        check(&matches, Mode::of(&matches))
    }

    /// Every flag is in the table.
    #[test]
    fn all_flags_are_listed() {
        for argument in Args::command().get_arguments() {
            let id = argument.get_id().as_str();
            assert!(FLAGS.iter().any(|(known, ..)| *known == id), "{id}");
        }
    }

    /// A fleet needs a part to play, and parts need a fleet.
    #[test]
    fn incomplete_fleets() {
        for (line, words) in [
            ("downloads --fleet f http://h/", "--run <NAME>|--worker"),
            ("downloads --run r http://h/", "--fleet <URL>"),
            ("downloads --worker", "--fleet <URL>"),
            ("downloads --fleet f --run r --worker", "cannot be used with"),
        ] {
            let error = Args::command().try_get_matches_from(line.split(' ')).unwrap_err();
            assert!(error.to_string().contains(words), "{line}: {error}");
        }
    }

    /// A flag that would be ignored is refused, and the message says where it applies.
    #[test]
    fn ignored_flags() {
        for (line, words) in [
            ("downloads --rate 100k http://h/", "--limit-rate"),
            ("downloads --files 3 http://h/", "embedded server's files"),
            ("downloads --size 3 -i list", "--size does not apply"),
            ("downloads --many 3 http://h/", "--measure"),
            ("downloads --output x", "without a URL"),
            ("downloads --per-host 3", "use -c"),
            ("downloads --limit-rate 3", "--rate"),
            ("downloads --serve 127.0.0.1:0 --quiet", "--serve"),
            ("downloads --serve 127.0.0.1:0 http://h/", "a URL does not apply"),
            ("downloads --measure -i list", "--input does not apply to --measure"),
            ("downloads --measure --json", "--json"),
            ("downloads --lease 3 http://h/", "--fleet"),
            ("downloads --fleet f --run r -o x http://h/", "give it to the workers"),
            ("downloads --fleet f --run r --per-host 3 http://h/", "use -c"),
            ("downloads --fleet f --worker http://h/", "give it to the process with --run"),
            ("downloads --fleet f --worker --json", "give it to the process with --run"),
            ("downloads --fleet f --worker --files 3", "embedded server's files"),
            ("downloads --fleet f --worker --measure", "choose one"),
        ] {
            let error = check_line(line).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
        for line in [
            "downloads",
            "downloads --files 3 --size 1k --rate 1k -c 3 --json -q",
            "downloads --serve 127.0.0.1:0 --files 3",
            "downloads --measure --many 3 --workers 1",
            "downloads --fleet f --run r -i list --keep-directories --json --lease 3 -q",
            "downloads --fleet f --worker -o x -c 3 --overwrite --ca f --limit-rate 3",
            "downloads http://h/ -i list -o x --limit-rate 3 --per-host 2 --insecure",
        ] {
            assert_eq!(check_line(line), Ok(()), "{line}");
        }
    }
}
