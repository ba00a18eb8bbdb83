//! Keys, and jobs that are settled by two at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru_fleet::{JobId, LeaseLost, Queue, Sent};

use crate::support::{RETRY, SECOND, SOON, both, local, native, next, until, until_dead};

fn is_free(queue: &Queue<u32>, key: &str, number: u32) -> bool {
    queue.send_keyed(key, number).unwrap() != Sent::Already
}

#[test]
fn a_key_is_released_by_each_end_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(2).retry(RETRY).open()?;
        let id = JobId::from_key("k")?;
        let jobs = queue.jobs(1)?;
        // Done.
        assert!(is_free(&queue, "k", 1));
        jobs.recv()?.done()?;
        // Cancelled in the queue.
        queue.pause(100 * SECOND)?;
        assert!(is_free(&queue, "k", 2));
        assert!(!is_free(&queue, "k", 2));
        assert!(queue.cancel(&id)?);
        // Cancelled while it runs.
        assert!(is_free(&queue, "k", 3));
        queue.pause(Duration::ZERO)?;
        let job = jobs.recv()?;
        assert_eq!(*job, 3);
        assert!(queue.cancel(&id)? && !queue.cancel(&id)?);
        assert!(is_free(&queue, "k", 4));
        drop(job);
        // Returned twice: dead.
        let job = jobs.recv()?;
        assert_eq!((*job, job.attempt()), (4, 1));
        job.retry_after(Duration::ZERO)?;
        assert!(!is_free(&queue, "k", 0));
        drop(jobs.recv()?);
        until_dead(&queue, 1);
        // Buried.
        assert!(is_free(&queue, "k", 5));
        jobs.recv()?.bury("no")?;
        // Revived.
        for dead in queue.dead()?.iter().take(1) {
            dead.revive()?;
        }
        assert!(!is_free(&queue, "k", 0));
        jobs.recv()?.done()?;
        assert!(is_free(&queue, "k", 6));
        let job = jobs.recv()?;
        assert_eq!((*job, job.attempt()), (6, 1));
        job.done()?;
        Ok(())
    });
}

#[test]
fn an_old_holder_and_a_new_job_of_the_key_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").lease(2 * SECOND).retry(RETRY).open()?;
        let id = JobId::from_key("k")?;
        let jobs = queue.jobs(2)?;
        for end in 0..5 {
            assert!(is_free(&queue, "k", 1));
            let old = jobs.recv()?;
            assert!(queue.cancel(&id)?);
            assert!(is_free(&queue, "k", 2));
            // The old one may end before or after the new one begins.
            let late = if end < 3 { None } else { Some(jobs.recv()?) };
            match end {
                0 | 3 => drop(old.done()),
                1 | 4 => drop(old.bury("late")),
                _ => drop(old),
            }
            assert!(!is_free(&queue, "k", 3), "the old holder has removed the new job ({end})");
            let new = match late {
                Some(job) => job,
                None => jobs.recv()?,
            };
            assert_eq!((*new, new.attempt()), (2, 1));
            assert_eq!(new.run(|n| *n), Ok(2));
            new.done()?;
            until(|| queue.stats().unwrap().running == 0);
            assert_eq!(queue.stats()?.queued, 0);
        }
        Ok(())
    });
}

#[test]
fn done_and_cancel_at_once() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        for _ in 0..5 {
            assert!(is_free(&queue, "k", 1));
            let job = next(&queue)?;
            let id = job.id().clone();
            let (done, cancelled) = ecru::scope(|s| {
                let done = s.spawn(move || job.done());
                let cancelled = s.spawn(|| queue.cancel(&id));
                (done.join().unwrap(), cancelled.join().unwrap().unwrap())
            });
            assert!(done.is_ok() != cancelled, "{done:?} {cancelled}");
            assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        }
        Ok(())
    });
}

#[test]
fn bury_and_cancel_at_once() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        for round in 0..5 {
            assert!(is_free(&queue, "k", 1));
            let job = next(&queue)?;
            let id = job.id().clone();
            let (buried, cancelled) = ecru::scope(|s| {
                let buried = s.spawn(move || job.bury("no"));
                let cancelled = s.spawn(|| queue.cancel(&id));
                (buried.join().unwrap(), cancelled.join().unwrap().unwrap())
            });
            assert!(buried.is_ok() != cancelled, "{round}: {buried:?} {cancelled}");
            for dead in queue.dead()? {
                dead.discard()?;
            }
            assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        }
        Ok(())
    });
}

