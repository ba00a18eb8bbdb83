//! The tasks that a tree does not list, but counts.

use std::fmt;
use std::panic::Location;

use crate::base::hash::HashMap;

/// The tasks that a tree does not list.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    /// The number of tasks that have not begun.
    pub(super) uncounted: usize,
    /// Tasks that wait for their items.
    pub(super) unlisted: usize,
    /// The tasks that have begun.
    pub(super) places: Vec<LeftOutPlace>,
}

/// Tasks of one spawn place that do the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftOutPlace {
    pub(super) spawned_at: &'static Location<'static>,
    /// Where they wait. `None` if they are ready.
    pub(super) waits_at: Option<&'static Location<'static>>,
    pub(super) count: usize,
}

impl fmt::Display for LeftOutPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks spawned at {}", self.count, self.spawned_at)?;
        match self.waits_at {
            Some(at) => write!(f, " wait at {at}"),
            None => f.write_str(" are ready to go on"),
        }
    }
}

impl LeftOut {
    /// Returns whether no task is left out.
    pub(super) fn is_empty(&self) -> bool {
        self.uncounted == 0 && self.unlisted == 0 && self.places.is_empty()
    }

    /// Adds the tasks that a worker has left out.
    pub(super) fn add(&mut self, places: Vec<LeftOutPlace>) {
        let mut all: HashMap<(usize, usize), LeftOutPlace> =
            self.places.drain(..).map(|place| (place.key(), place)).collect();
        for place in places {
            let count = place.count;
            let known = all.entry(place.key()).or_insert(LeftOutPlace { count: 0, ..place });
            known.count += count;
        }
        self.places = all.into_values().collect();
    }
}

impl LeftOutPlace {
    /// The number of kinds of tasks that are told apart. A program has fewer, unless its places are
    /// made up.
    const KINDS_MAX: usize = 10_000;

    fn key(&self) -> (usize, usize) {
        let address = |at: &'static Location<'static>| std::ptr::from_ref(at).addr();
        (address(self.spawned_at), self.waits_at.map_or(0, address))
    }

    pub(super) fn note(
        all: &mut HashMap<(usize, usize), LeftOutPlace>,
        spawned_at: &'static Location<'static>,
        waits_at: Option<&'static Location<'static>>,
    ) {
        let place = LeftOutPlace { spawned_at, waits_at, count: 0 };
        if all.len() < LeftOutPlace::KINDS_MAX || all.contains_key(&place.key()) {
            all.entry(place.key()).or_insert(place).count += 1;
        }
    }
}
