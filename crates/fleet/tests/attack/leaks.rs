//! Programs that leak what they were given, or use it in the worst place.

use std::mem::forget;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::Source;
use ecru::coroutine::Generator;
use ecru_fleet::{Fleet, Job, LeaseLost, Queue, Run, SendError, Sent};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, native, next, panic_of, panic_quietly, served, until,
};

#[test]
fn everything_is_leaked_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        for n in 0..10 {
            queue.send(n)?;
        }
        let jobs = queue.jobs(2)?;
        forget(jobs.recv()?);
        // The window has one place left.
        let job = jobs.recv()?;
        assert!(jobs.recv_timeout(SOON).is_err());
        job.bury("no")?;
        forget(queue.dead()?.recv()?);
        forget(queue.dead()?);
        forget(queue.begin_send(10));
        forget(jobs);
        let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).open()?;
        forget(echo.map("endless", 0..)?);
        forget(echo.map("endless too", 0..)?.results());
        forget(echo);
        forget((queue.clone(), queue, fleet.clone()));
        Ok(())
    });
}

#[test]
fn a_leaked_receiver_holds_its_jobs_until_the_end() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        for n in 0..3 {
            queue.send(n)?;
        }
        forget(queue.jobs(2)?);
        until(|| queue.stats().unwrap().running == 2);
        ecru::sleep(1000 * SECOND).unwrap();
        let stats = queue.stats()?;
        assert_eq!((stats.queued, stats.running, stats.redelivered), (1, 2, 0));
        Ok(())
    });
}

#[test]
fn a_job_that_goes_to_another_task_and_to_a_thread() {
    native(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        let done = AtomicU32::new(0);
        let (give, take) = ecru::channel::bounded::<Job<u32>>(4);
        for n in 0..100 {
            queue.send(n)?;
        }
        ecru::scope(|s| {
            for task in 0..4 {
                let (take, done) = (take.clone(), &done);
                s.spawn(move || {
                    for job in take {
                        let finish = || {
                            assert_eq!(job.run(|n| *n), Ok(*job));
                            job.done().unwrap();
                            done.fetch_add(1, Ordering::Relaxed);
                        };
                        match task {
                            0 => ecru::unblock(|| std::thread::scope(|t| drop(t.spawn(finish)))),
                            1 => ecru::unblock(finish),
                            _ => finish(),
                        }
                    }
                });
            }
            for job in queue.jobs(8).unwrap().iter().take(100) {
                give.send(job).unwrap();
            }
            drop(give);
        });
        assert_eq!(done.into_inner(), 100);
        assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        Ok(())
    });
}

#[test]
fn everything_is_used_after_the_run() {
    let left = Mutex::new(None);
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::local(s).queue::<u32>("n").open().unwrap();
            for n in 0..4 {
                queue.send(n).unwrap();
            }
            let jobs = queue.jobs(4).unwrap();
            let held: Vec<_> = jobs.iter().take(3).collect();
            queue.send_keyed("dead", 7).unwrap();
            let begun = queue.begin_send(8);
            *left.lock().unwrap() = Some((queue, jobs, held, begun));
        });
    });
    let (queue, jobs, mut held, begun) = left.into_inner().unwrap().unwrap();
    assert!(matches!(queue.send(1), Err(SendError::Disconnected(1))));
    assert!(matches!(queue.begin_send(1).wait(), Ok(Err(SendError::Disconnected(1)))));
    let id = begun.id().clone();
    assert!(matches!(begun.wait(), Ok(Ok(Sent::New(new))) if new == id));
    let job = held.pop().unwrap();
    assert_eq!(job.run(|_| ()), Err(LeaseLost::Disconnected));
    job.done().unwrap_err();
    held.pop().unwrap().retry_after(Duration::MAX).unwrap_err();
    held.pop().unwrap().bury("late").unwrap_err();
    assert!(jobs.recv().is_err());
    // Another run does not bring it back.
    ecru::run(|| {
        ecru::scope(|s| {
            let other = Fleet::local(s).queue::<u32>("n").open().unwrap();
            assert_eq!(other.stats().unwrap().queued, 0);
            assert!(queue.stats().is_err() && jobs.try_recv().is_err());
        });
    });
}

/// Uses everything when it is dropped, and says whether the job was done.
struct LastWords<'a>(Option<Job<u32>>, Queue<u32>, &'a AtomicU32);

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        let _ = self.1.send(100);
        let _ = self.1.stats();
        drop(self.1.begin_send(101));
        let _ = self.1.jobs(1).map(|jobs| jobs.try_recv());
        let job = self.0.take().unwrap();
        let _ = job.run(|_| ecru::sleep(SOON));
        if job.done().is_ok() {
            self.2.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_destructor_that_settles_during_a_panic() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        queue.send_keyed("seven", 7)?;
        let (job, done) = (next(&queue)?, AtomicU32::new(0));
        let text = panic_of(|| {
            let _last = LastWords(Some(job), queue.clone(), &done);
            panic_quietly("on purpose");
        });
        assert_eq!(text.unwrap_err(), "on purpose");
        assert_eq!(done.into_inner(), 1);
        assert!(matches!(queue.send_keyed("seven", 8)?, Sent::New(_)));
        Ok(())
    });
}