/// - given: a dead job that three readers have received
/// - when: each revives it, one after another, the last one when the job has been worked on
/// - then: the first one succeeds, the others get an error, and the job has run once
#[test]
fn fleet_200_revived_once() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_keyed("k", 1)?;
        next(&queue)?.bury("no")?;
        let take = || queue.dead().unwrap().recv().unwrap();
        let (first, second, third) = (take(), take(), take());
        first.revive()?;
        // The job is queued already.
        assert!(second.revive().is_err());
        assert_eq!(queue.stats()?.dead, 0);
        next(&queue)?.done()?;
        // It was done: it must not come back from the dead.
        let revived = third.revive();
        assert_eq!(queue.stats()?.queued, 0, "{revived:?}");
        Ok(())
    });
}

/// - given: a dead job that two readers have received
/// - when: one discards it and the other one revives it
/// - then: `NotFound`, and the job does not come back
#[test]
fn fleet_201_revived_after_a_discard() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_keyed("k", 1)?;
        next(&queue)?.bury("no")?;
        let (first, second) = (queue.dead()?.recv()?, queue.dead()?.recv()?);
        first.discard()?;
        let revived = second.revive();
        assert!(revived.is_err(), "a discarded job came back");
        assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        Ok(())
    });
}

#[test]
fn a_poisoned_job_that_is_revived_again_and_again_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(2).retry(RETRY).open()?;
        queue.send_keyed("poison", 13)?;
        let jobs = queue.jobs(1)?;
        for _ in 0..3 {
            for attempt in 1..=2 {
                let job = jobs.recv()?;
                assert_eq!(job.attempt(), attempt);
                drop(job);
            }
            until_dead(&queue, 1);
            let all: Vec<_> = queue.dead()?.iter().collect();
            assert_eq!(all.len(), 1);
            for dead in all {
                assert_eq!((dead.attempts(), dead.job()), (2, Some(&13)));
                dead.revive()?;
            }
            assert_eq!(queue.stats()?.dead, 0);
        }
        Ok(())
    });
}

#[test]
fn a_reader_of_the_dead_that_buries_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let jobs = queue.jobs(1)?;
        for n in 0..40 {
            queue.send(n)?;
            jobs.recv()?.bury("no")?;
        }
        // What dies while the dead are read is not among those that are there now.
        let mut count = 0;
        for dead in queue.dead()? {
            count += 1;
            assert!(count <= 100, "it does not end");
            dead.revive()?;
            jobs.recv()?.bury("again")?;
        }
        assert!((40..=80).contains(&count), "{count}");
        assert_eq!(queue.stats()?.dead, 40);
        Ok(())
    });
}

#[test]
fn many_senders_of_one_key() {
    native(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        let (new, done, held) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn_daemon(|| {
                    for job in queue.jobs(3).unwrap() {
                        assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "two of one key");
                        ecru::yield_now().unwrap_or(());
                        held.fetch_sub(1, Ordering::SeqCst);
                        job.done().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let senders: Vec<_> = (0..8)
                .map(|_| {
                    s.spawn(|| {
                        for n in 0..200 {
                            if is_free(&queue, "k", n) {
                                new.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    })
                })
                .collect();
            senders.iter().for_each(|sender| sender.join().unwrap());
            until(|| done.load(Ordering::SeqCst) == new.load(Ordering::SeqCst));
        });
        assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        Ok(())
    });
}

#[test]
fn a_job_that_cancels_itself_and_is_sent_again_inside() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        queue.send_keyed("k", 1)?;
        let jobs = queue.jobs(2)?;
        let job = jobs.recv()?;
        let lost = job.run(|_| {
            assert!(queue.cancel(job.id()).unwrap());
            assert!(ecru::sleep(Duration::MAX).is_err());
            assert!(ecru::shield(|| is_free(&queue, "k", 2)));
        });
        assert_eq!(lost, Err(LeaseLost::Cancelled));
        let new = jobs.recv()?;
        assert_eq!(*new, 2);
        drop(job);
        assert_eq!(new.run(|_| ecru::sleep(SOON)), Ok(Ok(())));
        new.done()?;
        Ok(())
    });
}
