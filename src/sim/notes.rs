//! Events that the program of a simulation notes.

use std::sync::Arc;
use std::time::Duration;

use super::course::Course;
use super::hosts;
use crate::base::simulated;

/// An event that the program has noted: see [`note`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The name of the host on which the code ran. That of the program itself is `root`.
    pub host: Arc<str>,
    /// The virtual time.
    pub at: Duration,
    /// What was noted.
    pub text: String,
}

/// Notes an event of the program, with its host and the virtual time. [`notes`] returns the events
/// of a run so far, and [`Report::notes`](super::Report::notes) those of the whole run. Does
/// nothing outside of a simulation.
///
/// A test that checks what several hosts have done needs a record of it that stays when a host
/// crashes. In an `Arc` of the test, the record also has what the tasks of a host write while they
/// are brought to their end after a [crash](super::Host::crash). Such code cannot add a note.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     let host = sim::host("server", || {
///         sim::note("begun");
///         let _ = ecru::sleep(Duration::from_secs(60));
///         sim::note("ended");
///         Ok(())
///     });
///     ecru::sleep(Duration::from_secs(1)).unwrap();
///     host.crash();
///     sim::settle();
///     sim::note("crashed");
/// });
/// let texts: Vec<_> = report.notes.iter().map(|note| (&*note.host, &*note.text)).collect();
/// assert_eq!(texts, [("server", "begun"), ("root", "crashed")]);
/// ```
pub fn note(text: impl Into<String>) {
    let Some(course) = Course::here().filter(|_| !simulated::is_cut_off()) else { return };
    let host = course.hosts.name_of(hosts::current());
    course.add_note(Note { host, at: super::elapsed(), text: text.into() });
}

/// Returns what was [noted](note) in this run so far. Returns nothing outside of a simulation.
///
/// # Examples
/// ```
/// use ecru::sim;
///
/// sim::test(|| {
///     sim::note("one");
///     assert_eq!(sim::notes().len(), 1);
/// });
/// assert!(sim::notes().is_empty());
/// ```
#[must_use]
pub fn notes() -> Vec<Note> {
    Course::here().map_or_else(Vec::new, |course| course.notes())
}
