//! Jobs that are not tried again.

use std::time::Duration;

use ecru::schedule::Delay;

use crate::broker::each;

const SOON: Delay = Delay::Constant(Duration::from_millis(10));

/// - given: a queue with three attempts
/// - when: a job is given back three times
/// - then: it is not handed out a fourth time, but is among the dead, with a reason and its
///   attempts
#[test]
fn fleet_40_too_many_attempts() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").attempts(3).retry(SOON).open()?;
        queue.send_keyed("seven", 7)?;
        let jobs = queue.jobs(1)?;
        for attempt in 1..=3 {
            let job = jobs.recv()?;
            assert_eq!(job.attempt(), attempt);
            drop(job);
        }
        while queue.stats()?.dead == 0 {
            ecru::sleep(Duration::from_millis(10)).unwrap();
        }
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.job(), dead.attempts(), dead.id().as_str()), (Some(&7), 3, "seven"));
        assert!(dead.reason().contains("3 attempts"), "{}", dead.reason());
        Ok(())
    });
}

/// - given: a job
/// - when: it is buried, and revived
/// - then: the dead have it with its reason, and then the queue has it, with attempt 1
#[test]
fn fleet_41_bury_and_revive() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_keyed("seven", 7)?;
        let jobs = queue.jobs(1)?;
        jobs.recv()?.bury("it is odd")?;
        let stats = queue.stats()?;
        assert_eq!((stats.queued, stats.running, stats.dead), (0, 0, 1));
        let all: Vec<_> = queue.dead()?.iter().collect();
        assert_eq!(all.len(), 1);
        for dead in all {
            assert_eq!((dead.reason(), dead.attempts()), ("it is odd", 1));
            dead.revive()?;
        }
        let job = jobs.recv()?;
        assert_eq!((*job, job.attempt(), job.id().as_str()), (7, 1, "seven"));
        assert_eq!(queue.stats()?.dead, 0);
        job.done()?;
        Ok(())
    });
}

/// - given: a dead job
/// - when: it is revived while a job with its key is queued, and while the queue is full, and then
///   discarded
/// - then: `AlreadyExists`, `QuotaExceeded`, and it is gone
#[test]
fn fleet_42_what_cannot_be_revived() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").capacity(1).open()?;
        let take = || queue.dead().unwrap().recv().unwrap();
        queue.send_keyed("a", 1)?;
        let jobs = queue.jobs(1)?;
        jobs.recv()?.bury("no")?;
        queue.send_keyed("a", 2)?;
        let error = take().revive().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        jobs.recv()?.done()?;
        queue.send_keyed("b", 3)?;
        let error = take().revive().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
        take().discard()?;
        assert_eq!(queue.stats()?.dead, 0);
        assert!(queue.dead()?.recv().is_err());
        Ok(())
    });
}

/// - given: a job that was sent as another type
/// - when: it is received
/// - then: it goes to the dead, and the reason says what is wrong with it
#[test]
fn fleet_43_what_cannot_be_read() {
    each(|_, fleet| {
        let texts = fleet.queue::<String>("n").open()?;
        let numbers = fleet.queue::<u32>("n").open()?;
        texts.send("seven".into())?;
        numbers.send(7)?;
        assert_eq!(*numbers.jobs(1)?.recv()?, 7);
        let dead = numbers.dead()?.recv()?;
        assert_eq!(dead.job(), None);
        assert!(dead.reason().contains("cannot be read"), "{}", dead.reason());
        assert!(dead.reason().contains("u32"), "{}", dead.reason());
        let dead = texts.dead()?.recv()?;
        assert_eq!(dead.job().map(String::as_str), Some("seven"));
        Ok(())
    });
}

/// - given: a very long reason
/// - when: a job is buried
/// - then: the reason is cut after 4 KiB, between two characters
#[test]
fn fleet_44_a_long_reason() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(7)?;
        queue.jobs(1)?.recv()?.bury(&"€".repeat(5000))?;
        let dead = queue.dead()?.recv()?;
        assert_eq!(dead.reason(), "€".repeat(4096 / 3));
        Ok(())
    });
}
