//! The flight recorder as programs see it, and what it writes.

mod chrome;
#[cfg(feature = "sim")]
mod hosts;
mod page;
mod story;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "sim")]
pub(crate) use self::hosts::{HostEvent, HostEventSort};
use self::story::{Cause, Story};
use super::metrics::Delays;
use crate::base::hash::HashMap;
use crate::base::record::{self, Rings};
use crate::base::report;
use crate::fs;

/// The smallest and the largest memory for the events of a worker, in bytes: about 100 events, and 26
/// million.
pub(crate) const RECORD_MIN: usize = 4096;
pub(crate) const RECORD_MAX: usize = 1 << 30;
/// About how many events metrics and the clients of an inspect socket read. So their time and memory
/// have a bound.
const LAST_EVENTS: usize = 200_000;

// # Implementation
// `base/record.rs` has the rings and their protocol, and `sched/record.rs` what workers write.
// `story.rs` turns events into stretches in which a worker runs a task. The other files write a story.

/// The flight recorder of a runtime: the last events of each of its workers.
///
/// [`RuntimeHandle::recorder`](crate::RuntimeHandle::recorder) returns it if
/// [`record`](crate::RuntimeBuilder::record) was set. It may be read from any thread and at any time:
/// while tasks run, when they are stuck, and after the runtime has gone. Reading it stops no worker.
/// Events that are overwritten meanwhile are left out.
///
/// # Examples
/// ```
/// let runtime = ecru::Runtime::builder().workers(1).record(1 << 16).build()?;
/// let recorder = runtime.handle().recorder().unwrap();
/// let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
///     runtime.run(|| {
///         ecru::diag::mark("about to fail");
///         std::panic::resume_unwind(Box::new("failed"));
///     });
/// }));
/// assert!(failed.is_err());
/// drop(runtime);
/// let mut trace = Vec::new();
/// recorder.write_trace(&mut trace)?;
/// assert!(String::from_utf8(trace).unwrap().contains("about to fail"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Recorder {
    rings: Arc<Rings>,
    /// What has happened to the hosts of a simulation that is over.
    #[cfg(feature = "sim")]
    hosts: Option<Arc<[HostEvent]>>,
}

impl Recorder {
    pub(crate) fn new(rings: Arc<Rings>) -> Recorder {
        Recorder {
            rings,
            #[cfg(feature = "sim")]
            hosts: None,
        }
    }

    /// Adds what has happened to the hosts of a simulation, in the order of time, for the page.
    #[cfg(feature = "sim")]
    pub(crate) fn with_hosts(self, hosts: Vec<HostEvent>) -> Recorder {
        Recorder { hosts: Some(hosts.into()), ..self }
    }

    /// Tells what the rings hold, or their last `most` events.
    fn story(&self, most: usize) -> Story {
        let story = Story::new(&self.rings, most);
        #[cfg(feature = "sim")]
        let story = {
            let last = self.hosts.as_deref().and_then(|hosts| hosts.last());
            let end = last.map_or(story.end, |event| event.at.max(story.end));
            Story { end, hosts: self.hosts.clone(), ..story }
        };
        story
    }

    /// Returns about the last events, as a trace or as a page.
    pub(super) fn last_events(&self, as_page: bool) -> io::Result<Vec<u8>> {
        let story = self.story(LAST_EVENTS);
        let mut text = Vec::new();
        if as_page { page::write(&story, &mut text) } else { chrome::write(&story, &mut text) }?;
        Ok(text)
    }

