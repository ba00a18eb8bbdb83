//! Attempts that are used up, in each way.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ecru::sim;
use ecru_fleet::{Fleet, JobId, Sent};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, next, panic_of, panic_quietly, until,
};

#[test]
fn attempts_are_not_used_up_in_the_channel_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(3).retry(RETRY).open()?;
        queue.send_keyed("k", 1)?;
        for _ in 0..10 {
            let jobs = queue.jobs(1)?;
            until(|| jobs.len() == 1);
        }
        let jobs = queue.jobs(1)?;
        // Jobs that are received and dropped have been begun.
        for _ in 0..2 {
            drop(jobs.recv()?);
        }
        let job = jobs.recv()?;
        assert_eq!(job.attempt(), 3);
        job.run(|_| ()).unwrap();
        drop(job);
        until(|| queue.stats().unwrap().dead == 1);
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.job(), dead.attempts()), (Some(&1), 3));
        assert!(!dead.reason().is_empty() && jobs.is_empty());
        dead.discard()
    });
}

#[test]
fn attempts_of_a_job_that_panics_its_holder_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(3).retry(RETRY).open()?;
        queue.send_keyed("poison", 13)?;
        queue.send_keyed("fine", 1)?;
        let worked = AtomicU32::new(0);
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while !ecru::is_cancelled() {
                    let _ = panic_of(|| {
                        for job in queue.jobs(2).unwrap() {
                            let _ = job.run(|n| {
                                if *n == 13 {
                                    panic_quietly("poison")
                                }
                            });
                            worked.fetch_add(1, Ordering::SeqCst);
                            job.done().unwrap();
                        }
                    });
                }
            });
            until(|| {
                let stats = queue.stats().unwrap();
                stats.queued + stats.running == 0
            });
        });
        assert_eq!(queue.stats()?.dead, 1);
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.id().as_str(), dead.attempts()), ("poison", 3));
        Ok(())
    });
}

#[test]
fn a_retry_at_once_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(30).retry(ecru::schedule::Delay::None);
        let queue = queue.open()?;
        queue.send_keyed("k", 1)?;
        let jobs = queue.jobs(1)?;
        let mut fence = (0, 0);
        for attempt in 1..=30 {
            let job = jobs.recv()?;
            assert_eq!(job.attempt(), attempt);
            assert!(job.fence() > fence);
            fence = job.fence();
            assert_eq!(queue.send_keyed("k", 2)?, Sent::Already);
            match attempt % 2 {
                0 => job.retry_after(std::time::Duration::ZERO)?,
                _ => drop(job),
            }
        }
        until(|| queue.stats().unwrap().dead == 1);
        assert_eq!(queue.dead()?.recv()?.attempts(), 30);
        Ok(())
    });
}

#[test]
fn a_fence_of_a_revived_job_is_greater_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_keyed("k", 1)?;
        let mut fence = (0, 0);
        for _ in 0..3 {
            let job = next(&queue)?;
            assert!(job.fence() > fence, "{:?} after {fence:?}", job.fence());
            fence = job.fence();
            job.bury("no")?;
            queue.dead()?.recv()?.revive()?;
        }
        next(&queue)?.done()?;
        queue.send_keyed("k", 2)?;
        assert!(next(&queue)?.fence() > fence);
        Ok(())
    });
}

#[test]
fn leases_that_are_lost_by_a_machine_that_stands_still_slow() {
    crate::support::real(|server| {
        let url = server.url();
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &url)?.queue::<u32>("n").attempts(2).retry(RETRY);
            let queue = queue.lease(SECOND).open()?;
            queue.send_keyed("k", 1)?;
            let jobs = queue.jobs(1)?;
            for attempt in 1..=2 {
                let job = ecru::timeout(LONG, || jobs.recv())??;
                assert_eq!(job.attempt(), attempt);
                let lost = ecru::timeout(LONG, || {
                    job.run(|_| {
                        // An attempt counts once its work has begun.
                        server.signal("STOP");
                        ecru::sleep(LONG)
                    })
                })?;
                assert!(lost.is_err(), "{lost:?}");
                server.signal("CONT");
                // Too late: it is not removed. The next holder may have it already.
                assert!(job.done().is_err());
            }
            ecru::timeout(LONG, || until(|| queue.stats().is_ok_and(|stats| stats.dead == 1)))?;
            let dead = queue.dead()?.recv()?;
            assert_eq!((dead.attempts(), dead.id()), (2, &JobId::from_key("k")?));
            assert_eq!(queue.stats()?.queued, 0);
            Ok(())
        })
    });
}

#[test]
fn receivers_that_come_and_go_slow() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(1000).retry(RETRY).open()?;
        let worked = Mutex::new(Vec::new());
        for n in 0..20 {
            queue.send(n)?;
        }
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while worked.lock().unwrap().len() < 20 {
                        let jobs = queue.jobs((sim::random_u64() % 4) as usize + 1).unwrap();
                        let patience = SOON * (sim::random_u64() % 4) as u32;
                        while let Ok(job) = jobs.recv_timeout(patience) {
                            if sim::chance(0.5) {
                                continue;
                            }
                            let number = *job;
                            job.done().unwrap();
                            worked.lock().unwrap().push(number);
                        }
                    }
                });
            }
        });
        let mut worked = worked.into_inner().unwrap();
        worked.sort_unstable();
        assert_eq!(worked, (0..20).collect::<Vec<_>>());
        assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        Ok(())
    });
}
