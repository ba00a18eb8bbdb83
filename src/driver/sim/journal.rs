//! What happens in a world, for those that compare runs and for those that read one.
//!
//! What happens inside of a host is not noted, except for its syncs: a message to the host itself
//! is no event of the cluster.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use super::HostId;
use crate::base::simulated;
use crate::task;

/// The most events that are kept, of which the last ones count.
const MOST: usize = 1 << 18;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The hash of all bytes that were sent and written.
    content: u64,
    events: Events,
    /// The run is over.
    is_over: bool,
}

/// The events of hosts. A run notes two for each message, so an event is small: its time is kept once
/// for all events of that time, and texts are kept beside the events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    entries: VecDeque<Noted>,
    /// The times, each with the number of its events.
    times: VecDeque<(Instant, u32)>,
    /// The texts of the events that have one, in their order.
    texts: VecDeque<Arc<str>>,
    /// The number of events that are no longer kept.
    left_out: u64,
}

/// An event as it is kept.
#[derive(Debug)]
struct Noted {
    host: HostId,
    /// The number of the task that was running, plus 1, or 0 if there was none.
    task: u32,
    what: Incident,
}

// A run with many messages has room for them.
const _: () = assert!(size_of::<Noted>() <= 24);

/// An event of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) at: Instant,
    pub(crate) host: HostId,
    /// The number of the task that has done it. `None` if it has happened between two turns.
    pub(crate) task: Option<u64>,
    pub(crate) what: &'e Incident,
    pub(crate) text: Option<&'e Arc<str>>,
}

impl Events {
    fn push(&mut self, at: Instant, host: HostId, what: Incident) {
        if self.entries.len() == MOST {
            self.leave_out();
        }
        self.entries.push_back(Noted { host, task: running_task(), what });
        match self.times.back_mut() {
            // There are fewer events than `u32::MAX`.
            Some((last, count)) if *last == at => *count += 1,
            _ => self.times.push_back((at, 1)),
        }
    }

    /// Forgets the first event.
    fn leave_out(&mut self) {
        self.left_out += 1;
        if self.entries.pop_front().is_some_and(|noted| noted.what.has_text()) {
            self.texts.pop_front();
        }
        if let Some((_, count)) = self.times.front_mut() {
            *count -= 1;
            if *count == 0 {
                self.times.pop_front();
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of events before the first one, which were not kept.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the events, in the order in which they were noted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let times = self.times.iter();
        let times = times.flat_map(|(at, count)| std::iter::repeat_n(*at, *count as usize));
        let mut texts = self.texts.iter();
        times.zip(&self.entries).map(move |(at, Noted { host, task, what })| {
            let text = if what.has_text() { texts.next() } else { None };
            let task = task.checked_sub(1).map(u64::from);
            Entry { at, host: *host, task, what, text }
        })
    }
}

/// Returns what is kept of the running task.
fn running_task() -> u32 {
    task::current_header()
        .map_or(0, |header| u32::try_from(simulated::shown_number(header.id()) + 1).unwrap_or(0))
}

/// What may happen to a host, or what it does.
#[derive(Clone, Debug)]
pub(crate) enum Incident {
    /// It sends bytes of a stream.
    Sends {
        to: HostId,
        bytes: usize,
    },
    /// It sends a datagram.
    SendsDatagram {
        to: HostId,
        bytes: usize,
    },
    /// Bytes have arrived.
    Receives {
        from: HostId,
        bytes: usize,
    },
    /// A datagram has arrived.
    ReceivesDatagram {
        from: HostId,
        bytes: usize,
    },
    /// A datagram is dropped, for this reason.
    Drops {
        from: HostId,
        why: Dropped,
    },
    /// What another host has sent does not arrive, because the link is cut.
    HeldUp {
        from: HostId,
    },
    /// It asks for a connection.
    Connects {
        to: HostId,
    },
    /// Its connection stands.
    Connected {
        to: HostId,
    },
    /// Its attempt to connect has failed.
    NotConnected {
        to: HostId,
    },
    /// The other host has ended its stream.
    StreamEnds {
        from: HostId,
    },
    /// A connection has broken.
    Broken {
        to: HostId,
    },
    /// Nothing that it sends to the other host arrives any more.
    CutOff {
        from: HostId,
    },
    /// A partition from the other host ends.
    Mended {
        other: HostId,
    },
    /// All partitions end.
    Healed,
    /// The link to the other host keeps everything that travels.
    Held {
        other: HostId,
    },
    /// The link to the other host lets everything travel again.
    Released {
        other: HostId,
    },
    /// All faults end.
    Calm,
    /// What was written to a file, or the names in a directory, are kept. The text is the path.
    Synced {
        is_directory: bool,
    },
    /// It starts, this often so far.
    Started {
        life: u64,
    },
    Crashes,
    LosesPower,
    /// Its disk has lost something in a power failure. The text says what.
    Loses,
    Pauses,
    Resumes,
    /// Its clock has another rate now, in millionths more or less than that of virtual time.
    Drifts {
        parts_per_million: i32,
    },
    /// Its wall clock shows another time now.
    Jumps {
        milliseconds: i64,
    },
    /// The program notes something: the number of the note.
    Notes(usize),
    /// The run has failed here.
    Fails,
}

impl Incident {
    fn has_text(&self) -> bool {
        matches!(self, Incident::Synced { .. } | Incident::Loses)
    }
}

/// Why a datagram is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dropped {
    /// The link is cut.
    Cut,
    /// There is no socket for it.
    NoSocket,
    /// There is no room for it.
    NoRoom,
}

impl Journal {
    /// Notes an event. Nothing is noted when the run is over.
    pub(super) fn note(&mut self, at: Instant, host: HostId, what: Incident) {
        if self.is_over {
            return;
        }
        self.events.push(at, host, what);
    }