#[test]
fn a_task_that_panics_with_everything_in_its_hands() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        for n in 0..4 {
            queue.send(n)?;
        }
        ecru::scope(|s| {
            let task = s.spawn(|| {
                let jobs = queue.jobs(4).unwrap();
                let _job = jobs.recv().unwrap();
                let _sending = queue.begin_send(4);
                panic_quietly("on purpose");
            });
            assert!(task.join().is_err());
        });
        let mut seen = Vec::new();
        for job in queue.jobs(2)?.iter().take(5) {
            seen.push(*job);
            job.done()?;
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        Ok(())
    });
}

#[test]
fn jobs_in_a_coroutine_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        for n in 0..20 {
            queue.send(n)?;
        }
        let own = queue.clone();
        let mut numbers = Generator::new(move |yielder| {
            for job in own.jobs(3).unwrap() {
                let number = job.run(|number| ecru::yield_now().map(|()| *number));
                job.done().unwrap();
                yielder.suspend(number.unwrap().unwrap());
            }
        });
        let mut seen: Vec<_> = numbers.by_ref().take(10).collect();
        // It holds a receiver, and perhaps a job. Dropping it gives them back.
        drop(numbers);
        for job in queue.jobs(3)?.iter().take(10) {
            seen.push(*job);
            job.done()?;
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
        Ok(())
    });
}

#[test]
fn a_coroutine_that_suspends_while_its_job_runs() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").retry(RETRY).open()?;
        queue.send_keyed("a", 7)?;
        let job = next(&queue)?;
        let mut inside = Generator::new(move |yielder| {
            let _ = job.run(|number| yielder.suspend(*number));
        });
        // It could be resumed by another task, which the lease does not cancel.
        let text = panic_of(|| inside.next()).unwrap_err();
        assert!(text.contains("suspend"), "{text}");
        drop(inside);
        let job = next(&queue)?;
        assert!(*job == 7 && job.attempt() >= 2);
        job.done()?;
        Ok(())
    });
}

#[test]
fn losing_arms_of_a_select_slow() {
    both(|fleet| {
        let (left, right) =
            (fleet.queue::<u32>("left").open()?, fleet.queue::<u32>("right").open()?);
        let (lefts, rights) = (left.jobs(2)?, right.jobs(2)?);
        let (mut seen, mut stored) = ([0; 2], 0);
        for n in 0..10 {
            left.send(n)?;
            right.send(n)?;
        }
        while seen[0] + seen[1] < 20 {
            let sending = left.begin_send(1000);
            ecru::select! {
                recv(lefts) -> job => {
                    let job = job?;
                    seen[0] += u32::from(*job < 1000);
                    job.done()?;
                },
                recv(rights) -> job => {
                    job?.done()?;
                    seen[1] += 1;
                },
                wait(&sending) -> sent => {
                    assert!(matches!(sent?.unwrap(), Sent::New(_)));
                    stored += 1;
                },
                default(LONG) => panic!("{seen:?} {stored}"),
            }
        }
        // On a server a job may be there before each answer.
        while stored < 20 {
            assert!(matches!(left.begin_send(1000).wait()?.unwrap(), Sent::New(_)));
            stored += 1;
        }
        assert_eq!(seen, [10, 10]);
        Ok(())
    });
}

/// - given: a job whose sending has begun, and whose outcome was taken
/// - when: the outcome is waited for again
/// - then: nothing comes, and nothing panics
#[test]
fn fleet_209_one_item() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let sending = queue.begin_send(1);
        assert!(matches!(sending.wait()?, Ok(Sent::New(_))));
        // It has one item, and no other one.
        let again = ecru::timeout(10 * SOON, || sending.wait());
        assert!(!matches!(again, Ok(Ok(Ok(Sent::New(_))))), "{again:?}");
        assert_eq!(queue.stats()?.queued, 1);
        Ok(())
    });
}

