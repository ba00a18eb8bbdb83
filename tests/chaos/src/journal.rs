//! What a process has done, line by line, in a file that survives it.
//!
//! Each process has a file of its own. A line is written by one call, so a process that is killed
//! leaves whole lines, or a last one that is torn, which is ignored. The operating system keeps
//! what a killed process has written; [`Journal::keep`] waits for the disk, too.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One of the times that a job is handed out: what [`ecru_fleet::Job::fence`] says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Handout {
    pub(crate) job: String,
    pub(crate) sequence: u64,
    pub(crate) attempt: u32,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The process has started, and has not connected yet.
    Start { at: u64, pid: u32 },
    /// A sender is about to send a job.
    Intent { job: String },
    /// There was no answer, so the job is about to be sent again.
    Again { job: String },
    /// The send has returned `Ok`.
    Sent { job: String },
    /// A worker begins with a job.
    Begun { handout: Handout, at: u64 },
    /// The work is done, and not acknowledged yet.
    Worked { handout: Handout, pid: u32 },
    /// The acknowledgement was confirmed.
    Done { handout: Handout, at: u64 },
    /// The lease was lost before the work was done.
    Lost { handout: Handout },
    /// The acknowledgement was not confirmed.
    Unsure { handout: Handout },
    /// A coordinator has got a result of a map.
    Got { run: String, index: u64, value: String },
    /// A coordinator has got all results of a map.
    Mapped { run: String },
}

/// A file to which lines are appended. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Journal(Arc<File>);

impl Journal {
    /// Creates the file, and writes that the process has started.
    pub(crate) fn create(path: &Path) -> io::Result<Journal> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let journal = Journal(Arc::new(file));
        journal.note(&Line::Start { at: now(), pid: std::process::id() })?;
        Ok(journal)
    }

    /// Appends a line.
    pub(crate) fn note(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        (&*self.0).write_all(text.as_bytes())
    }

    /// Appends a line, and returns when it is on the disk. This is not a cancellation point.
    pub(crate) fn keep(&self, line: &Line) -> io::Result<()> {
        self.note(line)?;
        ecru::shield(|| ecru::unblock(|| self.0.sync_data()))
    }
}

/// Returns the lines of a file, without a torn last one.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Line>> {
    parse(&std::fs::read(path)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

fn parse(bytes: &[u8]) -> Result<Vec<Line>, serde_json::Error> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(serde_json::from_slice).collect()
}

/// Returns the nanoseconds of a clock that all processes of the machine share and that is never
/// set back.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_and_a_torn_one_is_ignored() {
        let folder =
            std::env::temp_dir().join(format!("ecru-chaos-journal-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("journal");
        let journal = Journal::create(&path).unwrap();
        let handout = Handout { job: "job-7".to_owned(), sequence: 8, attempt: 2 };
        let worked = Line::Worked { handout, pid: 9 };
        journal.keep(&worked).unwrap();
        (&*journal.0).write_all(b"{\"Lost\":").unwrap();
        let lines = read(&path).unwrap();
        assert!(matches!(lines[0], Line::Start { at, .. } if at <= now()));
        assert_eq!(lines[1..], [worked]);
        // A malformed line that is whole is no trace of a kill.
        (&*journal.0).write_all(b"\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("journal"));
        assert!(Journal::create(&path).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_empty_file_has_no_lines() {
        assert_eq!(parse(b"").unwrap(), []);
        assert_eq!(parse(b"{").unwrap(), []);
    }
}
