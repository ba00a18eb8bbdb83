//! Lookups hold a share of the threads, and leave their line when they are withdrawn.
#![expect(unsafe_code, reason = "jobs that borrow from the test")]

use std::sync::mpsc;
use std::sync::{Condvar, Mutex};

use super::*;

/// A resolver that answers only when it is told to, and counts its calls.
#[derive(Default)]
struct Resolver {
    state: Mutex<(usize, bool)>,
    news: Condvar,
}

impl Resolver {
    unsafe fn ask(at: *const ()) {
        // SAFETY: the tests keep the resolver until the pool has finished.
        let resolver = unsafe { &*at.cast::<Resolver>() };
        let mut state = resolver.state.lock().unwrap();
        state.0 += 1;
        resolver.news.notify_all();
        drop(resolver.news.wait_while(state, |state| !state.1).unwrap());
    }

    fn job(self: &Arc<Resolver>) -> Job {
        Job { run: Resolver::ask, data: Arc::as_ptr(self).cast() }
    }

    fn wait_for_calls(&self, calls: usize) {
        drop(self.news.wait_while(self.state.lock().unwrap(), |state| state.0 < calls).unwrap());
    }
}

/// Lets the resolver answer and the pool end, also if a test fails.
struct Ends(BlockingPool, Arc<Resolver>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.1.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.1.news.notify_all();
        self.0.stop();
        while self.0.state.lock().threads != 0 {
            thread::yield_now();
        }
    }
}

unsafe fn tell(at: *const ()) {
    // SAFETY: the test waits for the message, and then for the end of the pool.
    unsafe { &*at.cast::<mpsc::Sender<()>>() }.send(()).unwrap();
}

#[test]
fn a_silent_resolver_leaves_threads_to_other_jobs() {
    let (told, heard) = mpsc::channel::<()>();
    let ends = Ends(BlockingPool::new("test"), Arc::default());
    let Ends(pool, resolver) = &ends;
    let tickets: Vec<_> = (0..600).map(|_| pool.submit_lookup(resolver.job()).unwrap()).collect();
    resolver.wait_for_calls(LOOKUPS_MAX);
    pool.submit(Job { run: tell, data: (&raw const told).cast() }).unwrap();
    heard.recv().unwrap();
    let withdrawn = tickets.into_iter().filter_map(|ticket| pool.withdraw_lookup(ticket)).count();
    assert_eq!(withdrawn, 600 - LOOKUPS_MAX);
    assert_eq!(resolver.state.lock().unwrap().0, LOOKUPS_MAX);
    assert!(pool.state.lock().lookups.is_empty());
}

#[test]
fn every_lookup_that_stays_in_line_runs() {
    let ends = Ends(BlockingPool::new("test"), Arc::default());
    let Ends(pool, resolver) = &ends;
    for _ in 0..3 * LOOKUPS_MAX {
        pool.submit_lookup(resolver.job()).unwrap();
    }
    resolver.wait_for_calls(LOOKUPS_MAX);
    resolver.state.lock().unwrap().1 = true;
    resolver.news.notify_all();
    resolver.wait_for_calls(3 * LOOKUPS_MAX);
    assert!(pool.state.lock().looking <= LOOKUPS_MAX);
}
