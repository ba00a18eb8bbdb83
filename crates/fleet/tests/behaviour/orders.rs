//! Jobs of a key in order, one at a time.

use std::io;
use std::time::Duration;

use ecru_fleet::{SendError, Sent};

use crate::broker::each;

const SOON: Duration = Duration::from_millis(10);

/// - given: a queue with `per_key(1)`, four jobs of one key and one of another, and two receivers
/// - when: they are received, and the first key's jobs are done, tried again, and buried
/// - then: at each moment there is one job of each key, in order, and a job that is tried again
///   comes before those behind it
#[test]
fn fleet_170_jobs_of_a_key_in_order_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").per_key(1).open()?;
        for number in 1..=4 {
            assert!(matches!(queue.send_keyed("a", number)?, Sent::New(_)));
        }
        queue.send_keyed("b.c", 10)?;
        let (one, other) = (queue.jobs(4)?, queue.jobs(4)?);
        let receive = || -> io::Result<_> {
            Ok(ecru::select! {
                recv(one) -> job => job?,
                recv(other) -> job => job?,
            })
        };
        let mut heads = [receive()?, receive()?];
        heads.sort_by_key(|job| **job);
        let [first, beside] = heads;
        assert_eq!((*first, *beside), (1, 10));
        assert!(first.id().as_str().starts_with("a/"), "{}", first.id());
        // Nothing comes as long as they run.
        assert!(one.recv_timeout(10 * SOON).is_err() && other.recv_timeout(10 * SOON).is_err());
        beside.done()?;
        let fence = first.fence();
        first.done()?;
        let second = receive()?;
        assert_eq!((*second, second.attempt()), (2, 1));
        assert!(second.fence() > fence);
        second.retry_after(SOON)?;
        let again = receive()?;
        assert_eq!((*again, again.attempt()), (2, 2));
        again.bury("no more")?;
        for expected in [3, 4] {
            let job = receive()?;
            assert_eq!((*job, job.attempt()), (expected, 1));
            job.done()?;
        }
        let stats = queue.stats()?;
        assert_eq!((stats.queued, stats.running, stats.dead), (0, 0, 1));
        // It comes back under its key.
        queue.dead()?.recv()?.revive()?;
        queue.send_keyed("a", 5)?;
        for expected in [2, 5] {
            let job = receive()?;
            assert_eq!(*job, expected);
            job.done()?;
        }
        Ok(())
    });
}

/// - given: a queue with `per_key(1)`
/// - when: a cancelled task sends a job, another one sends it again by the id in the error, twice,
///   and a job is cancelled while another one is behind it
/// - then: the job is stored once, and the one behind comes
#[test]
fn fleet_171_jobs_in_order_have_ids_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").per_key(1).open()?;
        let sent = ecru::cancel_scope(|handle| {
            handle.cancel();
            queue.send_keyed("a", 1)
        });
        let Err(SendError::Cancelled { job, id }) = sent else { panic!("{sent:?}") };
        queue.send_again(&id, job)?;
        assert_eq!(queue.send_again(&id, job)?, Sent::Already);
        queue.send_keyed("a", 2)?;
        assert_eq!(queue.stats()?.queued, 2);
        let jobs = queue.jobs(2)?;
        let first = jobs.recv()?;
        assert_eq!((*first, first.id()), (1, &id));
        assert!(queue.cancel(&id)?);
        let second = jobs.recv()?;
        assert_eq!(*second, 2);
        assert!(first.done().is_err());
        second.done()?;
        Ok(())
    });
}

/// - given: an open queue, and settings of `per_key` other than 1, or with a limit
/// - when: it is opened with them, and with `per_key(1)`
/// - then: `InvalidInput`, and the message says what to do; then jobs of a key are in order from
///   then on, and other handles of the queue know that
#[test]
fn fleet_172_the_order_is_a_setting_of_the_fleet() {
    each(|_, fleet| {
        fleet.on_warning(|_| {});
        let queue = || fleet.queue::<u32>("n");
        let plain = queue().open()?;
        plain.send_keyed("a", 1)?;
        for (builder, text) in
            [(queue().per_key(2), "must be 1"), (queue().per_key(1).limit(3), "would stall")]
        {
            let error = builder.open().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
        assert_eq!(plain.send_keyed("a", 2)?, Sent::Already);
        let ordered = queue().per_key(1).open()?;
        assert!(matches!(ordered.send_keyed("a", 3)?, Sent::New(_)));
        let third = queue().open()?;
        assert!(matches!(third.send_keyed("a", 4)?, Sent::New(_)));
        assert_eq!(third.stats()?.queued, 3);
        Ok(())
    });
}
