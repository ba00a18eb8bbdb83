//! The report at the end: a line for each failure, and the summary.

use std::time::Duration;

use crate::fetch::{Into, Job, Outcome, Record};
use crate::sources::BadLine;
use crate::units::bytes;

/// Returns the line for a failed job: the URL, what happened, and what to do.
pub(crate) fn failure(job: &Job, record: &Record) -> Option<String> {
    let Outcome::Failed { failure, attempts, kept } = &record.outcome else { return None };
    let tries = if *attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() };
    let kept =
        kept.map(|kept| format!("; {} stay in {}.part and will be resumed", bytes(kept), job.name));
    Some(format!(
        "failed: {}: {}{tries}; {}{}",
        job.uri,
        failure.what,
        failure.advice,
        kept.unwrap_or_default()
    ))
}

/// The results of a batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: usize,
    pub(crate) there: usize,
    pub(crate) kept: usize,
    pub(crate) failed: usize,
    pub(crate) cancelled: usize,
    pub(crate) resumable: usize,
    /// Lines of lists that are not URLs.
    pub(crate) bad_lines: usize,
    pub(crate) one_after_another: Duration,
}

impl Tally {
    pub(crate) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut tally = Self::default();
        for record in records {
            match &record.outcome {
                Outcome::Done => {
                    tally.done += 1;
                    tally.one_after_another += record.elapsed;
                }
                Outcome::There => tally.there += 1,
                Outcome::Kept => tally.kept += 1,
                Outcome::Failed { kept, .. } => {
                    tally.failed += 1;
                    tally.resumable += usize::from(kept.is_some());
                }
                Outcome::Cancelled { kept } => {
                    tally.cancelled += 1;
                    tally.resumable += usize::from(kept.is_some());
                }
            }
        }
        tally
    }
}

/// The figures in the summary, beside the tally.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    pub(crate) received: u64,
    pub(crate) peak_tasks: usize,
}

/// Returns the final summary.
pub(crate) fn summary(tally: &Tally, figures: &Figures, jobs: &[Job]) -> String {
    let checked = jobs.iter().any(|job| matches!(job.into, Into::Check { .. }));
    let wall = figures.wall.as_secs_f64();
    let after = tally.one_after_another.as_secs_f64();
    let mut lines = vec![format!(
        "{} of {} files, {} in {wall:.2} s{}",
        tally.done,
        jobs.len(),
        bytes(figures.received),
        if checked { ", every byte checked" } else { "" }
    )];
    lines.extend(others(tally));
    if tally.done > 1 {
        lines.push(format!(
            "one after another they would have taken {after:.1} s, {:.1} times as long",
            after / wall
        ));
    }
    let memory = peak_memory().map_or_else(|| "unknown".to_string(), bytes);
    lines.push(format!("peak tasks {}, peak memory {memory}", figures.peak_tasks));
    lines.join("\n")
}

/// Returns the line about the files that were not downloaded, if there are any.
pub(crate) fn others(tally: &Tally) -> Option<String> {
    let mut rest = Vec::new();
    for (count, what) in [
        (tally.there, "already there"),
        (tally.kept, "kept as they were, not compared"),
        (tally.failed, "failed"),
        (tally.cancelled, "not finished"),
        (tally.bad_lines, "bad lines"),
    ] {
        if count > 0 {
            let what = if count == 1 { singular(what) } else { what };
            rest.push(format!("{count} {what}"));
        }
    }
    (!rest.is_empty()).then(|| rest.join(", "))
}

fn singular(what: &str) -> &str {
    match what {
        "bad lines" => "bad line",
        "kept as they were, not compared" => "kept as it was, not compared",
        what => what,
    }
}

/// Returns the line for a line of a list that is not a URL.
pub(crate) fn bad_line(line: &BadLine) -> String {
    format!(
        "failed: {}: {}; correct the list, then run the same command again",
        line.place, line.why
    )
}

/// Returns the text printed after Ctrl-C.
pub(crate) fn interrupted(tally: &Tally) -> String {
    let left = tally.cancelled + tally.failed;
    let resume = if left == 0 { "" } else { "; run the same command again to go on" };
    format!(
        "interrupted: {} done, {} can be resumed, {} to be started{resume}",
        tally.done + tally.there + tally.kept,
        tally.resumable,
        left - tally.resumable
    )
}

/// Returns the largest resident memory that this process has had.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel reports this process's peak.
    #[test]
    #[cfg(target_os = "linux")]
    fn memory() {
        assert!(peak_memory().unwrap() > 100_000);
    }
}
