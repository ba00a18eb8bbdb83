//! Limits, capacities and windows under pressure.

use std::sync::atomic::{AtomicU32, Ordering};

use ecru::Source;
use ecru_fleet::{CallError, JobId, Queue, Run, SendError, Sent};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, native, next, reaches, served, until,
};

#[test]
fn a_capacity_and_many_senders_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").capacity(5).retry(RETRY).open()?;
        for round in 0..3 {
            let sent = ecru::par::map(0..30, |n| match queue.send(n) {
                Ok(Sent::New(_)) => 1,
                Err(SendError::Full(job)) => {
                    assert_eq!(job, n);
                    0
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(sent.iter().sum::<u32>(), 5, "round {round}");
            let begun: Vec<_> = (0..10).map(|n| queue.begin_send(n)).collect();
            for sending in begun {
                assert!(matches!(sending.wait()?, Err(SendError::Full(_))));
            }
            let jobs = queue.jobs(5)?;
            for job in jobs.iter().take(5) {
                match round {
                    0 => job.done()?,
                    1 => job.bury("no")?,
                    _ => assert!(queue.cancel(job.id())?),
                }
            }
        }
        assert_eq!((queue.stats()?.queued, queue.stats()?.running), (0, 0));
        Ok(())
    });
}

#[test]
fn a_full_queue_and_its_keys() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").capacity(1).retry(RETRY).open()?;
        queue.send_keyed("k", 1)?;
        // There is such a job. It was not refused for want of room.
        assert_eq!(queue.send_keyed("k", 2)?, Sent::Already);
        assert!(matches!(queue.send_keyed("other", 2), Err(SendError::Full(2))));
        drop(next(&queue)?);
        // It is in a pause, and has its place.
        assert!(matches!(queue.send_keyed("other", 2), Err(SendError::Full(2))));
        assert!(queue.cancel(&JobId::from_key("k")?)?);
        assert!(matches!(queue.send_keyed("other", 2)?, Sent::New(_)));
        Ok(())
    });
}

#[test]
fn a_race_between_full_queues() {
    both(|fleet| {
        let open = |name| fleet.queue::<u32>(name).capacity(3).open();
        let (left, right) = (open("left")?, open("right")?);
        let mut stored = [0; 2];
        while stored != [3, 3] {
            let (first, second) = (left.begin_send(1), right.begin_send(2));
            ecru::select! {
                wait(&first) -> sent => drop(sent?),
                wait(&second) -> sent => drop(sent?),
                default(LONG) => panic!("{stored:?}"),
            }
            // The loser was sent all the same.
            stored = [left.stats()?.queued as u32, right.stats()?.queued as u32];
            assert!(stored[0] <= 3 && stored[1] <= 3);
        }
        Ok(())
    });
}

#[test]
fn a_limit_is_freed_by_each_end_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").lease(2 * SECOND).limit(1).retry(RETRY).open()?;
        let (first, second) = (queue.jobs(3)?, queue.jobs(3)?);
        let take = || {
            ecru::select! {
                recv(first) -> job => job.unwrap(),
                recv(second) -> job => job.unwrap(),
                default(LONG) => panic!("the limit was not freed"),
            }
        };
        for n in 0..8 {
            queue.send_keyed(&n.to_string(), n)?;
        }
        for end in 0..7 {
            let job = take();
            assert!(first.is_empty() && second.is_empty());
            assert_eq!(queue.stats()?.running, 1, "before the end {end}");
            match end {
                0 => job.done()?,
                1 => job.bury("no")?,
                2 => assert!(queue.cancel(job.id())?),
                3 => {
                    assert!(queue.cancel(job.id())?);
                    // On a server it may not have heard of that yet.
                    let _ = job.done();
                }
                4 => {
                    assert!(queue.cancel(job.id())?);
                    drop(job);
                }
                5 => job.retry_after(SOON)?,
                _ => drop(job),
            }
        }
        for _ in 0..3 {
            take().done()?;
        }
        until(|| queue.stats().unwrap().running == 0);
        assert_eq!(queue.stats()?.queued, 0);
        Ok(())
    });
}

/// Calls itself until `n` is 0.
fn countdown(function: &ecru_fleet::Function<'_, u32, u32>, n: u32) -> Result<u32, CallError> {
    if n == 0 { Ok(0) } else { function.call(n - 1).map(|depth| depth + 1) }
}

