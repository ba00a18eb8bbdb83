//! The dead of a queue.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Dead;

#[derive(Default)]
pub(super) struct Graveyard {
    by_number: BTreeMap<u64, Dead>,
    known: BTreeSet<(String, u64)>,
    last: u64,
}

impl Graveyard {
    pub(super) fn add(&mut self, dead: &Dead) {
        if self.known.insert((dead.id.clone(), dead.sequence)) {
            self.last += 1;
            self.by_number.insert(self.last, dead.clone());
        }
    }

    pub(super) fn first_from(&self, from: u64) -> Option<(u64, Dead)> {
        self.by_number.range(from..).next().map(|(number, dead)| (*number, dead.clone()))
    }

    pub(super) fn remove(&mut self, number: u64) -> bool {
        let dead = self.by_number.remove(&number);
        if let Some(dead) = &dead {
            self.known.remove(&(dead.id.clone(), dead.sequence));
        }
        dead.is_some()
    }

    /// Returns how many there are, and the number of the last one that was added.
    pub(super) fn counts(&self) -> (u64, u64) {
        (u64::try_from(self.by_number.len()).unwrap_or(u64::MAX), self.last)
    }
}
