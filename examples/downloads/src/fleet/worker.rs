//! A worker: downloads the files that coordinators send.

use std::path::{Component, Path};
use std::time::Duration;

use ecru_fleet::{Fleet, JobError};

use super::{Order, Report, join, open};
use crate::address::Address;
use crate::args::Args;
use crate::fetch::{self, Again, Failure, Into, Job, Manner, Outcome};
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Show, write_line};
use crate::runtime;
use crate::setup::{fit, manner, prepare};

/// The default limit of files at a time. A worker takes no more than it can begin, so that other
/// workers get the rest. All of them may come from one host, so this is also its limit.
const WINDOW: usize = crate::args::DEFAULT_PER_HOST;

/// Downloads files until it is interrupted. Then it finishes those that it has begun.
pub(crate) fn work(args: &Args, window_given: bool) -> anyhow::Result<u8> {
    prepare(args)?;
    let window = if window_given { args.window } else { WINDOW };
    let window = fit(args, window, crate::FILES_EACH);
    // The folder is not listed beforehand, because other workers change it.
    let manner = manner(args, 0, window)?;
    let worker = Worker { name: name(), folder: &args.output, manner: &manner };
    runtime::run(args.workers, || {
        runtime::cancel_scope(|stop| {
            let interrupt = Interrupt::watch(move || stop.cancel())?;
            runtime::scope(|s| {
                let url = args.fleet.as_deref().unwrap_or_default();
                let fleet = match join(s, url) {
                    Err(error) => return interrupt.status().map(Ok).unwrap_or(Err(error)),
                    Ok(fleet) => fleet,
                };
                worker.serve(&fleet, args.lease, window, || {
                    if !args.quiet {
                        write_line(&format!(
                            "worker {}: {window} files at a time into {}",
                            worker.name,
                            args.output.display()
                        ));
                    }
                })?;
                // It was asked to stop, and has finished what it began.
                Ok(0)
            })
        })
    })?
}

/// What downloads the files of orders.
pub(super) struct Worker<'a> {
    pub(super) name: String,
    pub(super) folder: &'a Path,
    pub(super) manner: &'a Manner,
}

impl Worker<'_> {
    /// Serves orders until it is cancelled. Calls `begun` when it has joined.
    pub(super) fn serve<'s>(
        &'s self,
        fleet: &Fleet<'s>,
        lease: Duration,
        window: usize,
        begun: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let function = open(fleet, lease, |order| self.download(&order))?;
        begun();
        let indexes = &self.manner.indexes;
        let served =
            runtime::with_companion(|| indexes.keep_writing(write_line), || function.serve(window));
        indexes.write(write_line);
        Ok(served?)
    }

    fn download(&self, order: &Order) -> Result<Report, JobError> {
        let job = job(order, self.folder).map_err(|why| JobError::Fatal(why.into()))?;
        let progress = Progress::new(1, None, Show::Nothing);
        let record = fetch::fetch(&job, self.manner, &progress);
        match &record.outcome {
            // Running calls are cancelled only if their lease was lost. The next holder goes on.
            Outcome::Cancelled { .. } => Err(JobError::Retry("the lease was lost".into())),
            // The previous holder, whose lease was lost, has not noticed yet.
            Outcome::Failed { failure: Failure { what, again: Again::WhenFree, .. }, .. } => {
                Err(JobError::Retry(what.clone().into()))
            }
            _ => Ok(Report { worker: self.name.clone(), received: progress.received(), record }),
        }
    }
}

/// Returns the job for an order, unless it would leave the folder: whatever can connect to the
/// server can send orders.
fn job(order: &Order, folder: &Path) -> Result<Job, String> {
    let Order { url, name } = order;
    let Address { uri, credentials } = Address::parse(url)?;
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_below || name.is_empty() {
        return Err(format!("the name {name:?} leads out of the folder"));
    }
    Ok(Job { uri, credentials, name: name.clone(), into: Into::Folder(folder.to_path_buf()) })
}

/// Returns a name by which an operator finds this process.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An order writes below the folder only.
    #[test]
    fn orders_from_strangers() {
        let job = |url: &str, name: &str| {
            job(&Order { url: url.into(), name: name.into() }, Path::new("folder"))
        };
        assert_eq!(job("http://h/x", "h/a/x").unwrap().name, "h/a/x");
        for name in ["", "/etc/passwd", "../x", "a/../../x", "."] {
            assert!(job("http://h/x", name).unwrap_err().contains("leads out"), "{name}");
        }
        assert!(job("file:///etc/passwd", "x").unwrap_err().contains("neither http nor https"));
    }
}