    /// Marks this moment, on any thread. In a task of the runtime it does what [`mark`] does. Marks
    /// of other threads appear in a row of their own.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).record(1 << 16).build()?;
    /// let recorder = runtime.handle().recorder().unwrap();
    /// runtime.run(|| ecru::unblock(|| recorder.mark("on a thread that may block")));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn mark(&self, text: &str) {
        self.rings.mark(text);
    }

    /// Writes what the recorder holds in the JSON format of Chrome's trace viewer, which
    /// [Perfetto](https://ui.perfetto.dev) reads.
    ///
    /// Each worker is a row, in which a slice is a stretch of a task without a switch. Each task is a
    /// row, too, with slices for the stretches, for its waits (with what it waited for, and where in
    /// the code), and for the time between its wake-up and its turn. Arrows lead from a waker to the
    /// woken task and from a spawn to the start. Operations, cancellations, thefts and marks are
    /// instants. Times are in microseconds, with three decimals.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    ///
    /// # Cancellation
    /// This is not a cancellation point, unless writing to `out` is one.
    ///
    /// # Examples
    /// See [`Recorder`].
    pub fn write_trace(&self, mut out: impl Write) -> io::Result<()> {
        chrome::write(&self.story(usize::MAX), &mut out)?;
        out.flush()
    }

    /// Writes what the recorder holds as a page, which any browser opens from a file. It loads nothing
    /// from the network.
    ///
    /// The page has a row for each worker and each task. It shows, for a chosen task, what it waited
    /// for, what made it ready, how long it waited for its turn, and its critical path: what the end of
    /// the task has depended on. The search finds tasks by name, number, place of the spawn, and reason
    /// of a wait. The address of the page names the moment and the task, so that it can be passed on:
    /// `page.html#t=NANOSECONDS&task=NUMBER`.
    ///
    /// The page of a simulation also has a row for each host, with what has happened to it: messages,
    /// faults, partitions, crashes and restarts, synced files, and notes. An arrow leads from a message
    /// to the next arrival of as many bytes.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    ///
    /// # Cancellation
    /// This is not a cancellation point, unless writing to `out` is one.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).record(1 << 16).build()?;
    /// let recorder = runtime.handle().recorder().unwrap();
    /// runtime.run(|| ecru::scope(|s| s.builder().name("child").spawn(|| 6 * 7).join().unwrap()));
    /// let mut page = Vec::new();
    /// recorder.write_page(&mut page)?;
    /// assert!(page.starts_with(b"<!doctype html>"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write_page(&self, mut out: impl Write) -> io::Result<()> {
        page::write(&self.story(usize::MAX), &mut out)?;
        out.flush()
    }

    /// Writes the page to a file. Returns where it is, or why it could not be written, as the end of a
    /// sentence.
    pub(crate) fn write_to(&self, path: &Path) -> String {
        let mut page = Vec::new();
        let (written, shown) = (self.write_page(&mut page), path.display());
        let size = page.len();
        match written.and_then(|()| fs::write(path, page)) {
            Ok(()) => format!("last events are in {shown} ({size} bytes)"),
            Err(error) => format!("last events cannot be written to {shown}: {error}"),
        }
    }
}

/// Writes the page of a run that has panicked to a file, and says so on standard error.
pub(crate) fn write_page_of_panic(rings: &Arc<Rings>, path: &Path) {
    let written = Recorder::new(Arc::clone(rings)).write_to(path);
    report::say(format!("ecru: the run has panicked; its {written}"));
    report::flush();
}

/// Returns what the events say of the times between two turns.
pub(super) fn delays(rings: &Rings) -> Delays {
    let story = Story::new(rings, LAST_EVENTS);
    let mut delays = Delays::default();
    let mut longest = HashMap::default();
    for stretch in &story.stretches {
        let nanos = |from: u64| Duration::from_nanos(stretch.begin.saturating_sub(from));
        if let Some(ready) = &stretch.ready {
            delays.ready_to_run.add(nanos(ready.arrived.unwrap_or(ready.at)));
            if let Cause::Spawn { .. } | Cause::Wake { .. } | Cause::Worker = ready.cause {
                delays.wake_to_run.add(nanos(ready.at));
            }
        }
        if let Some(place) = story.tasks.get(&stretch.task).and_then(|task| task.spawned_at) {
            let run = Duration::from_nanos(stretch.end.saturating_sub(stretch.begin));
            let known = longest.entry(std::ptr::from_ref(place).addr()).or_insert((place, run));
            known.1 = known.1.max(run);
        }
    }
    delays.longest_runs = longest.into_values().collect();
    delays.longest_runs.sort_by_key(|&(place, run)| (std::cmp::Reverse(run), place));
    delays
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("workers", &self.rings.workers()).finish_non_exhaustive()
    }
}

/// Marks this moment in the recorder of the current worker. The mark appears in the traces and pages
/// of a [`Recorder`], in the row of the running task. Texts of more than 240 bytes are cut.
///
/// Does nothing if nothing is recorded, and on threads that are no workers. There,
/// [`Recorder::mark`] marks.
///
/// # Examples
/// ```
/// ecru::diag::mark("cache miss"); // Nothing is recorded here.
/// ```
pub fn mark(text: &str) {
    record::with(|ring| ring.mark(text));
}
