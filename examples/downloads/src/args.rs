//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::units::parse_bytes;

/// How many downloads at a time when nobody says.
pub(crate) const DEFAULT_WINDOW: usize = 512;

const AFTER_HELP: &str = "\
Without a URL it starts a server of its own on loopback, downloads a hundred slow files from it, checks every byte and discards it.

Exit status: 0 all is there, 1 at least one failed, 2 the command line is wrong, 130 interrupted.";

/// Download many files at once, in direct style: plain blocking-looking code, a task for each file.
#[derive(Debug, Parser)]
#[command(name = "downloads", after_help = AFTER_HELP, args_override_self = true)]
pub(crate) struct Args {
    /// What to download (http or https)
    pub(crate) urls: Vec<String>,

    /// A file of URLs, one a line; empty lines and lines that begin with # do not count; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) input: Vec<PathBuf>,

    /// How many downloads at a time
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = DEFAULT_WINDOW, value_parser = positive)]
    pub(crate) window: usize,

    /// The folder to put files into; made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,

    /// How often to try again, after the first attempt at a file
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(crate) retries: u32,

    /// The pause before the first retry; each further one is twice as long, all are varied at random
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = seconds)]
    pub(crate) backoff: Duration,

    /// Give up waiting for a connection or for the next byte after this long
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,

    /// Start afresh: ignore what earlier runs left behind, and replace files that are already there
    #[arg(long)]
    pub(crate) no_resume: bool,

    /// Trust the certificates in this PEM file instead of the Web's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// No progress, only failures and the closing summary
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(crate) workers: Option<usize>,

    /// Own server: how many files
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = positive)]
    pub(crate) files: usize,

    /// Own server: the size of a file, such as 6M or 512Ki
    #[arg(long, value_name = "BYTES", default_value = "6M", value_parser = parse_bytes)]
    pub(crate) size: u64,

    /// Own server: what one connection gets a second, such as 500k
    #[arg(long, value_name = "BYTES", default_value = "500k", value_parser = rate)]
    pub(crate) rate: u64,

    /// Only serve the files, on this address (such as 127.0.0.1:8080), until interrupted
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["urls", "input", "measure"])]
    pub(crate) serve: Option<std::net::SocketAddr>,

    /// Download one file alone, then `--files`, then `--many` through the window, and compare
    #[arg(long, conflicts_with_all = ["urls", "input"])]
    pub(crate) measure: bool,

    /// End when the process that started this one does
    #[arg(long, hide = true, requires = "serve")]
    pub(crate) with_parent: bool,

    /// With --measure: how many files go through the window
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = positive)]
    pub(crate) many: usize,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}; write a whole number such as 512")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "write a number of seconds such as 2.5".to_string())?;
    if number <= 0.0 || !number.is_finite() || number > 86_400.0 * 365.0 {
        return Err("it must be more than 0 and less than a year".into());
    }
    Ok(Duration::from_secs_f64(number))
}

fn rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("at 0 bytes a second nothing would ever arrive".into()),
        rate => Ok(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What makes no sense is refused.
    #[test]
    fn bad_numbers_are_refused() {
        assert!(rate("0").is_err());
        assert!(positive("0").unwrap_err().contains("at least 1"));
        assert!(seconds("-1").is_err() && seconds("nan").is_err());
    }

    /// The definition holds together.
    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
