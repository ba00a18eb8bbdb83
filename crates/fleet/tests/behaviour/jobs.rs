//! Jobs and their leases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{LeaseLost, Unsettled};

use crate::broker::each;

const PAUSE: Duration = Duration::from_secs(1);

/// - given: a job in `run` and another in the channel
/// - when: the first one takes three leases
/// - then: neither is handed out again
#[test]
fn fleet_20_leases_are_renewed() {
    each(|broker, fleet| {
        let queue = fleet.queue::<u32>("n").lease(broker.lease()).open()?;
        queue.send(1)?;
        queue.send(2)?;
        let jobs = queue.jobs(2)?;
        let others = queue.jobs(2)?;
        // Whichever receiver has them, both are held.
        let mut receivers = [&jobs, &others].into_iter().cycle();
        let first = loop {
            let receiver = receivers.next().unwrap();
            if let Ok(job) = receiver.recv_timeout(PAUSE) {
                break job;
            }
        };
        let slept = first.run(|_| ecru::sleep(3 * broker.lease()));
        assert_eq!(slept, Ok(Ok(())));
        assert_eq!(queue.stats()?.redelivered, 0);
        first.done()?;
        let second = jobs.try_recv().or_else(|_| others.try_recv()).unwrap();
        assert_eq!(second.attempt(), 1);
        second.done()?;
        Ok(())
    });
}

/// - given: a job that was received
/// - when: it is dropped in a cancelled task and inside `no_suspend`
/// - then: the drop does not wait, and the job is handed out again, after the pause of the
///   settings, as the next attempt with a greater fence
#[test]
fn fleet_21_a_dropped_job() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").retry(Delay::Constant(PAUSE)).open()?;
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        let fence = job.fence();
        let begun = ecru::time::now();
        ecru::cancel_scope(|handle| {
            handle.cancel();
            ecru::no_suspend(|| drop(job));
        });
        let job = jobs.recv()?;
        // Half of the pause is random.
        assert!(ecru::time::now() - begun >= PAUSE / 2);
        assert_eq!((*job, job.attempt()), (7, 2));
        assert!(job.fence() > fence);
        job.done()?;
        Ok(())
    });
}

/// - given: a job
/// - when: its holder calls `retry_after`
/// - then: it is handed out again no sooner than that
#[test]
fn fleet_22_retry_after() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        let begun = ecru::time::now();
        jobs.recv()?.retry_after(3 * PAUSE)?;
        let job = jobs.recv()?;
        assert!(ecru::time::now() - begun >= 3 * PAUSE);
        assert_eq!(job.attempt(), 2);
        job.done()?;
        Ok(())
    });
}

/// - given: a queue with a limit
/// - when: `retry_after` has a pause that is longer than the lease
/// - then: the job is handed out again after a lease
#[test]
fn fleet_23_a_pause_that_would_stall() {
    each(|broker, fleet| {
        let delay = Delay::Constant(Duration::from_millis(10));
        let builder = fleet.queue::<u32>("n").limit(1).retry(delay);
        let queue = builder.lease(broker.lease()).open()?;
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        let begun = ecru::time::now();
        jobs.recv()?.retry_after(1000 * broker.lease())?;
        let job = jobs.recv()?;
        let pause = ecru::time::now() - begun;
        assert!(pause >= broker.lease() && pause < 900 * broker.lease(), "{pause:?}");
        job.done()?;
        Ok(())
    });
}

/// - given: twenty jobs in a queue with a limit of three, and four receivers with windows of five
/// - when: they are worked on
/// - then: never more than three are held at once, and all are done
#[test]
fn fleet_24_limit() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").limit(3).open()?;
        for number in 0..20 {
            queue.send(number)?;
        }
        let (running, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn_daemon(|| {
                    for job in queue.jobs(5).unwrap() {
                        let count = running.fetch_add(1, Ordering::Relaxed) + 1;
                        assert!(count <= 3, "{count} are running");
                        let slept = job.run(|_| ecru::sleep(Duration::from_millis(5)));
                        running.fetch_sub(1, Ordering::Relaxed);
                        if slept == Ok(Ok(())) && job.done().is_ok() {
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            while done.load(Ordering::Relaxed) < 20 {
                ecru::sleep(Duration::from_millis(5)).unwrap();
            }
        });
        assert_eq!(queue.stats()?.running, 0);
        Ok(())
    });
}

