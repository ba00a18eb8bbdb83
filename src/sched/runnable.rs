//! The tasks of a simulated run that can run, in the order in which they became ready.
//!
//! A task is named by its *place* among those that can run, or by the *number* of its entry, which
//! stays the same until it is taken out. Each entry has a larger number than those before it.
//!
//! As long as there are few entries, one that is taken out leaves no gap: those behind it are moved,
//! which is cheaper than a search. With more entries, it leaves a gap. A Fenwick tree then counts
//! the entries that are left, so each operation takes a number of steps that is logarithmic in the
//! number of tasks. The gaps are closed when there are more gaps than entries.
#![expect(unsafe_code, reason = "keeps tasks by pointer")]

use std::ptr;

use crate::task::Header;

/// The number of gaps that are kept even if few entries are left.
const GAPS: usize = 32;

/// The most entries without a tree. When half as many are left, the tree is dropped again.
const FEW: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Runnable {
    /// In the order of their numbers.
    entries: Vec<Entry>,
    /// The Fenwick tree. The element at `i - 1` counts the entries that are left among the last
    /// `lowest_bit(i)` of the first `i` ones. Empty if there are few entries: they have no gaps.
    counts: Vec<usize>,
    /// The number of entries that are left.
    left: usize,
    next_number: u64,
    /// How many entries were looked at.
    #[cfg(all(test, not(loom)))]
    looks: std::cell::Cell<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    task: *const Header,
    ordinal: u64,
    number: u64,
    is_left: bool,
}

fn lowest_bit(index: usize) -> usize {
    index & index.wrapping_neg()
}

impl Runnable {
    /// Creates a list with these ordinals and no tasks, for callers that only need a director's
    /// choice.
    pub(crate) fn of(ordinals: &[u64]) -> Runnable {
        let mut runnable = Runnable::default();
        ordinals.iter().for_each(|ordinal| runnable.push(ptr::null(), *ordinal));
        runnable
    }

    /// Returns the number of tasks.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of the next entry.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Adds a task as the last one.
    pub(crate) fn push(&mut self, task: *const Header, ordinal: u64) {
        let has_tree = self.has_tree();
        if has_tree && self.entries.len() > 2 * self.left + GAPS {
            self.close_gaps();
        }
        self.entries.push(Entry { task, ordinal, number: self.next_number, is_left: true });
        self.next_number += 1;
        self.left += 1;
        if has_tree {
            self.count_last();
        } else if self.entries.len() > FEW {
            self.count_all();
        }
    }

    fn has_tree(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Adds the tree's element for the last entry, which has just been pushed.
    fn count_last(&mut self) {
        let index = self.counts.len() + 1;
        let (mut count, mut below) = (1, index - 1);
        while below > index - lowest_bit(index) {
            count += self.counts[below - 1];
            below -= lowest_bit(below);
        }
        self.counts.push(count);
    }

    /// Builds the tree for entries without gaps.
    #[cold]
    fn count_all(&mut self) {
        self.counts.clear();
        for _ in 0..self.entries.len() {
            self.count_last();
        }
    }

    #[cold]
    fn close_gaps(&mut self) {
        self.entries.retain(|entry| entry.is_left);
        self.count_all();
    }

    /// Returns the index of the entry at a place.
    fn index(&self, place: usize) -> usize {
        debug_assert!(place < self.left, "there are {} tasks, and no place {place}", self.left);
        if !self.has_tree() {
            return place;
        }
        let (mut index, mut before) = (0, place);
        let mut stride = (self.counts.len() + 1).next_power_of_two();
        while stride > 0 {
            if let Some(count) = self.counts.get(index + stride - 1)
                && *count <= before
            {
                index += stride;
                before -= count;
            }
            stride /= 2;
        }
        index
    }

    fn entry(&self, place: usize) -> Entry {
        self.look();
        self.entries[self.index(place)]
    }

    /// Returns the ordinal of the task at a place.
    pub(crate) fn ordinal(&self, place: usize) -> u64 {
        self.entry(place).ordinal
    }

    pub(super) fn task(&self, place: usize) -> *const Header {
        self.entry(place).task
    }

    /// Takes a task out. Returns it and its ordinal.
    pub(crate) fn take(&mut self, place: usize) -> (*const Header, u64) {
        if !self.has_tree() {
            self.left -= 1;
            let Entry { task, ordinal, .. } = self.entries.remove(place);
            return (task, ordinal);
        }
        let index = self.index(place);
        self.entries[index].is_left = false;
        let Entry { task, ordinal, .. } = self.entries[index];
        self.left -= 1;
        if self.left <= FEW / 2 {
            self.entries.retain(|entry| entry.is_left);
            self.counts.clear();
            return (task, ordinal);
        }
        let mut above = index + 1;
        while let Some(count) = self.counts.get_mut(above - 1) {
            *count -= 1;
            above += lowest_bit(above);
        }
        (task, ordinal)
    }

    /// Returns the place of the entry with this number, if it is left.
    pub(crate) fn place_of(&self, number: u64) -> Option<usize> {
        self.look();
        let index = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        if !self.entries[index].is_left {
            return None;
        }
        if !self.has_tree() {
            return Some(index);
        }
        let (mut before, mut below) = (0, index);
        while below > 0 {
            before += self.counts[below - 1];
            below -= lowest_bit(below);
        }
        Some(before)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_left).inspect(|_| self.look())
    }