#[test]
fn a_function_that_calls_itself_slow() {
    both(|fleet| {
        let other = fleet.clone();
        let fibonacci = fleet.function("fibonacci", move |n: u32, _: &Run| {
            if n < 2 {
                return Ok(n);
            }
            let own = other.function("fibonacci", |_: u32, _: &Run| Ok(0)).open()?;
            let sum = ecru::par::map([n - 1, n - 2], |n| own.call(n)).into_iter().sum();
            let sum: Result<u32, CallError> = sum;
            Ok(sum?)
        });
        let fibonacci = fibonacci.open()?;
        assert_eq!(served(&fibonacci, 100, || fibonacci.call(7)).unwrap(), 13);
        Ok(())
    });
}

#[test]
fn a_function_that_calls_itself_beyond_its_limit() {
    local(|fleet| {
        let other = fleet.clone();
        let deep = fleet.function("deep", move |n: u32, _: &Run| {
            // A handle for calls. Its body does not run: it is not served.
            let own = other.function("deep", |_: u32, _: &Run| Ok(0)).limit(3).retry(RETRY);
            Ok(countdown(&own.open()?, n)?)
        });
        let deep = deep.limit(3).retry(RETRY).open()?;
        served(&deep, 10, || {
            assert_eq!(deep.call(2).unwrap(), 2);
            // Four at once do not fit. The calls wait for each other, and can be cancelled.
            let called = ecru::timeout(10 * SECOND, || deep.call(3));
            assert!(called.is_err(), "{called:?}");
            until(|| deep.stats().unwrap().running == 0);
            assert_eq!(deep.stats()?.queued, 0);
            assert_eq!(deep.call(2).unwrap(), 2);
            Ok(())
        })
    });
}

#[test]
fn a_limit_and_receivers_that_hold_everything() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").limit(2).retry(RETRY).open()?;
        for n in 0..6 {
            queue.send(n)?;
        }
        // One receiver hoards all that the limit lets it have, and another one waits.
        let hoard = queue.jobs(6)?;
        until(|| hoard.len() == 2);
        let jobs = queue.jobs(6)?;
        assert!(jobs.recv_timeout(100 * SECOND).is_err());
        drop(hoard);
        for job in jobs.iter().take(6) {
            job.done()?;
        }
        Ok(())
    });
}

#[test]
fn a_window_of_one_and_a_job_that_is_not_settled() {
    local(|fleet| {
        let queue: Queue<u32> = fleet.queue("n").retry(RETRY).open()?;
        for n in 0..3 {
            queue.send(n)?;
        }
        let jobs = queue.jobs(1)?;
        let clone = jobs.clone();
        let held = jobs.recv()?;
        assert!(clone.recv_timeout(100 * SECOND).is_err());
        drop(jobs);
        // A clone of the receiver goes on.
        held.done()?;
        for job in clone.iter().take(2) {
            job.done()?;
        }
        Ok(())
    });
}

#[test]
fn pauses_that_begin_and_end_while_jobs_are_taken_slow() {
    native(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).limit(3).open()?;
        let done = AtomicU32::new(0);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn_daemon(|| {
                    for job in queue.jobs(2).unwrap() {
                        job.done().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            s.spawn_daemon(|| {
                while queue.pause(SECOND).is_ok() && queue.pause(std::time::Duration::ZERO).is_ok()
                {
                    let _ = ecru::yield_now();
                }
                let _ = ecru::shield(|| queue.pause(std::time::Duration::ZERO));
            });
            for n in 0..500 {
                queue.send(n).unwrap();
            }
            reaches(&done, 500);
        });
        Ok(())
    });
}

#[test]
fn two_fleets_on_a_server_share_a_limit_slow() {
    crate::support::real(|server| {
        let url = server.url();
        let (running, done) = (AtomicU32::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            for _ in 0..3 {
                let (running, done, url) = (&running, &done, &url);
                s.spawn(move || {
                    ecru::scope(|s| {
                        let fleet = ecru_fleet::Fleet::connect(s, url).unwrap();
                        let queue = fleet.queue::<u32>("n").limit(2).retry(RETRY).open().unwrap();
                        for n in 0..20 {
                            queue.send(n).unwrap();
                        }
                        let jobs = queue.jobs(4).unwrap();
                        while done.load(Ordering::SeqCst) < 60 {
                            let Ok(job) = jobs.recv_timeout(SOON) else { continue };
                            let count = running.fetch_add(1, Ordering::SeqCst) + 1;
                            // A holder that stood still for a lease may have lost it.
                            assert!(count <= 2 || job.attempt() > 1, "{count}");
                            let _ = job.run(|_| ecru::yield_now());
                            running.fetch_sub(1, Ordering::SeqCst);
                            if job.done().is_ok() {
                                done.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    });
                });
            }
        });
        assert_eq!(done.into_inner(), 60);
        Ok(())
    });
}