/// - given: ten jobs and a receiver with a window of three
/// - when: none is received, and then none is settled
/// - then: three leases are held, and no fourth job is received until one is settled
#[test]
fn fleet_25_window() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        for number in 0..10 {
            queue.send(number)?;
        }
        let jobs = queue.jobs(3)?;
        let held: Vec<_> = (0..3).map(|_| jobs.recv().unwrap()).collect();
        assert!(jobs.recv_timeout(Duration::from_millis(20)).is_err());
        assert_eq!(queue.stats()?.running, 3);
        held.into_iter().next_back().unwrap().done()?;
        drop(jobs.recv()?);
        Ok(())
    });
}

/// - given: a queued job and a running one
/// - when: they are cancelled, and an id without a job
/// - then: `true`, `true`, `false`; the queued one is never handed out, and the waits inside the
///   other one's `run` are cancelled; it is not handed out again, and `done` fails
#[test]
fn fleet_26_cancel() {
    each(|broker, fleet| {
        let queue = fleet.queue::<u32>("n").lease(broker.lease()).open()?;
        queue.send_keyed("running", 1)?;
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        queue.send_keyed("queued", 2)?;
        let id = |key| ecru_fleet::JobId::from_key(key).unwrap();
        assert!(queue.cancel(&id("queued"))?);
        assert!(!queue.cancel(&id("queued"))?);
        assert!(!queue.cancel(&id("none"))?);
        let result = job.run(|_| {
            assert!(queue.cancel(&id("running")).unwrap());
            assert!(ecru::sleep(Duration::MAX).is_err());
        });
        assert_eq!(result, Err(LeaseLost::Cancelled));
        let error = job.done().unwrap_err();
        assert!(matches!(error, Unsettled::Lost { .. }), "{error}");
        assert_eq!(LeaseLost::find(&error.into()), Some(LeaseLost::Unsettled));
        queue.send(3)?;
        assert_eq!(*jobs.recv()?, 3);
        assert_eq!(queue.stats()?.queued, 0);
        Ok(())
    });
}

/// - given: a cancelled task that has done the work of a job
/// - when: it calls `done`
/// - then: the job is done: the call is no cancellation point
#[test]
fn fleet_27_done_in_a_cancelled_task() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(7)?;
        let job = queue.jobs(1)?.recv()?;
        ecru::cancel_scope(|handle| {
            handle.cancel();
            job.done()
        })?;
        let stats = queue.stats()?;
        assert_eq!((stats.queued, stats.running), (0, 0));
        Ok(())
    });
}

/// - given: jobs in a channel
/// - when: its receiver is dropped
/// - then: they are given back, and another receiver gets them
#[test]
fn fleet_28_a_dropped_receiver() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        for number in 0..3 {
            queue.send(number)?;
        }
        let jobs = queue.jobs(3)?;
        while queue.stats()?.running < 3 {
            ecru::sleep(Duration::from_millis(1)).unwrap();
        }
        drop(jobs);
        let mut seen: Vec<u32> = Vec::new();
        for job in queue.jobs(3)?.iter().take(3) {
            seen.push(*job);
            job.done()?;
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        Ok(())
    });
}

/// - given: a window of 0
/// - when: `jobs` is called
/// - then: `InvalidInput`
#[test]
fn fleet_29_a_window_of_nothing() {
    each(|_, fleet| {
        let error = fleet.queue::<u32>("n").open()?.jobs(0).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        Ok(())
    });
}

/// - given: a job
/// - when: the closure of `run` panics
/// - then: the panic goes on, and the job is handed out again
#[test]
fn fleet_30_a_panic_in_run() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").retry(Delay::Constant(PAUSE)).open()?;
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _ = job.run(|_| std::panic::resume_unwind(Box::new("oh")));
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"oh"));
        let job = jobs.recv()?;
        assert_eq!(job.attempt(), 2);
        job.done()?;
        Ok(())
    });
}

/// - given: a job in a long `run`
/// - when: the task is cancelled
/// - then: the waits inside are cancelled, and `run` returns what its closure does: the lease is
///   not lost
#[test]
fn fleet_31_a_cancelled_task() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(7)?;
        let job = queue.jobs(1)?.recv()?;
        let result = ecru::timeout(PAUSE, || {
            job.run(|number| ecru::sleep(Duration::MAX).map_err(|_| *number))
        });
        assert!(result.is_err(), "{result:?}");
        assert_eq!(job.run(|number| *number), Ok(7));
        job.done()?;
        Ok(())
    });
}
