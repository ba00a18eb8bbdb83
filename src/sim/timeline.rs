//! What has happened in a run, by virtual time and host.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drawn::Faults;
use super::pilot::Record;
use crate::base::hash::HashMap;
use crate::diag::{HostEvent, HostEventSort};
use crate::driver::{Dropped, HostEvents, HostId, Incident, ROOT_NAME};

/// The most events that a message shows.
const MOST: usize = 24;

/// What has happened to the hosts of a run, in the order of virtual time:
/// [`Report::timeline`](super::Report::timeline).
///
/// Its text has a line for each event, with the virtual time and the host, and with the task that has
/// done it unless that is the root. The events are what
/// hosts have sent to each other and received, connections, faults, partitions, crashes and
/// restarts, synced files, and what the program has [noted](super::note). What a host sends to
/// itself is no event. The last event of a failed run is the failure.
///
/// # Examples
/// ```
/// use ecru::net::UdpSocket;
/// use ecru::sim::{self, Simulation};
///
/// let report = Simulation::new(1).run(|| {
///     let receiver = sim::host("receiver", || {
///         UdpSocket::bind("0.0.0.0:1")?.recv(&mut [0; 8])?;
///         Ok(())
///     });
///     sim::settle();
///     sim::note("the request");
///     UdpSocket::bind("0.0.0.0:1").unwrap().send_to(b"text", "receiver:1").unwrap();
///     ecru::sleep(std::time::Duration::from_secs(1)).unwrap();
///     receiver.crash();
/// });
/// let text = report.timeline().to_string();
/// let lines: Vec<&str> = text.lines().collect();
/// assert_eq!(lines[1], "0ns  root      note: the request");
/// assert_eq!(lines[2], "0ns  root      sends a datagram of 4 bytes to 'receiver'");
/// assert_eq!(lines[3], "1ms  receiver  receives a datagram of 4 bytes from 'root'");
/// assert_eq!(lines[4], "1s   receiver  crashes");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    events: Vec<TimelineEvent>,
    left_out: u64,
}

/// An event of a [`Timeline`].
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
///
/// let report = Simulation::new(1).run(|| sim::note("the order was stored"));
/// let timeline = report.timeline();
/// let event = timeline.events().find(|event| event.text.contains("stored")).unwrap();
/// assert_eq!((&*event.host, event.at.as_secs()), ("root", 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelineEvent {
    /// The virtual time.
    pub at: Duration,
    /// The host that has done something, or to which something has happened. What concerns all
    /// hosts happens to `root`.
    pub host: Arc<str>,
    /// The task that has done it, as messages name it: `#3 'client'` is the task with the number 3
    /// and that name. `None` if it was not done by a task, as the arrival of a message.
    pub task: Option<Arc<str>>,
    /// The host at the other end of what was sent, received, connected or cut.
    pub other: Option<Arc<str>>,
    /// What has happened.
    pub text: String,
}

impl Timeline {
    /// Returns the events.
    pub fn events(&self) -> impl Iterator<Item = &TimelineEvent> {
        self.events.iter()
    }

    /// Returns the number of events before the first one that were not kept. The last 262,144
    /// events of a run are kept.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes the events from this place on.
    fn write(&self, f: &mut fmt::Formatter<'_>, from: usize) -> fmt::Result {
        let shown = &self.events[from..];
        let time = |event: &TimelineEvent| format!("{:?}", event.at);
        let times = shown.iter().map(|event| time(event).chars().count()).max().unwrap_or(0);
        let hosts = shown.iter().map(|event| event.host.chars().count()).max().unwrap_or(0);
        for (place, event) in shown.iter().enumerate() {
            let line_break = if place == 0 { "" } else { "\n" };
            let TimelineEvent { host, text, .. } = event;
            write!(f, "{line_break}{:<times$}  {host:<hosts$}  {text}", time(event))?;
            if let Some(task) = event.task.as_deref().filter(|task| *task != ROOT_TASK) {
                write!(f, " (task {task})")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// The last events of a run, as messages show them: after a line break, and nothing if there are
/// none beside the failure.
pub(super) struct LastEvents<'r>(pub(super) &'r Record);

impl fmt::Display for LastEvents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Faults are listed without a timeline, too.
        if self.0.history.as_ref().is_none_or(|history| history.events.len() <= 1) {
            return Ok(());
        }
        let timeline = self.0.timeline();
        let count = timeline.events.len();
        match count.saturating_sub(MOST) as u64 + timeline.left_out {
            0 => f.write_str("\ntimeline:\n")?,
            before => {
                write!(f, "\nthe last {MOST} events of the timeline, after {before} others:\n")?
            }
        }
        timeline.write(f, count.saturating_sub(MOST))
    }
}

/// How messages name the root.
const ROOT_TASK: &str = "#0 root";

/// What a timeline is made of.
#[derive(Debug)]
pub(super) struct History {
    pub(super) start: Instant,
    pub(super) events: HostEvents,
    /// The texts of the notes, by their numbers.
    pub(super) notes: Vec<String>,
}

impl Record {
    /// Returns the name of a host.
    pub(super) fn host(&self, HostId(number): HostId) -> &str {
        self.hosts.get(usize::from(number)).map_or(ROOT_NAME, |name| name)
    }

