//! One file, from the first attempt to the last.
//!
//! [`ask`] makes one request through redirects, [`head`] interprets its answer, and [`attempt`]
//! does both and reads the body. A [`target`] takes the bytes ([`part`]: a file, by way of the
//! [`disk`]; [`check`]: compared and discarded). [`existing`] looks at existing files, with the
//! help of the [`index`]. [`trouble`] says what went wrong and whether to retry. This module has
//! the loop around them.

mod ask;
mod attempt;
mod check;
mod disk;
mod existing;
mod head;
mod index;
mod listing;
pub(crate) mod names;
mod part;
mod patience;
mod target;
mod trouble;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ureq::http::{HeaderValue, Uri};

use crate::client::{Client, Clients};
use crate::headers::Headers;
use crate::progress::{Lane, Progress};
use crate::runtime;
use crate::throttle::Throttle;
use check::Check;
pub(crate) use existing::Existing;
use existing::Found;
pub(crate) use index::Indexes;
pub(crate) use listing::Listings;
pub(crate) use part::Buffers;
use part::Part;
pub(crate) use patience::Patience;
use trouble::Trouble;
pub(crate) use trouble::{Again, Failure};

/// The longest pause between attempts, unless the server asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// One file to download.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The URL without credentials.
    pub(crate) uri: Uri,
    /// The value of `Authorization`, if the URL had credentials.
    pub(crate) credentials: Option<HeaderValue>,
    /// The file's path below the folder.
    pub(crate) name: String,
    pub(crate) into: Into,
}

impl Job {
    pub(crate) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }
}

/// What happens to the bytes.
#[derive(Debug, Clone)]
pub(crate) enum Into {
    /// They become a file of the job's name in this folder.
    Folder(PathBuf),
    /// They are compared with the embedded server's file of this number and size, and discarded.
    Check { index: u64, size: u64 },
}

/// The parameters of the downloads, for all jobs.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) clients: Clients,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    pub(crate) timeout: Duration,
    pub(crate) resume: bool,
    pub(crate) existing: Existing,
    pub(crate) headers: Headers,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) buffers: Buffers,
    pub(crate) patience: Patience,
    pub(crate) indexes: Indexes,
    pub(crate) listings: Listings,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done,
    /// The file was already there.
    There,
    /// A file of that name exists, and was kept without a look at it, as `--keep` says.
    Kept,
    /// The download failed. A later run can resume from `kept` bytes.
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
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
}

/// Downloads one file.
pub(crate) fn fetch(job: &Job, manner: &Manner, progress: &Progress) -> Record {
    let started = runtime::now();
    let lane = progress.lane(&job.name);
    let outcome = match &job.into {
        Into::Folder(folder) => to_folder(job, folder, manner, &lane),
        Into::Check { index, size } => {
            let mut check = Check::new(*index, *size);
            let brought = persist(job, manner, |client| {
                attempt::attempt(client, job, manner, &mut check, &lane)
            });
            brought.map_or_else(
                |(trouble, attempts)| ended(trouble, attempts, None),
                |()| Outcome::Done,
            )
        }
    };
    match outcome {
        Outcome::Done | Outcome::There | Outcome::Kept => lane.succeeds(),
        Outcome::Failed { .. } => lane.fails(),
        Outcome::Cancelled { .. } => {}
    }
    Record { outcome, elapsed: runtime::now().duration_since(started) }
}

fn to_folder(job: &Job, folder: &Path, manner: &Manner, lane: &Lane<'_>) -> Outcome {
    let url = job.uri.to_string();
    let path = folder.join(&job.name);
    let mut part = Part::new(&url, path.clone(), manner.resume, manner.buffers);
    // After Ctrl-C, the rest of a list is not touched.
    if runtime::is_cancelled() {
        return Outcome::Cancelled { kept: part.leave() };
    }
    if manner.listings.is_new(&path) {
        part.nothing_is_there();
    } else {
        match settled(job, &url, &path, manner) {
            Ok(Begin::Free) => {}
            Ok(Begin::Replace) => part.replace(),
            Ok(Begin::Not(outcome)) => return outcome,
            Err((trouble, attempts)) => return ended(trouble, attempts, None),
        }
    }
    let brought =
        persist(job, manner, |client| attempt::attempt(client, job, manner, &mut part, lane));
    match brought {
        Ok(()) => {
            if let Some(entry) = part.finished.take() {
                manner.indexes.add(&path, entry);
            }
            Outcome::Done
        }
        Err((trouble, attempts)) => ended(trouble, attempts, part.leave()),
    }
}

/// Whether to download, depending on what exists already.
enum Begin {
    /// The name is free.
    Free,
    /// A file exists that is to be replaced.
    Replace,
    Not(Outcome),
}

fn settled(job: &Job, url: &str, path: &Path, manner: &Manner) -> Result<Begin, (Trouble, u32)> {
    let found = runtime::unblock(|| existing::look(path, url, manner.existing, &manner.indexes));
    let found = match found.map_err(|trouble| (trouble, 1))? {
        Found::Nothing => return Ok(Begin::Free),
        Found::Replaceable => return Ok(Begin::Replace),
        Found::Kept => return Ok(Begin::Not(Outcome::Kept)),
        found => found,
    };
    let about = persist(job, manner, |client| head::look_up(client, job, manner))?;
    match found {
        // The server has a newer version, which replaces the earlier download.
        Found::Ours(entry) if !entry.is_version(&about) => return Ok(Begin::Replace),
        Found::Unrecorded { bytes } => {
            existing::compare(path, bytes, &about).map_err(|trouble| (trouble, 1))?;
        }
        _ => {}
    }
    Ok(Begin::Not(Outcome::There))
}

fn ended(trouble: Trouble, attempts: u32, kept: Option<u64>) -> Outcome {
    match trouble {
        Trouble::Cancelled => Outcome::Cancelled { kept },
        Trouble::Failed(failure) => Outcome::Failed { failure, attempts, kept },
    }
}

/// Makes attempts until one succeeds, is hopeless, or is the last. An error comes with the number
/// of attempts.
fn persist<T>(
    job: &Job,
    manner: &Manner,
    mut attempt: impl FnMut(&Client) -> Result<T, Trouble>,
) -> Result<T, (Trouble, u32)> {
    let host = job.host();
    let mut attempts = 0;
    loop {
        if runtime::is_cancelled() {
            return Err((Trouble::Cancelled, attempts));
        }
        manner.patience.wait(host).map_err(|trouble| (trouble, attempts))?;
        attempts += 1;
        let trouble = match manner.clients.with(host, &mut attempt) {
            Ok(value) => return Ok(value),
            // A cancelled wait may look like another error to the code around it.
            Err(_) if runtime::is_cancelled() => Trouble::Cancelled,
            Err(trouble) => trouble,
        };
        let Trouble::Failed(Failure { again: Again::Later(wish), .. }) = &trouble else {
            return Err((trouble, attempts));
        };
        if let Some(wish) = wish {
            manner.patience.ask(host, *wish);
        }
        if attempts > manner.retries {
            return Err((trouble, attempts));
        }
        if runtime::sleep(pause(manner.backoff, attempts - 1, fastrand::f64())).is_err() {
            return Err((Trouble::Cancelled, attempts));
        }
    }
}

/// Returns `first * 2^earlier`, half of which is random, so that a thousand downloads that failed
/// together do not retry together.
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
