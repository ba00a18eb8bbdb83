//! Results that wait until the servers have room.

use std::any::Any;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::shared::Shared;

/// The runs in this process whose results wait until the servers have room.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<State>);

#[derive(Default)]
struct State {
    count: u64,
    /// Shows operators that there are such runs.
    sign: Option<Box<dyn Any + Send>>,
}

/// A run whose result waits.
pub(crate) struct Waits<'a>(&'a Shared);

impl Waiting {
    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Counts a run whose result waits for room. The first one is told of.
    pub(crate) fn wait_for_room(&self, why: &io::Error) -> Waits<'_> {
        let mut state = self.waiting.state();
        state.count += 1;
        let is_first = state.count == 1;
        drop(state);
        let waits = Waits(self);
        if is_first {
            self.core.warn(&format!(
                "{} {:?}: the servers have no room for results, which wait here: {why}",
                self.what, self.name
            ));
            let sign = self.engine().ok().and_then(|engine| engine.show_waiting());
            let mut state = self.waiting.state();
            // Others may have begun and ended meanwhile. This one has not ended.
            let before = std::mem::replace(&mut state.sign, sign);
            drop(state);
            drop(before);
        }
        waits
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Shared { what, name, waiting, .. } = self.0;
        let mut state = waiting.state();
        state.count -= 1;
        if state.count == 0 {
            let sign = state.sign.take();
            drop(state);
            drop(sign);
            self.0.core.warn(&format!("{what} {name:?}: no result waits for room any more"));
        }
    }
}
