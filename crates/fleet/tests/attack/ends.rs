//! Scopes that end, and tasks that are cancelled, at the worst moment.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::{Source, sim};
use ecru_fleet::{CallError, Fleet, LeaseLost, Run, SendError};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, native, panic_of, panic_quietly, reaches, real, served,
    until,
};

#[test]
fn a_scope_that_ends_with_thousands_of_leases_slow() {
    native(|_| {
        let held = ecru::scope(|s| {
            let queue = Fleet::local(s).queue::<u32>("n").open()?;
            let begun: Vec<_> = (0..5000).map(|n| queue.begin_send(n)).collect();
            begun.into_iter().for_each(drop);
            let jobs = queue.jobs(5000)?;
            until(|| queue.stats().unwrap().running == 5000);
            let held: Vec<_> = jobs.iter().take(1000).collect();
            Ok::<_, io::Error>((held, jobs))
        })?;
        assert!(held.1.recv().is_err());
        Ok(())
    });
}

/// - given: thousands of jobs that a server has handed out, some of which are on their way
/// - when: the scope of the fleet ends
/// - then: those that were not received are handed out again at once
#[test]
fn fleet_213_given_back_at_the_end_slow() {
    real(|server| {
        let url = server.url();
        let open = |fleet: Fleet<'_>| fleet.queue::<u32>("n").lease(LONG).retry(RETRY).open();
        let held = ecru::scope(|s| {
            let queue = open(Fleet::connect(s, &url)?)?;
            let begun: Vec<_> = (0..2000).map(|n| queue.begin_send(n)).collect();
            for sending in begun {
                sending.wait()?.unwrap();
            }
            let jobs = queue.jobs(2000)?;
            until(|| queue.stats().unwrap().running == 2000);
            Ok::<_, io::Error>((jobs.iter().take(10).collect::<Vec<_>>(), jobs))
        })?;
        // The rest was given back at once, though the lease is long. What was received was not
        // waited for.
        ecru::scope(|s| {
            let queue = open(Fleet::connect(s, &url)?)?;
            let jobs = queue.jobs(100)?;
            for _ in 0..1990 {
                ecru::timeout(LONG / 2, || jobs.recv())??.done()?;
            }
            drop(held);
            Ok(())
        })
    });
}

#[test]
fn a_scope_that_panics_with_everything_open_slow() {
    for place in 0..3 {
        local(|_| {
            let text = panic_of(|| {
                ecru::scope(|s| {
                    let fleet = Fleet::local(s);
                    let queue = fleet.queue::<u32>("n").open().unwrap();
                    let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).open().unwrap();
                    for n in 0..5 {
                        queue.send(n).unwrap();
                    }
                    let jobs = queue.jobs(3).unwrap();
                    let own = echo.clone();
                    s.spawn_daemon(move || own.serve(4));
                    let results = echo.map("all", 0..).unwrap();
                    let fails = || {
                        panic_quietly("on purpose");
                    };
                    match place {
                        0 => panic_quietly("on purpose"),
                        1 => drop(s.spawn(fails)),
                        _ => s.spawn_daemon(fails),
                    }
                    drop((jobs, results));
                });
            });
            assert!(text.is_err());
            Ok(())
        });
    }
}

