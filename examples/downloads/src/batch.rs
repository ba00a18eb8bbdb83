//! A batch of downloads: the heart of the program, and shorter than anything around it.

use std::io;
use std::time::Instant;

use crate::fetch::{self, Job, Manner};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Show};
use crate::report::{self, Figures, Tally};
use crate::runtime;

/// How a batch is run.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) jobs: &'a [Job],
    pub(crate) window: usize,
    /// All bytes, where they are known beforehand.
    pub(crate) expected: Option<u64>,
    pub(crate) show: Show,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Result {
    pub(crate) tally: Tally,
    pub(crate) figures: Figures,
    /// The exit status that a signal asks for.
    pub(crate) interrupted: Option<u8>,
}

impl Batch<'_> {
    /// Downloads all, at most a window at a time, each in a task of its own. Failures are told as they happen.
    pub(crate) fn run(&self, manner: &Manner) -> io::Result<Result> {
        let progress = Progress::new(self.jobs.len(), self.expected, self.show);
        let started = Instant::now();
        let (records, interrupted) = runtime::cancel_scope(|cancel| {
            let interrupt = Interrupt::watch(move || cancel.cancel())?;
            let records = runtime::with_companion(
                || progress.keep_showing(),
                || {
                    runtime::map_buffered(self.window, self.jobs, |job| {
                        let record = fetch::fetch(job, manner, &progress);
                        if let Some(line) = report::failure(job, &record) {
                            progress.say(&line);
                        }
                        record
                    })
                },
            );
            io::Result::Ok((records, interrupt.status()))
        })?;
        let figures = Figures {
            wall: started.elapsed(),
            received: progress.received(),
            peak_tasks: progress.peak(),
        };
        Ok(Result { tally: Tally::of(&records), figures, interrupted })
    }
}

impl Result {
    /// The exit status of a program whose job this batch was.
    pub(crate) fn status(&self) -> u8 {
        match self.interrupted {
            Some(status) if self.tally.cancelled > 0 => status,
            _ => u8::from(self.tally.failed > 0),
        }
    }
}
