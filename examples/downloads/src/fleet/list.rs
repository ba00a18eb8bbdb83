//! The list that a run was begun with.
//!
//! Reports are stored by index, so they belong to one list. The first coordinator of a run stores
//! what identifies its list, and later ones compare it with theirs before they send anything.

use std::io;
use std::time::Duration;

use anyhow::bail;
use ecru_fleet::{CallError, Fleet, Run};
use serde::{Deserialize, Serialize};

use super::KEEP;
use crate::fetch::Job;
use crate::runtime;

/// A coordinator that is killed while it stores its list delays the next one for this long.
const LEASE: Duration = Duration::from_secs(5);

/// What identifies a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    files: usize,
    digest: u64,
}

impl List {
    /// The digest is FNV-1a, because that of std's hashers may differ between versions of this
    /// program.
    fn of(jobs: &[Job]) -> Self {
        let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
        for job in jobs {
            for byte in format!("{}\n{}\n", job.uri, job.name).bytes() {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self { files: jobs.len(), digest }
    }
}

/// Makes sure that the run belongs to this list.
///
/// The function returns its argument, and the coordinators themselves serve it. Its results are
/// kept, so the argument of the first call is what all calls return.
pub(super) fn claim(fleet: &Fleet<'_>, run: &str, jobs: &[Job]) -> anyhow::Result<()> {
    let lists = fleet
        .function("downloads-lists", |list: List, _: &Run| Ok(list))
        .lease(LEASE)
        // Longer than the reports, which are stored later.
        .keep_results(2 * KEEP)
        .open()?;
    let list = List::of(jobs);
    let (begun, served) = (lists.clone(), || _ = lists.serve(1));
    let known = runtime::with_companion(served, || begun.call_keyed(run, list));
    match known {
        Ok(known) if known == list => Ok(()),
        Ok(known) => bail!(
            "--run: `{run}` was begun with another list (of {} files; this one has {}); use another name, or that list",
            known.files,
            list.files
        ),
        Err(CallError::Io(error)) if error.kind() == io::ErrorKind::InvalidInput => {
            bail!("--run: {error}")
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup;
    use std::path::Path;

    /// The order of a list counts, and so do the names of the files.
    #[test]
    fn lists_differ() {
        let list = |urls: &[&str], directories| {
            let addresses = urls.iter().map(|url| crate::address::Address::parse(url).unwrap());
            List::of(&setup::jobs(addresses.collect(), directories, Path::new("")))
        };
        let (a, b) = ("http://h/a", "http://h/b");
        assert_eq!(list(&[a, b], false), list(&[a, b], false));
        assert_ne!(list(&[a, b], false), list(&[b, a], false));
        assert_ne!(list(&[a, b], false), list(&[a], false));
        assert_ne!(list(&[a, b], false), list(&[a, b], true));
    }
}
