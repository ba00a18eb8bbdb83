//! What a future has missed between its creation and its first poll.

use smallvec::SmallVec;

/// The numbers of events that a future has noted, of each of its sources that keeps none of its
/// events. The sources are asked in the same order each time.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the library's own sources have such events")]
pub struct Missed {
    noted: SmallVec<[usize; 1]>,
    /// The place to compare next, or `None` while numbers are noted.
    next: Option<usize>,
}

impl Missed {
    pub(super) fn new() -> Missed {
        Missed { noted: SmallVec::new(), next: None }
    }

    /// Notes the numbers from now on.
    pub(super) fn note(&mut self) {
        self.noted.clear();
        self.next = None;
    }

    /// Compares with the noted numbers from now on. Returns false if there are none.
    pub(super) fn compare(&mut self) -> bool {
        self.next = Some(0);
        !self.noted.is_empty()
    }

    /// Notes a source's number of events, or returns whether there have been events since then.
    pub(crate) fn any_of(&mut self, events: usize) -> bool {
        let Some(at) = self.next else {
            self.noted.push(events);
            return false;
        };
        self.next = Some(at + 1);
        self.noted.get(at).is_some_and(|noted| *noted != events)
    }
}