    /// Returns the name of a task, as messages list it.
    pub(super) fn task(&self, ordinal: u64) -> String {
        match self.tasks.name_of(ordinal) {
            Some(name) => format!("#{ordinal} '{}'", name.escape_debug()),
            None if ordinal == 0 => String::from(ROOT_TASK),
            None => format!("#{ordinal}"),
        }
    }

    /// Makes the timeline of the run.
    pub(super) fn timeline(&self) -> Timeline {
        let left_out = self.history.as_ref().map_or(0, |history| history.events.left_out());
        let events = self.events().into_iter().map(|(event, _)| event).collect();
        Timeline { events, left_out }
    }

    /// Makes the timeline for the page of a recorder.
    pub(super) fn host_events(&self) -> Vec<HostEvent> {
        let events = self.events().into_iter().map(|(event, sort)| {
            let TimelineEvent { at, host, task, other, mut text } = event;
            if let Some(task) = task.filter(|task| **task != *ROOT_TASK) {
                text = format!("{text} (task {task})");
            }
            let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
            HostEvent { at, host, other, sort, text }
        });
        events.collect()
    }

    fn events(&self) -> Vec<(TimelineEvent, HostEventSort)> {
        let Some(history) = &self.history else { return Vec::new() };
        let names: Vec<Arc<str>> = self.hosts.iter().map(|name| Arc::from(&**name)).collect();
        let name = |HostId(number)| {
            let name = names.get(usize::from(number)).cloned();
            name.unwrap_or_else(|| Arc::from(ROOT_NAME))
        };
        let faults = self.drawn.iter().map(|struck| {
            let event = TimelineEvent {
                at: struck.at,
                host: name(HostId(struck.fault.host)),
                task: None,
                other: struck.to.map(name),
                text: format!("fault: {}", Faults(self).what(struck)),
            };
            (event, HostEventSort::Fault)
        });
        let mut tasks: HashMap<u64, Arc<str>> = HashMap::default();
        let others = history.events.iter().map(|entry| {
            let task = entry.task.map(|ordinal| {
                let task = tasks.entry(ordinal).or_insert_with(|| Arc::from(self.task(ordinal)));
                Arc::clone(task)
            });
            let other = other_of(entry.what);
            let (host, other) = (name(entry.host), other.map(name));
            let at = entry.at.saturating_duration_since(history.start);
            let own = entry.text.map_or("", |text| &**text);
            let other_name = other.as_deref().unwrap_or_default();
            let text = text(entry.what, other_name, own, &history.notes);
            (TimelineEvent { at, host, task, other, text }, sort_of(entry.what))
        });
        // A fault comes before what follows from it.
        let mut events: Vec<_> = faults.chain(others).collect();
        events.sort_by_key(|(event, _)| event.at);
        events
    }
}

/// Returns how the page of a recorder draws an event.
fn sort_of(what: &Incident) -> HostEventSort {
    match *what {
        Incident::Sends { bytes, .. } => HostEventSort::Sends(bytes),
        Incident::Receives { bytes, .. } => HostEventSort::Receives(bytes),
        Incident::SendsDatagram { bytes, .. } => HostEventSort::SendsDatagram(bytes),
        Incident::ReceivesDatagram { bytes, .. } => HostEventSort::ReceivesDatagram(bytes),
        Incident::Drops { .. } | Incident::HeldUp { .. } | Incident::Broken { .. } => {
            HostEventSort::Drops
        }
        Incident::Connects { .. }
        | Incident::Connected { .. }
        | Incident::NotConnected { .. }
        | Incident::StreamEnds { .. } => HostEventSort::Connects,
        Incident::CutOff { .. } | Incident::Held { .. } => HostEventSort::Cuts,
        Incident::Mended { .. } | Incident::Released { .. } | Incident::Healed | Incident::Calm => {
            HostEventSort::Heals
        }
        Incident::Crashes | Incident::LosesPower | Incident::Loses | Incident::Pauses => {
            HostEventSort::Stops
        }
        Incident::Started { .. } | Incident::Resumes => HostEventSort::Starts,
        Incident::Synced { .. } => HostEventSort::Syncs,
        Incident::Notes(_) => HostEventSort::Notes,
        Incident::Fails => HostEventSort::Fails,
        Incident::Jumps { .. } | Incident::Drifts { .. } => HostEventSort::Other,
    }
}

/// Returns the host at the other end.
fn other_of(what: &Incident) -> Option<HostId> {
    match *what {
        Incident::Sends { to, .. }
        | Incident::SendsDatagram { to, .. }
        | Incident::Connects { to }
        | Incident::Connected { to }
        | Incident::NotConnected { to }
        | Incident::Broken { to } => Some(to),
        Incident::Receives { from, .. }
        | Incident::ReceivesDatagram { from, .. }
        | Incident::Drops { from, .. }
        | Incident::HeldUp { from }
        | Incident::StreamEnds { from }
        | Incident::CutOff { from } => Some(from),
        Incident::Mended { other } | Incident::Held { other } | Incident::Released { other } => {
            Some(other)
        }
        Incident::Healed
        | Incident::Calm
        | Incident::Synced { .. }
        | Incident::Started { .. }
        | Incident::Crashes
        | Incident::LosesPower
        | Incident::Loses
        | Incident::Pauses
        | Incident::Resumes
        | Incident::Jumps { .. }
        | Incident::Drifts { .. }
        | Incident::Notes(_)
        | Incident::Fails => None,
    }
}

/// Says what has happened.
fn text(what: &Incident, other: &str, own: &str, notes: &[String]) -> String {
    match what {
        Incident::Sends { bytes, .. } => format!("sends {} to '{other}'", Bytes(*bytes)),
        Incident::SendsDatagram { bytes, .. } => {
            format!("sends a datagram of {} to '{other}'", Bytes(*bytes))
        }
        Incident::Receives { bytes, .. } => format!("receives {} from '{other}'", Bytes(*bytes)),
        Incident::ReceivesDatagram { bytes, .. } => {
            format!("receives a datagram of {} from '{other}'", Bytes(*bytes))
        }
        Incident::Drops { why, .. } => {
            let why = match why {
                Dropped::Cut => "the link is cut",
                Dropped::NoSocket => "no socket receives from there",
                Dropped::NoRoom => "the buffer is full",
            };
            format!("drops a datagram from '{other}': {why}")
        }
        Incident::HeldUp { .. } => format!("does not get what '{other}' has sent, for now"),
        Incident::Connects { .. } => format!("asks '{other}' for a connection"),
        Incident::Connected { .. } => format!("is connected to '{other}'"),
        Incident::NotConnected { .. } => format!("cannot connect to '{other}'"),
        Incident::StreamEnds { .. } => format!("gets the end of a stream from '{other}'"),
        Incident::Broken { .. } => format!("loses a connection to '{other}'"),
        Incident::CutOff { .. } => format!("is cut off from what '{other}' sends"),
        Incident::Mended { .. } => format!("the partition from '{other}' ends"),
        Incident::Healed => String::from("all partitions end"),
        Incident::Held { .. } => format!("the link to '{other}' is held"),
        Incident::Released { .. } => format!("the link to '{other}' is released"),
        Incident::Calm => String::from("all faults end"),
        Incident::Synced { is_directory: true } => format!("has synced the directory '{own}'"),
        Incident::Synced { .. } => format!("has synced '{own}'"),
        Incident::Started { life: ..=1 } => String::from("starts"),
        Incident::Started { life } => format!("restarts (life {life})"),
        Incident::Crashes => String::from("crashes"),
        Incident::LosesPower => String::from("loses its power"),
        Incident::Loses => format!("loses {own}"),
        Incident::Pauses => String::from("pauses"),
        Incident::Resumes => String::from("resumes"),
        Incident::Jumps { milliseconds: ahead @ 0.. } => {
            format!("has its wall clock {ahead} ms further ahead")
        }
        Incident::Jumps { milliseconds } => {
            format!("has its wall clock {} ms further back", milliseconds.unsigned_abs())
        }
        Incident::Drifts { parts_per_million } => {
            format!("has a clock that drifts by {parts_per_million} millionths from now on")
        }
        Incident::Notes(number) => {
            format!("note: {}", notes.get(*number).map_or("", String::as_str))
        }
        Incident::Fails => String::from("the run fails"),
    }
}

/// A number of bytes.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bytes(count) = *self;
        write!(f, "{count} byte{}", if count == 1 { "" } else { "s" })
    }
}
