//! What is going to happen, in order.

use std::collections::BTreeMap;
use std::time::Instant;

/// A queue of events. They are ordered by their times, and those of the same time in the order in
/// which they were added.
#[derive(Debug)]
pub(super) struct Events<E> {
    queue: BTreeMap<(Instant, u64), E>,
    next: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Events<E> {
        Events { queue: BTreeMap::new(), next: 0 }
    }
}

impl<E> Events<E> {
    /// Adds an event.
    pub(super) fn add(&mut self, when: Instant, event: E) {
        self.queue.insert((when, self.next), event);
        self.next += 1;
    }

    /// Takes back an event that is equal to this one and was added for this time, if it has not
    /// been taken.
    pub(super) fn withdraw(&mut self, when: Instant, event: &E)
    where
        E: PartialEq,
    {
        let mut same = self.queue.range((when, 0)..=(when, u64::MAX));
        let found = same.find(|(_, other)| *other == event).map(|(key, _)| *key);
        found.map(|key| self.queue.remove(&key));
    }

    /// Removes the first events as long as `is_moot` returns true for them.
    pub(super) fn skip(&mut self, mut is_moot: impl FnMut(&E) -> bool) {
        while let Some(first) = self.queue.first_entry()
            && is_moot(first.get())
        {
            first.remove();
        }
    }

    /// Returns the time of the first event.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((when, _), _)| *when)
    }

    /// Takes the first event if its time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<E> {
        let first = self.queue.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Events;
    use std::time::{Duration, Instant};

    #[test]
    fn events_come_in_the_order_of_their_times_and_then_of_their_age() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut events = Events::default();
        for (seconds, name) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b'), (3, 'e')] {
            events.add(after(seconds), name);
        }
        assert_eq!(events.take_due(start), None);
        let due: String = std::iter::from_fn(|| events.take_due(after(2))).collect();
        assert_eq!((due.as_str(), events.next()), ("abcd", Some(after(3))));
        events.add(after(3), 'f');
        events.withdraw(after(3), &'f');
        events.withdraw(after(4), &'e');
        events.add(after(2), 'g');
        events.skip(|event| *event == 'g');
        assert_eq!(events.take_due(after(9)), Some('e'));
        assert_eq!(events.next(), None);
    }
}
