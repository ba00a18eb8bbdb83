//! A batch of downloads: the main job of the program, and shorter than the modules around it.

use std::io;
use std::time::Instant;

use crate::args::Args;
use crate::fetch::{self, Job, Manner, Record};
use crate::interrupt::Interrupt;
use crate::json;
use crate::output;
use crate::progress::{Progress, Show};
use crate::report::{self, Figures, Tally};
use crate::runtime;
use crate::turns::Turns;

/// The parameters of a batch.
pub(crate) struct Batch<'a> {
    pub(crate) jobs: &'a [Job],
    pub(crate) window: usize,
    /// The bytes of all files, if known beforehand.
    pub(crate) expected: Option<u64>,
    pub(crate) show: Show,
    /// The number of downloads from a host that may run at a time.
    pub(crate) per_host: &'a (dyn Fn(&str) -> usize + Sync),
    pub(crate) json: bool,
    /// The start of the time that the figures cover.
    pub(crate) started: Instant,
}

/// The result of a batch.
#[derive(Debug)]
pub(crate) struct Result {
    pub(crate) tally: Tally,
    pub(crate) figures: Figures,
    /// The exit status that a signal requests.
    pub(crate) interrupted: Option<u8>,
}

impl Batch<'_> {
    /// Downloads all files, at most a window at a time, each in a task of its own. Failures are
    /// reported as they happen.
    pub(crate) fn run(&self, manner: &Manner) -> io::Result<Result> {
        let progress = Progress::new(self.jobs.len(), self.expected, self.show);
        let turns = Turns::new(self.jobs.iter().map(Job::host), self.per_host);
        let (records, interrupted) = runtime::cancel_scope(|cancel| {
            let interrupt = Interrupt::watch(move || cancel.cancel())?;
            let download = || {
                runtime::map_buffered(self.window, turns.each(), |turn| {
                    let job = &self.jobs[turn.job];
                    let record = fetch::fetch(job, manner, &progress);
                    self.tell(job, &record, &progress);
                    record
                })
            };
            let records = runtime::with_companion(
                || progress.keep_showing(),
                || {
                    let say = |line: &str| progress.say(line);
                    let records =
                        runtime::with_companion(|| manner.indexes.keep_writing(say), download);
                    manner.indexes.write(say);
                    records
                },
            );
            io::Result::Ok((records, interrupt.status()))
        })?;
        let figures = Figures {
            wall: runtime::now().duration_since(self.started),
            received: progress.received(),
            peak_tasks: progress.peak(),
        };
        Ok(Result { tally: Tally::of(&records), figures, interrupted })
    }

    fn tell(&self, job: &Job, record: &Record, progress: &Progress) {
        if let Some(line) = report::failure(job, record) {
            progress.say(&line);
        }
        if self.json {
            json::print(&json::file(job, record));
        }
    }
}

impl Result {
    /// Prints the final summary, in the requested form.
    pub(crate) fn close(&self, args: &Args, jobs: &[Job]) {
        if args.json {
            let interrupted = self.interrupted.is_some();
            json::print(&json::summary(&self.tally, &self.figures, jobs.len(), interrupted));
        } else if !args.quiet {
            output::print(&report::summary(&self.tally, &self.figures, jobs));
        }
    }

    /// Returns the program's exit status for this batch.
    pub(crate) fn status(&self) -> u8 {
        match self.interrupted {
            Some(status) if self.tally.cancelled > 0 => status,
            _ => u8::from(self.tally.failed > 0 || self.tally.bad_lines > 0),
        }
    }
}
