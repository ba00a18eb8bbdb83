//! Rows of `doc/behaviour/source.md`: waiting for anything, and for one of several.

mod adaptors;
mod cancellation;
mod given;
mod own;
mod races;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::Side;
use ecru::Source;
use ecru::source::WaitList;

/// A user-defined queue.
#[derive(Default)]
struct Letters {
    letters: Mutex<VecDeque<u32>>,
    readers: WaitList,
    /// The number of looks.
    looks: AtomicUsize,
}

impl Letters {
    fn post(&self, letter: u32) {
        self.letters.lock().unwrap().push_back(letter);
        self.readers.notify_one();
    }
}

impl Source for Letters {
    type Item = u32;

    fn try_take(&self) -> Option<u32> {
        self.looks.fetch_add(1, SeqCst);
        self.letters.lock().unwrap().pop_front()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.readers);
    }
}

fn side_by_side<A: Send, B: Send>(
    side: Side,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
    here: impl FnOnce(),
) -> (A, B) {
    let (a, (b, ())) = side.both(a, || {
        side.both(b, || {
            side.pause();
            here();
        })
    });
    (a, b)
}
