//! What is going to happen, in order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// A queue of events. They are ordered by their times, and those of the same time in the order in
/// which they were added. Many events have the same time, so those of one time are in one list.
#[derive(Debug)]
pub(super) struct Events<E> {
    queue: BTreeMap<Instant, VecDeque<E>>,
    /// Lists that are empty, kept for their memory.
    spare: Vec<VecDeque<E>>,
}

/// The most lists that are kept, and the longest one.
const MOST_SPARE: usize = 64;
const LONGEST_SPARE: usize = 64;

impl<E> Default for Events<E> {
    fn default() -> Events<E> {
        Events { queue: BTreeMap::new(), spare: Vec::new() }
    }
}

impl<E> Events<E> {
    /// Adds an event.
    pub(super) fn add(&mut self, when: Instant, event: E) {
        let spare = &mut self.spare;
        self.queue.entry(when).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(event);
    }

    /// Takes back an event that is equal to this one and was added for this time, if it has not
    /// been taken.
    pub(super) fn withdraw(&mut self, when: Instant, event: &E)
    where
        E: PartialEq,
    {
        let Some(same) = self.queue.get_mut(&when) else { return };
        if let Some(place) = same.iter().position(|other| other == event) {
            same.remove(place);
            if same.is_empty() {
                self.queue.remove(&when);
            }
        }
    }

    /// Removes the first events as long as `is_moot` returns true for them.
    pub(super) fn skip(&mut self, mut is_moot: impl FnMut(&E) -> bool) {
        while let Some(mut first) = self.queue.first_entry() {
            match first.get().front() {
                Some(event) if !is_moot(event) => return,
                Some(_) => drop(first.get_mut().pop_front()),
                None => drop(first.remove()),
            }
        }
    }

    /// Returns the time of the first event.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(when, _)| *when)
    }

    /// Takes the first event if its time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<E> {
        let mut first = self.queue.first_entry().filter(|first| *first.key() <= now)?;
        let event = first.get_mut().pop_front();
        if first.get().is_empty() {
            let list = first.remove();
            if self.spare.len() < MOST_SPARE && list.capacity() <= LONGEST_SPARE {
                self.spare.push(list);
            }
        }
        event
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
