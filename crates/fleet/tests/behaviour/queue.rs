//! Sending, and what is known of a queue.

use std::io;
use std::time::Duration;

use ecru::schedule::Delay;
use ecru::{Cancelled, Source};
use ecru_fleet::{Fleet, JobId, SendError, Sent, Unsettled, Update};

use crate::broker::{Broker, each};

/// - given: a queue
/// - when: jobs are sent, received, and done
/// - then: each is received once, as it was sent, with its id and attempt 1, and the queue is empty
#[test]
fn fleet_01_send_and_done() {
    each(|_, fleet| {
        let words = fleet.queue::<(u32, String)>("words").open()?;
        let mut ids = Vec::new();
        for number in 0..5 {
            let Sent::New(id) = words.send((number, "x".repeat(3)))? else {
                panic!("a new id");
            };
            ids.push(id);
        }
        assert_eq!(words.stats()?.queued, 5);
        let jobs = words.jobs(2)?;
        let mut seen = Vec::new();
        for job in jobs.iter().take(5) {
            assert_eq!((job.1.as_str(), job.attempt()), ("xxx", 1));
            seen.push((job.0, job.id().clone()));
            job.done()?;
        }
        seen.sort();
        assert_eq!(seen, (0..5).zip(ids).collect::<Vec<_>>());
        let stats = words.stats()?;
        assert_eq!((stats.queued, stats.running, stats.dead), (0, 0, 0));
        Ok(())
    });
}

/// - given: a job with a key
/// - when: another one is sent with the key while the first is queued, while it runs, and after it
///   is done
/// - then: `Already`, `Already`, and a new job
#[test]
fn fleet_02_unique_by_key() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let key = "user 7/ä.*>";
        let id = JobId::from_key(key)?;
        assert_eq!(queue.send_keyed(key, 1)?, Sent::New(id.clone()));
        assert_eq!(queue.send_keyed(key, 2)?, Sent::Already);
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        assert_eq!((*job, job.id()), (1, &id));
        assert_eq!(queue.send_keyed(key, 3)?, Sent::Already);
        job.done()?;
        assert_eq!(queue.send_keyed(key, 4)?, Sent::New(id));
        assert_eq!(*jobs.recv()?, 4);
        Ok(())
    });
}

/// - given: a queue with a capacity of two
/// - when: a third job is sent while two are queued or running, and again when one is done
/// - then: `Full` with the job, and then it is stored
#[test]
fn fleet_03_capacity() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").capacity(2).open()?;
        queue.send(1)?;
        queue.send(2)?;
        let job = queue.jobs(1)?.recv()?;
        let error = queue.send(3).unwrap_err();
        assert!(matches!(error, SendError::Full(3)), "{error}");
        assert!(error.to_string().contains("capacity"), "{error}");
        job.done()?;
        assert!(matches!(queue.send(3)?, Sent::New(_)));
        Ok(())
    });
}

/// - given: a queue
/// - when: a job of more than 1 MiB, or with an empty or a far too long key, is sent
/// - then: it is refused with a message that says what to do, the job is in the error, and nothing
///   is stored
#[test]
fn fleet_04_refused_jobs() {
    each(|_, fleet| {
        let queue = fleet.queue::<String>("n").open()?;
        let SendError::Refused { job, error } = queue.send("x".repeat(1 << 20)).unwrap_err() else {
            panic!("it is too large");
        };
        assert_eq!(job.len(), 1 << 20);
        assert!(error.to_string().contains("store it elsewhere"), "{error}");
        for key in ["", &"x".repeat(513), &"ä".repeat(100)] {
            let error = queue.send_keyed(key, "x".into()).unwrap_err();
            assert!(matches!(error, SendError::Refused { .. }), "{error}");
            assert_eq!(error.into_inner(), "x");
        }
        assert_eq!(queue.stats()?.queued, 0);
        Ok(())
    });
}

/// - given: malformed names, settings of 0, leases out of range, or a limit with pauses that are
///   longer than the lease
/// - when: a queue is opened
/// - then: `InvalidInput`, and the message says which setting, its value, and what to do
#[test]
fn fleet_05_refused_settings() {
    each(|_, fleet| {
        let second = Duration::from_secs(1);
        let queue = || fleet.queue::<u32>("n");
        let long = "x".repeat(63);
        for (builder, text) in [
            (fleet.queue::<u32>(""), "is empty"),
            (fleet.queue("a.b"), "contains '.'"),
            (fleet.queue("größe"), "contains 'ö'"),
            (fleet.queue(&long), "has 63 bytes, and the most is 62"),
            (queue().attempts(0), "attempts is 0"),
            (queue().limit(0), "limit is 0"),
            (queue().capacity(0), "capacity is 0"),
            (queue().replicas(0), "replicas is 0"),
            (queue().lease(Duration::ZERO), "the lease is 0ns"),
            (queue().limit(1).lease(second).retry(Delay::Constant(2 * second)), "would stall"),
        ] {
            let error = builder.open().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(text), "{error}");
        }
        queue().limit(1).lease(second).retry(Delay::Constant(second)).open()?;
        Ok(())
    });
}

