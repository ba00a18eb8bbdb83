//! What has happened to the hosts of a simulation, as the page draws it.

use std::fmt::Display;
use std::sync::Arc;

/// An event of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostEvent {
    /// The virtual time since the beginning of the run, in nanoseconds. Rings count from there, too.
    pub(crate) at: u64,
    pub(crate) host: Arc<str>,
    /// The host at the other end.
    pub(crate) other: Option<Arc<str>>,
    pub(crate) sort: HostEventSort,
    pub(crate) text: String,
}

/// The sorts of events, which the page draws in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostEventSort {
    /// This number of bytes is sent.
    Sends(usize),
    Receives(usize),
    SendsDatagram(usize),
    ReceivesDatagram(usize),
    /// A message is dropped, held up or broken off.
    Drops,
    /// A connection is made or ends as it should.
    Connects,
    /// A partition, or another change of a link for the worse.
    Cuts,
    /// The end of a partition, or another change for the better.
    Heals,
    /// A crash, a power failure, or a pause.
    Stops,
    /// A start, a restart, or the end of a pause.
    Starts,
    /// A file or a directory is synced.
    Syncs,
    Notes,
    /// A fault that was drawn.
    Fault,
    /// The run fails.
    Fails,
    Other,
}

impl HostEventSort {
    /// Returns the number of the sort in the page, and the number of bytes.
    fn numbers(self) -> (u8, Option<usize>) {
        match self {
            HostEventSort::Sends(bytes) => (0, Some(bytes)),
            HostEventSort::Receives(bytes) => (1, Some(bytes)),
            HostEventSort::SendsDatagram(bytes) => (2, Some(bytes)),
            HostEventSort::ReceivesDatagram(bytes) => (3, Some(bytes)),
            HostEventSort::Drops => (4, None),
            HostEventSort::Connects => (5, None),
            HostEventSort::Cuts => (6, None),
            HostEventSort::Heals => (7, None),
            HostEventSort::Stops => (8, None),
            HostEventSort::Starts => (9, None),
            HostEventSort::Syncs => (10, None),
            HostEventSort::Notes => (11, None),
            HostEventSort::Fault => (12, None),
            HostEventSort::Fails => (13, None),
            HostEventSort::Other => (14, None),
        }
    }
}

/// Lists events as numbers, for the page. `index` returns the number of a text.
pub(super) fn list<I: Display>(
    events: &[HostEvent],
    begin: u64,
    mut index: impl FnMut(&str) -> I,
    mut add: impl FnMut(&dyn Display),
) {
    // Those before the first event that the rings still have would all be at one place.
    for HostEvent { at, host, other, sort, text } in events.iter().filter(|event| event.at >= begin)
    {
        let (number, bytes) = sort.numbers();
        add(&(at - begin));
        add(&index(host));
        match other {
            Some(other) => add(&index(other)),
            None => add(&-1),
        }
        add(&number);
        match bytes {
            Some(bytes) => add(&bytes),
            None => add(&-1),
        }
        add(&index(text));
    }
}
