//! Results that wait until the servers have room.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared::Shared;

/// The runs in this process whose results wait until the servers have room.
#[derive(Default)]
pub(crate) struct Waiting(AtomicU64);

/// A run whose result waits.
pub(crate) struct Waits<'a>(&'a Shared);

impl Waiting {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Counts a run whose result waits for room. The first one is told of.
    pub(crate) fn wait_for_room(&self, why: &io::Error) -> Waits<'_> {
        if self.waiting.0.fetch_add(1, Ordering::AcqRel) == 0 {
            self.core.warn(&format!(
                "{} {:?}: the servers have no room for results, which wait here: {why}",
                self.what, self.name
            ));
        }
        Waits(self)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Shared { what, name, waiting, .. } = self.0;
        if waiting.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.core.warn(&format!("{what} {name:?}: no result waits for room any more"));
        }
    }
}