/// - given: an open queue
/// - when: it is opened again with the same settings, with others, and without
/// - then: all handles have the same jobs; the others replace those before, and without any they
///   stay as they are
#[test]
fn fleet_06_opened_twice() {
    each(|_, fleet| {
        let first = fleet.queue::<u32>("n").limit(2).open()?;
        let second = fleet.queue::<u32>("n").limit(2).open()?;
        first.send(7)?;
        assert_eq!(*second.jobs(1)?.recv()?, 7);
        fleet.on_warning(|_| ());
        let small = fleet.queue::<u32>("small").capacity(1).open()?;
        small.send(1)?;
        assert!(matches!(small.send(2), Err(SendError::Full(2))));
        let larger = fleet.queue::<u32>("small").capacity(2).open()?;
        small.send(2)?;
        let same = fleet.queue::<u32>("small").open()?;
        assert!(matches!(same.send(3), Err(SendError::Full(3))));
        larger.update(Update::new().no_capacity())?;
        same.send(3)?;
        let error = same.update(Update::new().limit(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("limit is 0"), "{error}");
        Ok(())
    });
}

/// - given: a hundred jobs whose sending has begun
/// - when: they are awaited, one of them in a race
/// - then: each is stored once, under the id that was known before
#[test]
fn fleet_07_begin_send() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let begun: Vec<_> = (0..100).map(|number| queue.begin_send(number)).collect();
        for sending in begun {
            let id = sending.id().clone();
            let sent = sending.or(ecru::source::never()).wait()??;
            assert_eq!(sent, Sent::New(id));
        }
        assert_eq!(queue.stats()?.queued, 100);
        Ok(())
    });
}

/// - given: a cancelled task
/// - when: it sends a job, and another task sends it again by the id in the error
/// - then: `Cancelled` with the job and its id, and the job is stored once
#[test]
fn fleet_08_cancelled_while_sending() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let error = ecru::cancel_scope(|handle| {
            handle.cancel();
            queue.send(7).unwrap_err()
        });
        let SendError::Cancelled { job, id } = error else { panic!("{error}") };
        let _ = queue.send_again(&id, job)?;
        assert_eq!(queue.stats()?.queued, 1);
        let job = queue.jobs(1)?.recv()?;
        assert_eq!((*job, job.id()), (7, &id));
        Ok(())
    });
}

/// - given: a cancelled task that returns errors as `std::io::Error`
/// - when: it sends a job, with and without a key
/// - then: `Cancelled::find` finds the cancellation in the error
#[test]
fn fleet_302_a_cancelled_send_is_known_as_one() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let found = ecru::cancel_scope(|handle| {
            handle.cancel();
            let errors = [queue.send(7).unwrap_err(), queue.send_keyed("k", 7).unwrap_err()];
            errors.map(|error| Cancelled::find(&io::Error::from(error)))
        });
        assert!(found.iter().all(|found| found.is_some()), "{found:?}");
        Ok(())
    });
}

/// - given: a queue, a job of it and a receiver of jobs
/// - when: the scope of the fleet has ended
/// - then: every call answers that the fleet has ended: `Disconnected`, with the job, or
///   `NotConnected`; the job's `run` answers `LeaseLost::Disconnected`, its `done` that it is
///   `Lost`, and the receiver is disconnected
#[test]
fn fleet_09_after_the_end() {
    ecru::sim::test(|| {
        let (queue, job, jobs, fleet_like) = ecru::scope(|s| {
            let fleet = Fleet::local(s);
            let queue = fleet.queue::<u32>("n").open().unwrap();
            queue.send(1).unwrap();
            let jobs = queue.jobs(1).unwrap();
            let job = jobs.recv().unwrap();
            (queue.clone(), job, jobs, fleet.queue::<u32>("other"))
        });
        assert!(matches!(queue.send(2), Err(SendError::Disconnected(2))));
        assert_eq!(job.run(|_| ()), Err(ecru_fleet::LeaseLost::Disconnected));
        assert_eq!(jobs.recv().unwrap_err(), ecru::channel::RecvError::Disconnected);
        let id = job.id().clone();
        assert!(matches!(job.done(), Err(Unsettled::Lost { .. })));
        for error in [
            queue.jobs(1).unwrap_err(),
            queue.dead().unwrap_err(),
            queue.stats().unwrap_err(),
            queue.cancel(&id).unwrap_err(),
            queue.pause(Duration::ZERO).unwrap_err(),
            fleet_like.open().unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
            assert!(Cancelled::find(&error).is_none());
        }
    });
}

