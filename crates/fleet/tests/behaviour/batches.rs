//! Jobs that are stored together, and jobs that are sent at times of the day.

use std::io;
use std::time::Duration;

use ecru_fleet::{Fleet, SendError};

use crate::broker::each;

/// - given: a queue with a capacity of six
/// - when: batches of no job, of four jobs, and of three more are sent
/// - then: nothing is stored, then all four, which come in order under their ids, and then nothing
///   and `Full` with the jobs
#[test]
fn fleet_140_a_batch() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").capacity(6).open()?;
        assert_eq!(queue.send_all([])?, []);
        assert_eq!(queue.stats()?.queued, 0);
        let ids = queue.send_all(0..4)?;
        let error = queue.send_all(4..7).unwrap_err();
        assert!(matches!(&error, SendError::Full(jobs) if *jobs == [4, 5, 6]), "{error}");
        assert_eq!(queue.stats()?.queued, 4);
        queue.send_all(4..6)?;
        assert!(queue.cancel(&ids[2])?);
        let jobs = queue.jobs(1)?;
        for expected in [0, 1, 3, 4, 5] {
            let job = jobs.recv()?;
            assert_eq!((*job, job.attempt()), (expected, 1));
            if let Some(id) = ids.get(usize::try_from(expected).unwrap()) {
                assert_eq!(job.id(), id);
            }
            job.done()?;
        }
        Ok(())
    });
}

/// - given: a queue
/// - when: a batch of more than 1,000 jobs is sent, and one with a job that is too large
/// - then: it is refused with a message that says what to do, the jobs are in the error, and
///   nothing is stored
#[test]
fn fleet_141_a_refused_batch() {
    each(|_, fleet| {
        let queue = fleet.queue::<String>("n").open()?;
        let many = vec![String::new(); 1001];
        let large = vec!["x".to_owned(), "x".repeat(1 << 20)];
        for (batch, text) in [(many, "send several batches"), (large, "job 1 of the batch")] {
            let refused = queue.send_all(batch.clone()).unwrap_err();
            let SendError::Refused { job, error } = refused else { panic!("{refused}") };
            assert_eq!((job == batch, error.kind()), (true, io::ErrorKind::InvalidInput));
            assert!(error.to_string().contains(text), "{error}");
        }
        assert_eq!(queue.stats()?.queued, 0);
        Ok(())
    });
}

/// - given: a cancelled task
/// - when: it sends a batch, and another task sends it again by the id in the error, twice
/// - then: `Cancelled` with the jobs and the id, and each job is stored once
#[test]
fn fleet_142_a_batch_is_sent_again() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let sent = ecru::cancel_scope(|handle| {
            handle.cancel();
            queue.send_all(0..3)
        });
        let Err(SendError::Cancelled { job, id }) = sent else { panic!("{sent:?}") };
        assert_eq!(job, [0, 1, 2]);
        let ids = queue.send_all_again(&id, job.clone())?;
        assert_eq!(queue.send_all_again(&id, job)?, ids);
        assert_eq!(queue.stats()?.queued, 3);
        Ok(())
    });
}

/// - given: a schedule at four o'clock
/// - when: one of the same name for each second replaces it; malformed expressions, zones and names
///   are given
/// - then: each second there is a job of the second one; `InvalidInput`, and the message says what
///   is malformed
#[test]
fn fleet_143_cron_is_replaced_slow() {
    each(|_, fleet: &Fleet<'_>| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.cron("tick", "0 4 * * *", "Europe/Berlin", 1)?;
        queue.every("tick", Duration::from_secs(1), 2)?;
        let job = queue.jobs(1)?.recv()?;
        assert_eq!(*job, 2);
        job.done()?;
        for (name, expression, zone, text) in [
            ("", "0 4 * * *", "UTC", "1 to 64 bytes"),
            ("tick", "4 o'clock", "UTC", "4 o'clock"),
            ("tick", "0 0 30 2 *", "UTC", "has no time"),
            ("tick", "0 4 * * *", "Europe/Mordor", "Europe/Mordor"),
        ] {
            let error = queue.cron(name, expression, zone, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
        Ok(())
    });
}
