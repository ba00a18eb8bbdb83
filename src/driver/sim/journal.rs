//! What happens in a world, for those that compare runs and for those that read one.
//!
//! What happens inside of a host is not noted, except for its syncs: a message to the host itself
//! is no event of the cluster.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use super::HostId;

/// The most events that are kept, of which the last ones count.
const MOST: usize = 1 << 18;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The hash of all bytes that were sent and written.
    content: u64,
    events: VecDeque<Entry>,
    /// The number of events that are no longer kept.
    left_out: u64,
    /// The run is over.
    is_over: bool,
}

/// An event of a host.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) host: HostId,
    pub(crate) what: Incident,
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
        why: &'static str,
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
    /// What was written to a file, or the names in a directory, are kept.
    Synced {
        file: Arc<str>,
        is_directory: bool,
    },
    /// It starts, this often so far.
    Started {
        life: u64,
    },
    Crashes,
    LosesPower,
    /// Its disk has lost this in a power failure.
    Loses {
        what: Arc<str>,
    },
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

impl Journal {
    /// Notes an event. Nothing is noted when the run is over.
    pub(super) fn note(&mut self, at: Instant, host: HostId, what: Incident) {
        if self.is_over {
            return;
        }
        if self.events.len() == MOST {
            self.events.pop_front();
            self.left_out += 1;
        }
        self.events.push_back(Entry { at, host, what });
    }

    /// Ends the journal, because the run is over.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes the events, and the number of those before them that were not kept.
    pub(super) fn take(&mut self) -> (VecDeque<Entry>, u64) {
        (std::mem::take(&mut self.events), self.left_out)
    }

    /// Returns how a host was stopped the last time, and when.
    pub(super) fn last_outage(&self, host: HostId) -> Option<(&'static str, Instant)> {
        let mut of_host = self.events.iter().rev().filter(|entry| entry.host == host);
        of_host.find_map(|entry| match entry.what {
            Incident::LosesPower => Some(("lost its power", entry.at)),
            Incident::Crashes => Some(("crashed", entry.at)),
            _ => None,
        })
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
    use std::time::Instant;

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
        let (events, left_out) = journal.take();
        assert_eq!((events.len(), left_out), (MOST, 3));
    }
}
