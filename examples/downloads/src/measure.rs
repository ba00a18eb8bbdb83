//! `--measure`: the time of one file alone is the unit. A hundred files at once, and thousands
//! through a window, are compared with it in the same run.
//!
//! The server is a separate process, so that this process has only a client's memory and open
//! files.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::args::Args;
use crate::batch::{self, Batch};
use crate::fetch::Manner;
use crate::progress::Show;
use crate::server::path;
use crate::setup::{fit, manner};
use crate::units::bytes;
use crate::{output, own, report, runtime};

/// A download has its own socket open, and nothing on disk.
const FILES_EACH: u64 = 2;

/// Measures, and prints the ratios.
pub(crate) fn measure(args: &Args) -> anyhow::Result<u8> {
    let server = OtherProcess::start(args)?;
    let window = fit(args, args.window, FILES_EACH);
    let manner = manner(args, args.many, window)?;
    let rounds = args.many.div_ceil(window);

    let one = round(args, &manner, &server, 1, 1)?;
    let unit = one.figures.wall;
    output::print(&format!("1 file alone: {:.3} s", unit.as_secs_f64()));
    let at_once = round(args, &manner, &server, args.files, args.files.min(window))?;
    tell(&at_once, args.files, "at once", unit, 1);
    let many = round(args, &manner, &server, args.many, window)?;
    tell(&many, args.many, &format!("with window {window}"), unit, rounds);
    output::print(&format!(
        "client's peak memory: {}",
        report::peak_memory().map_or_else(|| "unknown".into(), bytes)
    ));

    let rounds = [one, at_once, many];
    Ok(rounds.iter().map(batch::Result::status).max().unwrap_or_default())
}

fn round(
    args: &Args,
    manner: &Manner,
    server: &OtherProcess,
    files: usize,
    window: usize,
) -> anyhow::Result<batch::Result> {
    let jobs = own::jobs(files, args.size, |index| format!("{}{}", server.url, path(index)));
    let expected = args.size.checked_mul(files as u64);
    let batch = Batch {
        jobs: &jobs,
        window,
        expected,
        show: Show::choose(args.quiet),
        per_host: &|_| usize::MAX,
        json: false,
        started: Instant::now(),
    };
    let result = runtime::run(args.workers, || batch.run(manner))??;
    ensure!(result.interrupted.is_none(), "interrupted; nothing was measured");
    Ok(result)
}

fn tell(result: &batch::Result, files: usize, how: &str, unit: Duration, rounds: usize) {
    let wall = result.figures.wall.as_secs_f64();
    let ideal = unit.as_secs_f64() * rounds as f64;
    let of =
        if rounds == 1 { "of one file alone".to_string() } else { format!("of {rounds} rounds") };
    output::print(&format!(
        "{files} files {how}: {wall:.3} s, {:.4} {of}; {} failed, peak tasks {}",
        wall / ideal,
        result.tally.failed,
        result.figures.peak_tasks
    ));
}

/// A second process of this program, which serves.
#[derive(Debug)]
struct OtherProcess {
    process: Child,
    url: String,
}

impl OtherProcess {
    fn start(args: &Args) -> anyhow::Result<Self> {
        let program = std::env::current_exe()
            .context("cannot find this program to start it as the server")?;
        let mut process = Command::new(program)
            .args(["--with-parent", "--serve", "127.0.0.1:0"])
            .args(["--files", &args.files.max(args.many).to_string()])
            .args(["--size", &args.size.to_string(), "--rate", &args.rate.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server's process")?;
        let mut url = String::new();
        let output = process.stdout.take().context("the server's output is piped")?;
        BufReader::new(output)
            .read_line(&mut url)
            .context("the server's process printed nothing")?;
        ensure!(url.starts_with("http://"), "the server's process did not start");
        Ok(Self { process, url: url.trim().to_string() })
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
