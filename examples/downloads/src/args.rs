//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::units::parse_bytes;

/// The default limit of downloads at a time.
pub(crate) const DEFAULT_WINDOW: usize = 512;

/// The default limit of connections to one host.
pub(crate) const DEFAULT_PER_HOST: usize = 8;

const AFTER_HELP: &str = "\
Files: a file appears under its name only when it is complete. Until then it is NAME.part, and the same command continues it. \
Each folder has a hidden index, .downloads.json, of the URL, validators and length of each finished file. A file that is there \
already is compared with its record and with the server. If it is another file, the download fails; --overwrite or --keep decide.

Credentials: user:password@ in a URL is percent-decoded and sent as Basic authentication, to that URL's scheme, host and port \
only, and is neither printed nor stored. Other users of this machine can see a command line; a list (-i) and --header @FILE \
are not visible to them.

Without a URL the program starts a server of its own on loopback, downloads a hundred slow files from it, checks every byte and \
discards it.

A fleet: one process with --run sends a list to the NATS server, any number with --worker download it, in any order of their \
starts. The workers' -o must name one folder that they share, with working locks. A worker that is killed loses nothing: after \
the lease, another one continues its files. The same --run, given again after an end of any kind, goes on where it stopped.

Exit status: 0 all is there, 1 at least one failed, 2 the command line is wrong, 130 interrupted. A worker that was asked to stop \
ends with 0.";

/// Download many files at once, in direct style: plain blocking-looking code, a task for each file.
#[derive(Debug, Parser)]
#[command(name = "downloads", version, after_help = AFTER_HELP, args_override_self = true)]
pub(crate) struct Args {
    /// What to download (http or https)
    pub(crate) urls: Vec<String>,

    /// A file of URLs, one per line; empty lines and lines that begin with # are ignored; - is
    /// standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) input: Vec<PathBuf>,

    /// The number of downloads at a time; given explicitly, it also removes the default of
    /// --per-host
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = DEFAULT_WINDOW, value_parser = positive)]
    pub(crate) window: usize,

    /// The number of downloads at a time from one host [default: 8, but no limit for loopback
    /// addresses and with -c]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(crate) per_host: Option<usize>,

    /// The folder for the files; it is created if necessary
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,

    /// Keep each URL's host and directories as folders: DIR/host/a/b/file
    #[arg(long)]
    pub(crate) keep_directories: bool,

    /// Replace existing files
    #[arg(long, conflicts_with = "keep")]
    pub(crate) overwrite: bool,

    /// Keep existing files as they are, without comparing them
    #[arg(long)]
    pub(crate) keep: bool,

    /// The number of retries after the first attempt at a file
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(crate) retries: u32,

    /// The pause before the first retry; each further pause is twice as long, and all are varied at
    /// random
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = seconds)]
    pub(crate) backoff: Duration,

    /// Give up waiting for a connection or for the next byte after this long
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,

    /// Start from the beginning: ignore what earlier runs left behind, and replace existing files
    #[arg(long, conflicts_with = "keep")]
    pub(crate) no_resume: bool,

    /// Send this header to the host of every URL, but not to other hosts that it redirects to;
    /// @FILE reads headers from a file
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,

    /// Trust the certificates in this PEM file, of authorities or of servers themselves, instead of
    /// the Web's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Do not check certificates: anything between this machine and the server can read and change
    /// what is sent
    #[arg(long, conflicts_with = "ca")]
    pub(crate) insecure: bool,

    /// All downloads together receive at most this many bytes a second, such as 500k
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub(crate) limit_rate: Option<u64>,

    /// Write one JSON object per line on standard output: each file when it ends, then a summary
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but failures and warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(crate) workers: Option<usize>,

    /// Own server: the number of files
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = positive)]
    pub(crate) files: usize,

    /// Own server: the size of a file, such as 6M or 512Ki
    #[arg(long, value_name = "BYTES", default_value = "6M", value_parser = parse_bytes)]
    pub(crate) size: u64,

    /// Own server: the rate of one connection per second, such as 500k
    #[arg(long, value_name = "BYTES", default_value = "500k", value_parser = rate)]
    pub(crate) rate: u64,

    /// Work with other processes through a NATS server with JetStream, such as
    /// nats://127.0.0.1:4222; needs --run or --worker; @FILE reads the URL from a file
    #[arg(long, value_name = "URL", requires = "part")]
    pub(crate) fleet: Option<String>,

    /// Fleet: send the files to the workers under this name, and show the progress; given again, it
    /// goes on where it stopped
    #[arg(long, value_name = "NAME", requires = "fleet", group = "part")]
    pub(crate) run: Option<String>,

    /// Fleet: download the files that any --run sends, -c at a time [default: 8]; the first Ctrl-C
    /// finishes those that were begun
    #[arg(long, requires = "fleet", group = "part")]
    pub(crate) worker: bool,

    /// Fleet: the files of a worker that was killed go to another one after this long; the same in
    /// all processes
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) lease: Duration,

    /// Only serve the files, on this address (such as 127.0.0.1:8080), until interrupted
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) serve: Option<std::net::SocketAddr>,

    /// Download one file alone, then `--files`, then `--many` through the window, and compare
    #[arg(long)]
    pub(crate) measure: bool,

    /// End when the parent process ends
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,

    /// With --measure: the number of files that go through the window
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

    /// Invalid numbers are refused.
    #[test]
    fn bad_numbers_are_refused() {
        assert!(rate("0").is_err());
        assert!(positive("0").unwrap_err().contains("at least 1"));
        assert!(seconds("-1").is_err() && seconds("nan").is_err());
    }

    /// The definition of the command line is consistent.
    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
