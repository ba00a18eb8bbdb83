//! One file, from the first attempt to the last.
//!
//! [`attempt`] is one request and its answer; a [`Target`] takes the bytes ([`part`]: a file; [`check`]: compared and
//! discarded); [`trouble`] says what went wrong and whether to try again; here is the loop around them.

mod attempt;
mod check;
pub(crate) mod names;
mod part;
mod target;
mod trouble;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::client::Clients;
use crate::progress::{Lane, Progress};
use crate::runtime;
use check::Check;
use part::Part;
use target::Target;
pub(crate) use trouble::Failure;
use trouble::{Again, Trouble};

/// No pause between attempts is longer, unless the server asks for it.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// One thing to download.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) into: Into,
}

/// What becomes of the bytes.
#[derive(Debug, Clone)]
pub(crate) enum Into {
    /// A file of the job's name in this folder.
    Folder(PathBuf),
    /// They are compared with the embedded server's file of this number and size, and discarded.
    Check { index: u64, size: u64 },
}

/// How to go about it, for all jobs.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) clients: Clients,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    pub(crate) timeout: Duration,
    pub(crate) resume: bool,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// A file of that name is there already, and was left alone.
    There,
    /// `kept`: so many bytes can be resumed from.
    Failed {
        failure: Failure,
        attempts: u32,
        kept: Option<u64>,
    },
    Cancelled {
        kept: Option<u64>,
    },
}

/// A job's outcome and how long it took.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
}

/// Downloads one file.
pub(crate) fn fetch(job: &Job, manner: &Manner, progress: &Progress) -> Record {
    let started = Instant::now();
    let lane = progress.lane(&job.name);
    let outcome = match &job.into {
        Into::Folder(folder) => to_folder(job, folder, manner, &lane),
        Into::Check { index, size } => {
            match persist(job, &mut Check::new(*index, *size), manner, &lane) {
                Ok(()) => Outcome::Done,
                Err((trouble, attempts)) => ended(trouble, attempts, None),
            }
        }
    };
    match outcome {
        Outcome::Done | Outcome::There => lane.succeeds(),
        Outcome::Failed { .. } => lane.fails(),
        Outcome::Cancelled { .. } => {}
    }
    Record { outcome, elapsed: started.elapsed() }
}

fn to_folder(job: &Job, folder: &Path, manner: &Manner, lane: &Lane<'_>) -> Outcome {
    // The rest of a list after Ctrl-C: nothing is touched.
    if runtime::is_cancelled() {
        return Outcome::Cancelled { kept: Part::new(&job.url, folder, &job.name, true).leave() };
    }
    if manner.resume && runtime::unblock(|| folder.join(&job.name).exists()) {
        return Outcome::There;
    }
    let mut part = Part::new(&job.url, folder, &job.name, manner.resume);
    match persist(job, &mut part, manner, lane) {
        Ok(()) => Outcome::Done,
        Err((trouble, attempts)) => ended(trouble, attempts, part.leave()),
    }
}

fn ended(trouble: Trouble, attempts: u32, kept: Option<u64>) -> Outcome {
    match trouble {
        Trouble::Cancelled => Outcome::Cancelled { kept },
        Trouble::Failed(failure) => Outcome::Failed { failure, attempts, kept },
    }
}

/// Attempts until one succeeds, is hopeless, or was the last. The number of them comes with the trouble.
fn persist(
    job: &Job,
    target: &mut dyn Target,
    manner: &Manner,
    lane: &Lane<'_>,
) -> Result<(), (Trouble, u32)> {
    let mut attempts = 0;
    loop {
        if runtime::is_cancelled() {
            return Err((Trouble::Cancelled, attempts));
        }
        attempts += 1;
        let timeout = manner.timeout;
        let trouble = match manner
            .clients
            .with(|client| attempt::attempt(client, &job.url, target, lane, timeout))
        {
            Ok(()) => return Ok(()),
            // Whatever a wait that was cut short looks like from outside, it was cut short.
            Err(_) if runtime::is_cancelled() => Trouble::Cancelled,
            Err(trouble) => trouble,
        };
        let wish = match &trouble {
            Trouble::Failed(Failure { again: Again::Later(wish), .. })
                if attempts <= manner.retries =>
            {
                *wish
            }
            _ => return Err((trouble, attempts)),
        };
        let pause =
            pause(manner.backoff, attempts - 1, fastrand::f64()).max(wish.unwrap_or_default());
        if runtime::sleep(pause).is_err() {
            return Err((Trouble::Cancelled, attempts));
        }
    }
}

/// `first * 2^earlier`, of which half is left to chance: a thousand downloads that failed together come back apart.
fn pause(first: Duration, earlier: u32, chance: f64) -> Duration {
    let whole = first.saturating_mul(1 << earlier.min(16)).min(PAUSE_MAX);
    whole / 2 + (whole / 2).mul_f64(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses double, up to a limit, and lie between half and the whole.
    #[test]
    fn pauses() {
        let first = Duration::from_millis(250);
        assert_eq!(pause(first, 0, 1.0), first);
        assert_eq!(pause(first, 0, 0.0), first / 2);
        assert_eq!(pause(first, 3, 1.0), first * 8);
        assert_eq!(pause(first, 40, 1.0), PAUSE_MAX);
    }
}