/// - given: a job in `run` inside a shield, at the time when its lease is renewed
/// - when: it is cancelled
/// - then: the waits inside are cancelled, and `run` returns `LeaseLost::Cancelled`
#[test]
fn fleet_215_cancelled_at_a_renewal() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(7)?;
        let job = next(&queue)?;
        let lost = ecru::timeout(SECOND, || {
            ecru::shield(|| {
                job.run(|_| {
                    // The timeout is not felt in here, but the loss of the lease is.
                    ecru::sleep(10 * SECOND).unwrap();
                    assert!(queue.cancel(job.id()).unwrap());
                    ecru::sleep(Duration::MAX).unwrap_err();
                    ecru::shield(|| ecru::sleep(SECOND)).unwrap();
                })
            })
        });
        // The value, or the deadline: what counts is that it ended.
        assert!(matches!(lost, Ok(Err(LeaseLost::Cancelled)) | Err(_)), "{lost:?}");
        assert_eq!(job.run(|n| *n), Err(LeaseLost::Cancelled));
        job.done().unwrap_err();
        Ok(())
    });
}

#[test]
fn a_job_that_runs_in_a_job_that_runs() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_keyed("outer", 1)?;
        queue.send_keyed("inner", 2)?;
        let jobs = queue.jobs(2)?;
        let (outer, inner) = (jobs.recv()?, jobs.recv()?);
        let result = outer.run(|_| {
            let inside = inner.run(|_| {
                let twice = outer.run(|_| inner.run(|_| ecru::sleep(SOON)));
                assert_eq!(twice, Ok(Ok(Ok(()))));
                queue.cancel(inner.id()).unwrap();
                ecru::sleep(Duration::MAX)
            });
            assert_eq!(inside, Err(LeaseLost::Cancelled));
            // Only the waits inside of the inner one were cancelled.
            ecru::sleep(SOON)
        });
        assert_eq!(result, Ok(Ok(())));
        outer.done()?;
        Ok(())
    });
}

#[test]
fn a_job_that_many_tasks_run_slow() {
    native(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        for round in 0..20 {
            queue.send(round)?;
            let job = next(&queue)?;
            let begun = AtomicU32::new(0);
            ecru::scope(|s| {
                let running: Vec<_> = (0..8)
                    .map(|_| {
                        s.spawn(|| {
                            job.run(|_| {
                                begun.fetch_add(1, Ordering::SeqCst);
                                ecru::sleep(Duration::MAX)
                            })
                        })
                    })
                    .collect();
                // Some may begin after the job was cancelled.
                crate::support::reaches(&begun, round % 8);
                assert!(queue.cancel(job.id()).unwrap());
                for task in running {
                    assert_eq!(task.join().unwrap(), Err(LeaseLost::Cancelled));
                }
            });
        }
        Ok(())
    });
}

#[test]
fn a_function_that_leaks_and_never_looks_at_its_cancellation() {
    local(|fleet| {
        let stubborn = fleet.function("stubborn", |n: u32, run: &Run| {
            forget(Box::new(run.clone()));
            let _ = ecru::sleep(SECOND);
            let _ = ecru::sleep(SECOND);
            Ok(n)
        });
        let stubborn = stubborn.open()?;
        served(&stubborn, 1, || {
            let called = ecru::timeout(SECOND / 2, || stubborn.call(1));
            assert!(called.is_err(), "{called:?}");
            assert_eq!(stubborn.call(2).unwrap(), 2);
        });
        Ok(())
    });
}

/// Asks its queue when it is dropped.
#[derive(serde::Serialize, serde::Deserialize)]
struct Curious(u32);

static CURIOUS: Mutex<Option<Queue<Curious>>> = Mutex::new(None);

impl Drop for Curious {
    fn drop(&mut self) {
        let Some(queue) = CURIOUS.lock().unwrap().clone() else { return };
        // Only the first generation, so that it ends.
        if self.0 == 0 {
            let _ = queue.stats();
            let _ = queue.cancel(&ecru_fleet::JobId::from_key("none").unwrap());
            let _ = queue.send(Curious(1));
        }
    }
}

#[test]
fn jobs_that_use_their_queue_when_they_are_dropped() {
    local(|fleet| {
        let queue = fleet.queue::<Curious>("n").retry(RETRY).open()?;
        *CURIOUS.lock().unwrap() = Some(queue.clone());
        for _ in 0..4 {
            queue.send(Curious(0))?;
        }
        let jobs = queue.jobs(3)?;
        drop(jobs.recv()?);
        until(|| queue.stats().unwrap().running >= 3);
        drop(jobs);
        drop(queue.begin_send(Curious(0)));
        next(&queue)?.bury("no")?;
        drop(queue.dead()?.recv()?);
        *CURIOUS.lock().unwrap() = None;
        Ok(())
    });
}

#[test]
fn two_fleets_in_memory_share_nothing() {
    local(|fleet| {
        ecru::scope(|s| {
            let other = Fleet::local(s);
            let (here, there) =
                (fleet.queue::<u32>("n").open()?, other.queue::<u32>("n").limit(1).open()?);
            here.send_keyed("a", 1)?;
            assert!(matches!(there.send_keyed("a", 2)?, Sent::New(_)));
            assert_eq!(*next(&here)?, 1);
            Ok(())
        })
    });
}