#[test]
fn sends_while_the_scope_ends() {
    local(|_| {
        let (stored, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        ecru::scope(|outer| {
            let queue = ecru::scope(|s| {
                let queue = Fleet::local(s).queue::<u32>("n").open().unwrap();
                for _ in 0..3 {
                    let (queue, stored, refused) = (queue.clone(), &stored, &refused);
                    outer.spawn(move || {
                        loop {
                            match queue.send(1) {
                                Ok(_) => stored.fetch_add(1, Ordering::SeqCst),
                                Err(SendError::Disconnected(1)) => break,
                                Err(error) => panic!("{error}"),
                            };
                            let _ = ecru::sleep(Duration::from_nanos(sim::random_u64() % 3));
                        }
                        refused.fetch_add(1, Ordering::SeqCst);
                    });
                }
                let _ = ecru::sleep(Duration::from_nanos(sim::random_u64() % 100));
                queue
            });
            assert!(queue.stats().is_err());
        });
        assert_eq!(refused.into_inner(), 3);
        Ok(())
    });
}

#[test]
fn jobs_that_run_while_the_scope_ends() {
    local(|_| {
        let ended = AtomicU32::new(0);
        ecru::scope(|outer| {
            ecru::scope(|s| {
                let queue = Fleet::local(s).queue::<u32>("n").open().unwrap();
                for n in 0..6 {
                    queue.send(n).unwrap();
                }
                let jobs = queue.jobs(3).unwrap();
                for _ in 0..3 {
                    let (jobs, ended) = (jobs.clone(), &ended);
                    outer.spawn(move || {
                        let Ok(job) = jobs.recv() else { return };
                        match job.run(|_| ecru::sleep(10 * SECOND)) {
                            // Those inside `run` get their time.
                            Ok(Ok(())) => job.done().unwrap(),
                            Err(LeaseLost::Disconnected) => assert!(job.done().is_err()),
                            other => panic!("{other:?}"),
                        }
                        ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
                until(|| queue.stats().unwrap().running == 3);
            });
        });
        assert!(ended.into_inner() <= 3);
        Ok(())
    });
}

/// Uses every call once. Each may fail.
fn everything() {
    ecru::scope(|s| {
        let fleet = Fleet::local(s);
        let Ok(queue) = fleet.queue::<u32>("n").retry(RETRY).attempts(2).open() else { return };
        let echo = fleet.function("echo", |n: u32, _: &Run| {
            ecru::sleep(SOON)?;
            Ok(n)
        });
        let Ok(echo) = echo.retry(RETRY).open() else { return };
        let own = echo.clone();
        s.spawn(move || {
            let _ = ecru::timeout(SECOND, || own.serve(2));
        });
        let sending = queue.begin_send(3);
        let _ = sending.wait();
        let _ = queue.send_keyed("a", 1);
        if let Ok(jobs) = queue.jobs(2) {
            if let Ok(job) = jobs.recv_timeout(SECOND) {
                let _ = job.run(|_| ecru::sleep(SOON));
                let _ = job.bury("no");
            }
            if let Ok(job) = jobs.recv_timeout(SECOND) {
                let _ = job.retry_after(SOON);
            }
            if let Ok(job) = jobs.recv_timeout(SECOND) {
                let _ = job.done();
            }
        }
        if let Ok(dead) = queue.dead() {
            for dead in dead {
                let _ = dead.revive();
            }
        }
        let _ = queue.pause(SOON);
        let _ = ecru::timeout(SECOND, || echo.call(1));
        let _ = ecru::timeout(SECOND, || echo.call_keyed("k", 2));
        if let Ok(results) = echo.map("m", 0..3) {
            let _ = ecru::timeout(SECOND, || results.count());
        }
        if let Ok(results) = echo.map("m", 0..4) {
            let _ = ecru::timeout(SECOND, || results.results().iter().count());
        }
        // Nothing is lost: what was settled is gone, and the rest can be counted.
        let stats = ecru::shield(|| queue.stats());
        if let Ok(stats) = stats {
            assert!(stats.queued + stats.running + stats.dead <= 2, "{stats:?}");
        }
    });
}

#[test]
fn everything_is_cancelled_everywhere_slow() {
    sim::cancel_everywhere(everything);
}

/// - given: a cancelled task
/// - when: it makes every call of a queue and of a function again and again
/// - then: each is cancelled, except the settling of a job
#[test]
fn fleet_212_cancelled_calls_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(1)?;
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).open()?;
        ecru::cancel_scope(|handle| {
            handle.cancel();
            for _ in 0..50 {
                assert!(matches!(queue.send(2), Err(SendError::Cancelled { .. })));
                assert!(queue.stats().is_err() && queue.dead().is_err());
                assert!(queue.pause(SECOND).is_err() && queue.jobs(1).is_err());
                assert!(matches!(echo.call(1), Err(CallError::Cancelled(_))));
                assert!(matches!(echo.call_keyed("k", 1), Err(CallError::Cancelled(_))));
                assert!(fleet.queue::<u32>("other").open().is_err());
            }
            let mapped = echo.map("m", 0..3).map(Iterator::count);
            assert!(mapped.is_err() || mapped.unwrap() <= 1);
            job.done()
        })?;
        // The calls were cancelled, or never sent. Nothing is served.
        until(|| {
            let stats = echo.stats().unwrap();
            stats.running == 0 && stats.queued <= 4
        });
        Ok(())
    });
}

#[test]
fn a_serve_that_is_cancelled_at_once_and_twice_slow() {
    both(|fleet| {
        let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).retry(RETRY).open()?;
        ecru::scope(|s| {
            let calls = s.spawn(|| ecru::par::map(0..5, |n| echo.call(n).unwrap()));
            for _ in 0..5 {
                let first = s.spawn(|| echo.serve(2));
                let second = s.spawn(|| echo.serve(2));
                first.cancel();
                ecru::yield_now().unwrap();
                second.cancel();
                // One that has not begun is dropped.
                for serving in [first, second] {
                    if let Ok(served) = serving.join() {
                        assert!(
                            served.as_ref().map_or_else(
                                |error| ecru::Cancelled::find(error).is_some(),
                                |()| true
                            ),
                            "{served:?}"
                        );
                    }
                }
            }
            served(&echo, 2, || assert_eq!(calls.join().unwrap(), [0, 1, 2, 3, 4]));
        });
        Ok(())
    });
}

#[test]
fn a_served_function_while_the_scope_is_cancelled() {
    local(|_| {
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            let echo = Fleet::local(s).function("echo", |n: u32, _: &Run| {
                begun.fetch_add(1, Ordering::SeqCst);
                let slept = ecru::sleep(SECOND);
                ended.fetch_add(1, Ordering::SeqCst);
                slept?;
                Ok(n)
            });
            let echo = echo.open().unwrap();
            let own = echo.clone();
            s.spawn(move || own.serve(3));
            for n in 0..5 {
                let own = echo.clone();
                s.spawn(move || own.call(n));
            }
            reaches(&begun, 3);
            s.cancel();
        });
        assert_eq!((begun.into_inner(), ended.into_inner()), (3, 3));
        Ok(())
    });
}