/// - given: a queue with jobs
/// - when: it is paused for a minute, and a second pause is ended early
/// - then: no job is handed out during a pause, and jobs come after each
#[test]
fn fleet_10_pause() {
    each(|_: &Broker, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let pause = Duration::from_secs(2);
        let begun = ecru::time::now();
        queue.pause(pause)?;
        queue.send(1)?;
        queue.send(2)?;
        let jobs = queue.jobs(1)?;
        jobs.recv()?.done()?;
        assert!(begun.elapsed_virtually() >= pause);
        jobs.recv()?.done()?;
        queue.pause(60 * pause)?;
        queue.send(3)?;
        queue.pause(Duration::ZERO)?;
        jobs.recv()?.done()?;
        Ok(())
    });
}

/// - given: jobs that are queued, running, running for the second time, and dead
/// - when: `stats` is called
/// - then: it counts each
#[test]
fn fleet_12_stats() {
    each(|_, fleet| {
        let pause = Delay::Constant(Duration::from_millis(10));
        let queue = fleet.queue::<u32>("n").retry(pause).open()?;
        queue.send(1)?;
        let jobs = queue.jobs(2)?;
        jobs.recv()?.bury("no")?;
        queue.send(2)?;
        drop(jobs.recv()?);
        let _second = jobs.recv()?;
        queue.send(3)?;
        let _first = jobs.recv()?;
        queue.send(4)?;
        let stats = queue.stats()?;
        let counts = (stats.queued, stats.running, stats.redelivered, stats.dead);
        assert_eq!(counts, (1, 2, 1, 1));
        Ok(())
    });
}

/// - given: a fleet in a scope of `try_scope`
/// - when: plain threads send, receive, run, finish and ask, without a runtime
/// - then: all of it works as in tasks
#[test]
fn fleet_11_plain_threads() {
    let result = ecru::run(|| {
        ecru::try_scope(|s| -> io::Result<()> {
            let queue = Fleet::local(s).queue::<u32>("n").open()?;
            ecru::unblock(|| {
                std::thread::scope(|threads| {
                    threads.spawn(|| (0..3).for_each(|n| drop(queue.send(n).unwrap())));
                    let worker = threads.spawn(|| {
                        let jobs = queue.jobs(2).unwrap();
                        for job in jobs.iter().take(3) {
                            let nap = Duration::from_millis(1);
                            assert_eq!(job.run(|_| ecru::sleep(nap)), Ok(Ok(())));
                            job.done().unwrap();
                        }
                    });
                    worker.join().unwrap();
                });
            });
            let stats = queue.stats()?;
            assert_eq!((stats.queued, stats.running), (0, 0));
            Ok(())
        })
    });
    result.unwrap();
}

trait ElapsedVirtually {
    fn elapsed_virtually(&self) -> Duration;
}

impl ElapsedVirtually for std::time::Instant {
    fn elapsed_virtually(&self) -> Duration {
        ecru::time::now() - *self
    }
}

/// - given: a queue
/// - when: two jobs are sent for a second later, one of which is cancelled, and another one at once
/// - then: the last one comes first, and the other one after its time, in its first attempt; a
///   queue with a limit refuses a job that would wait for longer than a lease
#[test]
fn fleet_130_send_after_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("mill").open()?;
        let (begun, pause) = (ecru::time::now(), Duration::from_secs(1));
        let Sent::New(cancelled) = queue.send_after(pause, 1)? else { panic!("a new id") };
        queue.send_after(pause, 2)?;
        queue.send(3)?;
        let jobs = queue.jobs(4)?;
        let job = jobs.recv()?;
        assert_eq!(*job, 3);
        job.done()?;
        assert!(queue.cancel(&cancelled)?);
        let job = jobs.recv()?;
        // The clocks that measure it are not this one.
        assert!(ecru::time::now() - begun >= pause - Duration::from_millis(10));
        assert_eq!((*job, job.attempt()), (2, 1));
        job.done()?;
        let limited = fleet.queue::<u32>("limited").limit(1).lease(pause).open()?;
        let refused = limited.send_after(2 * pause, 1);
        let Err(SendError::Refused { job: 1, error }) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("has a limit"), "{error}");
        limited.send_after(pause, 1)?;
        assert_eq!(*limited.jobs(1)?.recv()?, 1);
        Ok(())
    });
}

/// - given: a schedule of a job for each second, and another one of the same name that replaces it
/// - when: some seconds pass
/// - then: each second there is one job of the second one, with the name and the time as its id
#[test]
fn fleet_131_every_slow() {
    each(|_, fleet| {
        let (queue, other) = (fleet.queue("n").open()?, fleet.queue("n").open()?);
        let second = Duration::from_secs(1);
        queue.every("tick", 60 * second, 1)?;
        other.every("tick", second, 2)?;
        let jobs = queue.jobs(4)?;
        let mut times = Vec::new();
        while times.len() < 3 {
            let job = jobs.recv()?;
            assert_eq!(*job, 2);
            times.push(job.id().as_str().strip_prefix("tick/").unwrap().parse::<u64>().unwrap());
            job.done()?;
        }
        let first = times[0];
        assert_eq!((first % 1000, &*times), (0, &[first, first + 1000, first + 2000][..]));
        for (name, period) in [("", second), ("tick", second / 2)] {
            let error = queue.every(name, period, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        Ok(())
    });
}