    /// Notes an event that has a text.
    pub(super) fn note_text(&mut self, at: Instant, host: HostId, what: Incident, text: Arc<str>) {
        if !self.is_over {
            self.events.texts.push_back(text);
            self.note(at, host, what);
        }
    }

    /// Ends the journal, because the run is over.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes the events.
    pub(super) fn take(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Returns how a host was stopped the last time, and when.
    pub(super) fn last_outage(&self, host: HostId) -> Option<(&'static str, Instant)> {
        let of_host = self.events.iter().filter(|entry| entry.host == host);
        let outages = of_host.filter_map(|entry| match entry.what {
            Incident::LosesPower => Some(("lost its power", entry.at)),
            Incident::Crashes => Some(("crashed", entry.at)),
            _ => None,
        });
        outages.last()
    }

    /// Notes bytes that were sent or written: the first `count` of these buffers.
    pub(super) fn note_bytes(&mut self, count: usize, buffers: &[IoSlice<'_>]) {
        let mut left = count;
        for buffer in buffers {
            let (part, _) = buffer.split_at(left.min(buffer.len()));
            self.note_slice(part);
            left -= part.len();
        }
        self.content = mix(self.content, count as u64);
    }

    /// Notes bytes that were written.
    pub(super) fn note_slice(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut hash = self.content;
        for word in words {
            hash = mix(hash, u64::from_le_bytes(*word));
        }
        for byte in rest {
            hash = mix(hash, u64::from(*byte));
        }
        self.content = hash;
    }

    /// Returns a number that differs if other bytes were sent or written.
    pub(super) fn content(&self) -> u64 {
        self.content
    }
}

/// Adds a word to a hash (FNV-1a, with words instead of bytes).
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_add(0xCBF2_9CE4_8422_2325).wrapping_mul(0x0100_0000_01B3);
    mixed ^ (mixed >> 29)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Incident, Journal, MOST};
    use crate::driver::sim::HostId;
    use std::io::IoSlice;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const SYNCED: Incident = Incident::Synced { is_directory: false };

    fn content(count: usize, buffers: &[&[u8]]) -> u64 {
        let mut journal = Journal::default();
        let buffers: Vec<IoSlice<'_>> = buffers.iter().map(|bytes| IoSlice::new(bytes)).collect();
        journal.note_bytes(count, &buffers);
        journal.content()
    }

    #[test]
    fn what_was_sent_counts_and_nothing_behind_it() {
        let long: &[u8] = b"a text of more than eight bytes";
        assert_eq!(content(20, &[long]), content(20, &[&long[..20]]));
        assert_ne!(content(20, &[long]), content(21, &[long]));
        assert_ne!(content(3, &[b"abc"]), content(3, &[b"acb"]));
        assert_ne!(content(9, &[b"123456789"]), content(9, &[b"023456789"]));
    }

    #[test]
    fn the_last_events_are_kept_until_the_run_is_over() {
        let (mut journal, now) = (Journal::default(), Instant::now());
        let note = |journal: &mut Journal| journal.note(now, HostId(1), Incident::Healed);
        (0..MOST + 3).for_each(|_| note(&mut journal));
        journal.end();
        note(&mut journal);
        let events = journal.take();
        assert_eq!((events.len(), events.left_out()), (MOST, 3));
        assert_eq!(events.iter().count(), MOST);
    }

    #[test]
    fn events_keep_their_times_and_texts() {
        let (mut journal, start) = (Journal::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        (0..MOST).for_each(|_| journal.note(start, HostId(1), Incident::Healed));
        journal.note_text(after(1), HostId(2), SYNCED, Arc::from("first"));
        (0..MOST - 2).for_each(|_| journal.note(after(1), HostId(1), Incident::Healed));
        journal.note_text(after(2), HostId(3), SYNCED, Arc::from("second"));
        // The first file is now the first of the events that are kept.
        let events = journal.take();
        let synced = events.iter().filter_map(|entry| Some((entry.at, entry.host, entry.text?)));
        let (first, second) = (Arc::from("first"), Arc::from("second"));
        let expected = [(after(1), HostId(2), &first), (after(2), HostId(3), &second)];
        assert!(synced.eq(expected));
        assert_eq!(events.iter().next().map(|entry| entry.at), Some(after(1)));
    }

    #[test]
    fn the_text_of_an_event_that_is_left_out_is_left_out() {
        let (mut journal, now) = (Journal::default(), Instant::now());
        journal.note_text(now, HostId(1), SYNCED, Arc::from("first"));
        (0..MOST - 1).for_each(|_| journal.note(now, HostId(1), Incident::Healed));
        journal.note_text(now, HostId(1), SYNCED, Arc::from("second"));
        let events = journal.take();
        let files: Vec<_> = events.iter().filter_map(|entry| entry.text).collect();
        assert_eq!(files, [&Arc::from("second")]);
    }
}
