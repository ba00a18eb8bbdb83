//! The coordinator: sends a list, shows the progress of the fleet, and collects the reports.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use ecru_fleet::{CallError, Fleet, JobError};

use super::progress::{Bar, Counts};
use super::{Order, Report, join, list, open};
use crate::args::Args;
use crate::fetch::{Again, Failure, Job, Outcome, Record};
use crate::interrupt::Interrupt;
use crate::json;
use crate::output;
use crate::progress::{Show, write_line};
use crate::report::{self, Figures, Tally};
use crate::runtime;
use crate::setup::jobs;
use crate::sources;
use crate::units::bytes;

/// Sends the list and waits for the workers to download it.
pub(crate) fn coordinate(args: &Args, started: Instant) -> anyhow::Result<u8> {
    if args.urls.is_empty() && args.input.is_empty() {
        bail!("--run sends files; write URLs, or name a list of them (-i)");
    }
    let sources = sources::gather(&args.urls, &args.input)?;
    if let Some(address) = sources.addresses.iter().find(|address| address.credentials.is_some()) {
        bail!(
            "{}: the URL has credentials, which the fleet's server would store\nnothing was started; leave them out, and start the workers with --header @FILE",
            address.uri
        );
    }
    // The workers know the folder.
    let jobs = jobs(sources.addresses, args.keep_directories, Path::new(""));
    let (url, run) =
        (args.fleet.as_deref().unwrap_or_default(), args.run.as_deref().unwrap_or_default());
    let (collected, interrupted) = runtime::run(args.workers, || {
        runtime::cancel_scope(|stop| {
            let interrupt = Interrupt::watch(move || stop.cancel())?;
            let collected = runtime::scope(|s| {
                let fleet = join(s, url)?;
                list::claim(&fleet, run, &jobs)?;
                let run = Sent { jobs: &jobs, run, lease: args.lease, json: args.json };
                run.collect(&fleet, Show::choose(args.quiet))
            });
            match (collected, interrupt.status()) {
                (Err(_), Some(status)) => Ok((Collected::new(&jobs), Some(status))),
                (collected, status) => collected.map(|collected| (collected, status)),
            }
        })
    })??;
    sources::tell(&sources.bad, args.json);
    Ok(collected.close(args, &jobs, sources.bad.len(), started, interrupted))
}

/// A list that is sent under the name of a run.
pub(super) struct Sent<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) run: &'a str,
    pub(super) lease: Duration,
    pub(super) json: bool,
}

/// What was learned of the files of a list.
pub(super) struct Collected {
    pub(super) records: Vec<Option<Record>>,
    /// The number of files and of bytes of each worker.
    pub(super) workers: BTreeMap<String, (u64, u64)>,
    /// Why there are no further reports, if there should be some.
    pub(super) error: Option<CallError>,
}

impl Sent<'_> {
    /// Collects the reports until all are there, or it is cancelled.
    pub(super) fn collect(&self, fleet: &Fleet<'_>, show: Show) -> anyhow::Result<Collected> {
        let refuse = |_| Err(JobError::Fatal("a coordinator downloads nothing".into()));
        let download = open(fleet, self.lease, refuse)?;
        let orders: Vec<Order> = self
            .jobs
            .iter()
            .map(|job| Order { url: job.uri.to_string(), name: job.name.clone() })
            .collect();
        let reports = download.map(self.run, orders)?.results();
        let bar = Bar::new(self.jobs.len(), show);
        let mut counts = Counts::default();
        let mut collected = Collected::new(self.jobs);
        let under_way = || download.stats().map_or(0, |stats| stats.running);
        runtime::with_companion(
            || bar.keep_showing(under_way),
            || {
                for (index, result) in reports.iter() {
                    let record = match result {
                        Ok(report) => collected.credit(report),
                        Err(CallError::Failed { reason, attempts }) => lost(reason, attempts),
                        Err(error) => {
                            collected.error = Some(error);
                            break;
                        }
                    };
                    let job = &self.jobs[index];
                    if let Some(line) = report::failure(job, &record) {
                        bar.say(&line);
                    }
                    if self.json {
                        json::print(&json::file(job, &record));
                    }
                    match record.outcome {
                        Outcome::Failed { .. } => counts.failed += 1,
                        _ => counts.done += 1,
                    }
                    counts.received = collected.received();
                    counts.workers = collected.workers.len();
                    bar.update(counts);
                    collected.records[index] = Some(record);
                }
            },
        );
        Ok(collected)
    }
}

/// Returns the record of a file that no worker has reported on, as each one failed or died.
fn lost(what: String, attempts: u32) -> Record {
    let advice = Cow::Borrowed("see what the workers print; another --run tries again");
    let failure = Failure { what, advice, again: Again::Never };
    let outcome = Outcome::Failed { failure, attempts, kept: None };
    Record { outcome, elapsed: Duration::ZERO }
}

impl Collected {
    fn new(jobs: &[Job]) -> Self {
        let records = jobs.iter().map(|_| None).collect();
        Self { records, workers: BTreeMap::new(), error: None }
    }

    /// Adds a report to the worker's figures, and returns the record in it.
    fn credit(&mut self, report: Report) -> Record {
        let (files, received) = self.workers.entry(report.worker).or_default();
        *files += 1;
        *received += report.received;
        report.record
    }

    pub(super) fn received(&self) -> u64 {
        self.workers.values().map(|(_, received)| received).sum()
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::of(self.records.iter().flatten());
        tally.cancelled += self.records.iter().filter(|record| record.is_none()).count();
        tally
    }

    /// Prints the summary, and returns the exit status.
    fn close(
        self,
        args: &Args,
        jobs: &[Job],
        bad_lines: usize,
        started: Instant,
        interrupted: Option<u8>,
    ) -> u8 {
        let mut tally = self.tally();
        tally.bad_lines = bad_lines;
        let stopped = interrupted.filter(|_| tally.cancelled > 0);
        let wall = runtime::now().duration_since(started);
        let figures = Figures { wall, received: self.received(), peak_tasks: 0 };
        if stopped.is_some() {
            write_line(
                "interrupted: the workers go on with what was sent; the same command shows the rest",
            );
        } else if let Some(error) = &self.error {
            write_line(&format!(
                "downloads: the fleet has failed: {error}; the same command goes on"
            ));
        }
        if args.json {
            let mut summary = json::summary(&tally, &figures, jobs.len(), stopped.is_some());
            // Those are numbers of the workers.
            summary.as_object_mut().map(|fields| fields.remove("peak_tasks"));
            summary["workers"] = self.workers.iter().map(json::worker).collect();
            json::print(&summary);
        } else if !args.quiet {
            output::print(&self.summary(&tally, &figures));
        }
        let is_incomplete = tally.failed + tally.bad_lines + tally.cancelled > 0;
        stopped.unwrap_or(u8::from(is_incomplete))
    }

    fn summary(&self, tally: &Tally, figures: &Figures) -> String {
        let mut lines = vec![format!(
            "{} of {} files, {} in {:.2} s",
            tally.done,
            self.records.len(),
            bytes(figures.received),
            figures.wall.as_secs_f64()
        )];
        lines.extend(report::others(tally));
        if tally.failed > 0 {
            lines
                .push("another --run tries failed files again, and downloads no file twice".into());
        }
        lines.extend(self.workers.iter().map(|(worker, (files, received))| {
            let s = if *files == 1 { "" } else { "s" };
            format!("worker {worker}: {files} file{s}, {}", bytes(*received))
        }));
        lines.join("\n")
    }
}