    /// Returns the numbers and the ordinals of the entries from a number on.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let index = self.entries.partition_point(|entry| entry.number < number);
        let entries = self.entries[index..].iter().filter(|entry| entry.is_left);
        entries.inspect(|_| self.look()).map(|entry| (entry.number, entry.ordinal))
    }

    /// Returns the ordinals of all tasks.
    pub(crate) fn ordinals(&self) -> impl Iterator<Item = u64> {
        self.entries().map(|entry| entry.ordinal)
    }

    /// Returns the place of a task, if it can run. This looks at each of them.
    pub(crate) fn find(&self, ordinal: u64) -> Option<usize> {
        self.ordinals().position(|other| other == ordinal)
    }

    /// Returns all tasks.
    pub(super) fn tasks(&self) -> impl Iterator<Item = *const Header> {
        self.entries().map(|entry| entry.task)
    }

    /// Moves some tasks to the end of another list.
    pub(super) fn move_to(&mut self, other: &mut Runnable, moves: impl Fn(&Header) -> bool) {
        let mut place = 0;
        while place < self.len() {
            // SAFETY: T1: a queued task lives.
            if moves(unsafe { &*self.task(place) }) {
                let (task, ordinal) = self.take(place);
                other.push(task, ordinal);
            } else {
                place += 1;
            }
        }
    }

    #[inline]
    fn look(&self) {
        #[cfg(all(test, not(loom)))]
        self.looks.set(self.looks.get() + 1);
    }

    /// Returns how many entries were looked at so far.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FEW, GAPS, Runnable};
    use crate::base::random::Generator;
    use std::ptr;

    #[test]
    fn it_is_a_list_from_which_any_task_is_taken() {
        let mut random = Generator::new(5, 0);
        let (mut runnable, mut model) = (Runnable::default(), Vec::new());
        for round in 0..20_000 {
            // It grows, shrinks to nothing, and grows again.
            let grows = if round / 2_000 % 2 == 0 { 2 } else { 1 };
            if model.is_empty() || random.below(3) < grows {
                model.push((runnable.next_number(), round));
                runnable.push(ptr::null(), round);
            } else {
                let place = random.below(model.len());
                let (number, ordinal) = model.remove(place);
                assert_eq!(runnable.place_of(number), Some(place));
                assert_eq!(runnable.take(place).1, ordinal);
                assert_eq!(runnable.place_of(number), None);
            }
            assert_eq!((runnable.len(), runnable.is_empty()), (model.len(), model.is_empty()));
            if !model.is_empty() {
                let place = random.below(model.len());
                let (number, ordinal) = model[place];
                assert_eq!(
                    (runnable.ordinal(place), runnable.place_of(number)),
                    (ordinal, Some(place))
                );
                assert_eq!(runnable.find(ordinal), Some(place));
                assert!(runnable.since(number).eq(model[place..].iter().copied()));
            }
        }
    }

    #[test]
    fn gaps_are_closed() {
        for tasks in [3, FEW as u64 + 3] {
            let mut runnable = Runnable::of(&Vec::from_iter(0..tasks));
            let most = 2 * tasks as usize + GAPS + 1;
            for ordinal in tasks..100_000 {
                runnable.push(ptr::null(), ordinal);
                assert_eq!(runnable.take(1).1, ordinal + 1 - tasks);
                assert!(runnable.entries.len() <= most && runnable.counts.len() <= most);
            }
            assert!(runnable.ordinals().eq([0].into_iter().chain(100_001 - tasks..100_000)));
        }
    }

    #[test]
    fn few_entries_have_no_tree() {
        let mut runnable = Runnable::default();
        let grow = |runnable: &mut Runnable, to: usize| {
            while runnable.len() < to {
                runnable.push(ptr::null(), runnable.next_number());
            }
        };
        grow(&mut runnable, FEW);
        assert!(!runnable.has_tree());
        grow(&mut runnable, FEW + 1);
        assert!(runnable.has_tree());
        while runnable.len() > FEW / 2 + 1 {
            runnable.take(runnable.len() / 3);
        }
        assert!(runnable.has_tree());
        runnable.take(0);
        assert!(!runnable.has_tree() && runnable.entries.len() == FEW / 2);
        grow(&mut runnable, FEW);
        assert!(!runnable.has_tree());
    }
}
