//! Calls with keys.

use std::sync::atomic::{AtomicU32, Ordering};

use super::remote::{Link, Server};
use crate::{CallError, JobError, Run};

/// - given: a call with a key that has failed for good, whose job is not settled yet
/// - when: the function is called with that key again
/// - then: it runs again, and the caller gets the result
#[test]
fn fleet_59_a_key_that_is_being_buried() {
    ecru::sim::test(|| {
        let (server, runs) = (Server::new(), AtomicU32::new(0));
        ecru::scope(|s| {
            let fleet = server.fleet(s, &Link::default());
            let second_time = |number: u32, _: &Run| match runs.fetch_add(1, Ordering::Relaxed) {
                0 => Err(JobError::Fatal("the first time".into())),
                _ => Ok(number),
            };
            let second_time = fleet.function("second_time", second_time).open().unwrap();
            let served = second_time.clone();
            s.spawn_daemon(move || served.serve(4));
            let first = second_time.call_keyed("k", 7);
            assert!(matches!(first, Err(CallError::Failed { .. })), "{first:?}");
            assert_eq!(second_time.queue.stats().unwrap().running, 1);
            assert_eq!(second_time.call_keyed("k", 7).unwrap(), 7);
        });
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    });
}
