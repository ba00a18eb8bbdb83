//! Answers that are computed once, even if several tasks request them at the same time.
//!
//! Each request has a *slot*, one `OnceLock`. The first task fills it, and later tasks wait for
//! that, parked. The map's lock is held for a look-up only. There are two maps, the *young* and the
//! *old*. When the young map is full it becomes the old map, and the previous old map is dropped.
//! Answers that are requested repeatedly therefore stay, and the memory is bounded for any
//! requests.

use crate::request::Request;
use ecru::sync::OnceLock;
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

type Slots = HashMap<Request, Arc<OnceLock<u8>>>;

/// The answers.
#[derive(Debug)]
pub struct Cache {
    maps: Mutex<(Slots, Slots)>,
    generation: usize,
}

impl Cache {
    /// Creates a cache that remembers at least the last `generation` answers, and at most twice as
    /// many.
    pub fn new(generation: usize) -> Cache {
        Cache { maps: Mutex::default(), generation }
    }

    /// Returns the answer to a request. Calls `work` if no answer is known yet.
    ///
    /// # Errors
    /// Returns the error of `work`. The next task that requests the answer, or waits for it, then
    /// does the work.
    pub fn answer<E>(
        &self,
        request: Request,
        work: impl FnOnce() -> Result<u8, E>,
    ) -> Result<u8, E> {
        self.slot(request).get_or_try_init(work).copied()
    }

    fn slot(&self, request: Request) -> Arc<OnceLock<u8>> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let (young, old) = &mut *maps;
        if let Some(slot) = young.get(&request) {
            return Arc::clone(slot);
        }
        let slot = old.remove(&request).unwrap_or_default();
        if young.len() >= self.generation {
            *old = mem::take(young);
        }
        young.insert(request, Arc::clone(&slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;
    use crate::request::{Kind, Request};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn request(seed: u64) -> Request {
        Request { kind: Kind::Io, seed }
    }

    #[test]
    fn many_who_ask_at_once_cause_one_piece_of_work() {
        let (cache, works) = (Cache::new(8), AtomicUsize::new(0));
        let answers = ecru::run(|| {
            ecru::par::map(0..100, |_| {
                cache.answer(request(1), || {
                    works.fetch_add(1, Ordering::Relaxed);
                    ecru::yield_now().map(|()| 7)
                })
            })
        });
        assert_eq!(answers, vec![Ok(7); 100]);
        assert_eq!(works.into_inner(), 1);
    }

    #[test]
    fn failed_work_is_done_again() {
        let cache = Cache::new(8);
        assert_eq!(cache.answer(request(1), || Err("no")), Err("no"));
        assert_eq!(cache.answer(request(1), || Ok::<_, &str>(3)), Ok(3));
    }

    #[test]
    fn it_forgets_what_nobody_asks_for() {
        let cache = Cache::new(8);
        let ask = |seed, answer| cache.answer(request(seed), || Ok::<_, Infallible>(answer));
        assert_eq!(ask(1, 1), Ok(1));
        for seed in 2..1000 {
            let _ = ask(seed, 0);
            assert_eq!(ask(1, 99), Ok(1));
            let maps = cache.maps.lock().expect("nobody panicked");
            assert!(maps.0.len() + maps.1.len() <= 16);
        }
        assert_eq!(ask(2, 5), Ok(5));
    }
}
