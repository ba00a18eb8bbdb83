//! How often jobs are handed out, and how long an attempt may take.

use std::io;
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{CallError, LeaseLost, Update};

use crate::broker::each;

const SOON: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3600);

/// - given: eight jobs in a queue with a rate of three per 200 ms, and two receivers
/// - when: they are received
/// - then: the last one comes after two periods, and each comes once
#[test]
fn fleet_160_rate_slow() {
    each(|_, fleet| {
        let period = Duration::from_millis(200);
        let queue = fleet.queue::<u32>("n").rate(3, period).open()?;
        queue.send_all(0..8)?;
        let begun = ecru::time::now();
        let (one, other) = (queue.jobs(2)?, queue.jobs(8)?);
        let mut numbers = Vec::new();
        while numbers.len() < 8 {
            let job = ecru::select! {
                recv(one) -> job => job?,
                recv(other) -> job => job?,
            };
            assert_eq!(job.attempt(), 1);
            numbers.push(*job);
            job.done()?;
        }
        // The clock of the rate counts whole milliseconds.
        assert!(ecru::time::now() - begun >= 2 * period - SOON);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        Ok(())
    });
}

/// - given: three jobs in a queue with a rate of one per hour, and a receiver
/// - when: the rate is removed after the first job has come
/// - then: the others come only then
#[test]
fn fleet_161_the_rate_changes() {
    each(|_, fleet| {
        fleet.on_warning(|_| {});
        let queue = fleet.queue::<u32>("n").rate(1, HOUR).open()?;
        queue.send_all(0..3)?;
        let jobs = queue.jobs(3)?;
        jobs.recv()?.done()?;
        assert!(jobs.recv_timeout(SOON).is_err());
        assert_eq!(queue.stats()?.redelivered, 0);
        queue.update(Update::new().no_rate())?;
        jobs.recv()?.done()?;
        jobs.recv()?.done()?;
        Ok(())
    });
}

/// - given: a rate of no job, of too many, and of a period that is too short or too long
/// - when: a queue is opened with it
/// - then: `InvalidInput`, and the message says what to do
#[test]
fn fleet_162_refused_rates() {
    each(|_, fleet| {
        for (jobs, per, text) in [
            (0, HOUR, "1 to 1000"),
            (1001, HOUR, "a shorter period"),
            (1, SOON / 2, "10ms"),
            (1, 1000 * HOUR, "10ms"),
        ] {
            let error = fleet.queue::<u32>("n").rate(jobs, per).open().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
        let error = fleet.queue::<u32>("n").time_limit(Duration::ZERO).open().unwrap_err();
        assert!(error.to_string().contains("time_limit is 0"), "{error}");
        Ok(())
    });
}

/// - given: a queue with a time limit and two attempts, and a job that sleeps for an hour
/// - when: it is run and dropped, twice
/// - then: the sleep is cancelled each time, `run` returns `LeaseLost::TimeLimit`, and the job is
///   dead, with the time limit as the reason
#[test]
fn fleet_163_time_limit() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").attempts(2).retry(Delay::Constant(SOON));
        let queue = queue.time_limit(SOON).open()?;
        queue.send(1)?;
        let jobs = queue.jobs(1)?;
        for attempt in 1..=2 {
            let job = jobs.recv()?;
            assert_eq!(job.attempt(), attempt);
            let mut slept = Ok(());
            let ran = job.run(|_| slept = ecru::sleep(HOUR));
            assert_eq!((ran, slept.is_err()), (Err(LeaseLost::TimeLimit), true));
        }
        let dead = loop {
            match queue.dead()?.recv() {
                Ok(dead) => break dead,
                Err(_) => ecru::sleep(SOON)?,
            }
        };
        assert_eq!((dead.job(), dead.attempts()), (Some(&1), 2));
        assert_eq!(dead.reason(), "attempt 2 took longer than the time limit of 10ms");
        // Without a wait that was interrupted, the time does not matter.
        queue.send(2)?;
        let job = jobs.recv()?;
        assert_eq!(job.run(|number| *number + 1), Ok(3));
        job.done()?;
        // The dead one is removed from the queue after it was stored among the dead.
        while queue.stats()?.running > 0 {
            ecru::sleep(SOON)?;
        }
        Ok(())
    });
}

/// - given: a function with a time limit, which sleeps for an hour the first time
/// - when: it is called, and called with an argument with which it always sleeps
/// - then: the first call has its result, and the other one fails with the time limit as the reason
#[test]
fn fleet_164_time_limit_of_a_function() {
    each(|_, fleet| {
        let nap = fleet.function("nap", |always: bool, run| {
            if always || run.attempt() == 1 {
                ecru::sleep(HOUR)?;
            }
            Ok(run.attempt())
        });
        let nap = nap.attempts(3).retry(Delay::Constant(SOON)).time_limit(SOON).open()?;
        ecru::scope(|s| {
            s.spawn_daemon(|| nap.serve(2));
            assert_eq!(nap.call(false).unwrap(), 2);
            let error = nap.call(true).unwrap_err();
            let CallError::Failed { reason, attempts: 3 } = error else { panic!("{error}") };
            assert!(reason.contains("time limit of 10ms"), "{reason}");
        });
        Ok(())
    });
}
