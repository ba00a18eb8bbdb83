//! The worst arguments that a caller can pass.

use std::io::ErrorKind;
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{JobError, JobId, Run, SendError, Sent};

use crate::support::{RETRY, SECOND, SOON, both, local, next, served, until};

#[test]
fn names_that_are_commands_slow() {
    both(|fleet| {
        let long = "x".repeat(10_000);
        for name in [
            "",
            " ",
            "a b",
            "a.b",
            "*",
            ">",
            "a>",
            "$JS",
            "../a",
            "a/b",
            "a\0",
            "a\nb",
            "a\r\nPUB x",
            "\u{202e}a",
            "é",
            "=",
            "a=b",
            "\u{10ffff}",
            &long,
            &long[..63],
        ] {
            let error = fleet.queue::<u32>(name).open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}: {error}");
            let function = fleet.function(name, |n: u32, _: &Run| Ok(n)).open();
            assert_eq!(function.err().unwrap().kind(), ErrorKind::InvalidInput, "{name:?}");
        }
        Ok(())
    });
}

#[test]
fn names_that_are_nearly_the_same_slow() {
    both(|fleet| {
        let longest = "x".repeat(62);
        let names = ["a", "A", "-", "_", "--", "__", "q_a", "f_a", "a_dead", "dead-a", &longest];
        let queues: Vec<_> =
            names.iter().map(|name| fleet.queue::<usize>(name).open().unwrap()).collect();
        for (n, queue) in queues.iter().enumerate() {
            queue.send_keyed("key", n)?;
        }
        let function = fleet.function("a", |n: usize, _: &Run| Ok(n + 100)).open()?;
        assert_eq!(served(&function, 1, || function.call_keyed("key", 1)).unwrap(), 101);
        for (n, queue) in queues.iter().enumerate() {
            let job = next(queue)?;
            assert_eq!((*job, queue.name()), (n, names[n]));
            job.bury(names[n])?;
            assert_eq!(queue.stats()?.dead, 1);
        }
        Ok(())
    });
}

#[test]
fn keys_that_are_commands_slow() {
    both(|fleet| {
        let queue = fleet.queue::<usize>("n").open()?;
        let (long, spaces, umlauts) = ("x".repeat(512), " ".repeat(170), "ä".repeat(85));
        let keys = [
            " ",
            "  ",
            ".",
            "..",
            "*",
            ">",
            "=",
            "==",
            "=20",
            "=2",
            "=zz",
            "\0",
            "\r\nPUB x 0\r\n",
            "$JS.API.>",
            "a.b",
            "a b",
            "A",
            "a",
            "é",
            "e\u{301}",
            "\u{10ffff}",
            "\u{feff}",
            "%20",
            "null",
            "-",
            "_",
            &long,
            &spaces,
            &umlauts,
        ];
        for (n, key) in keys.iter().enumerate() {
            let id = JobId::from_key(key)?;
            assert_eq!(queue.send_keyed(key, n)?, Sent::New(id), "{key:?}");
            assert_eq!(queue.send_keyed(key, n)?, Sent::Already, "{key:?}");
        }
        assert_eq!(queue.stats()?.queued, keys.len() as u64);
        let jobs = queue.jobs(3)?;
        for job in jobs.iter().take(keys.len()) {
            assert_eq!(job.id().as_str(), keys[*job]);
            job.bury("seen")?;
        }
        drop(jobs);
        for dead in queue.dead()? {
            assert_eq!(dead.id().as_str(), keys[*dead.job().unwrap()]);
            dead.revive()?;
        }
        for key in keys {
            assert!(queue.cancel(&JobId::from_key(key)?)?, "{key:?}");
        }
        assert_eq!(queue.stats()?, ecru_fleet::Stats::default());
        for key in ["", &"x".repeat(513), &" ".repeat(171), &"ä".repeat(86)] {
            assert_eq!(JobId::from_key(key).unwrap_err().kind(), ErrorKind::InvalidInput);
            let refused = queue.send_keyed(key, 1);
            assert!(matches!(refused, Err(SendError::Refused { job: 1, .. })), "{refused:?}");
        }
        Ok(())
    });
}

#[test]
fn a_key_that_is_the_id_of_another_job() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let Sent::New(id) = queue.send(1)? else { panic!("a new id") };
        assert_eq!(queue.send_keyed(id.as_str(), 2)?, Sent::Already);
        assert_eq!(queue.send_again(&id, 3)?, Sent::Already);
        assert_eq!(*next(&queue)?, 1);
        Ok(())
    });
}

#[test]
fn durations_without_end_slow() {
    both(|fleet| {
        for lease in [Duration::MAX, Duration::from_nanos(1), Duration::ZERO] {
            let error = fleet.queue::<u32>("n").lease(lease).open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{lease:?}");
        }
        let max = Duration::MAX;
        for (n, delay) in [
            Delay::Constant(max),
            Delay::Backoff { start: max, max, mult: u32::MAX },
            Delay::Backoff { start: Duration::ZERO, max, mult: 0 },
            Delay::Decorrelated { start: max, max, mult: u32::MAX },
            Delay::Decorrelated { start: SECOND, max: Duration::ZERO, mult: 0 },
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("n{n}");
            let limited = fleet.queue::<u32>(&name).limit(1).retry(delay).open();
            let stalls = !matches!(n, 4);
            assert!(!stalls || limited.is_err(), "{limited:?}");
            let queue = fleet.queue::<u32>(&format!("free{n}")).retry(delay).open()?;
            queue.send_keyed("a", 1)?;
            drop(next(&queue)?);
            assert_eq!(queue.send_keyed("a", 2)?, Sent::Already);
            assert_eq!(queue.stats()?.queued + queue.stats()?.running, 1);
            assert!(queue.cancel(&JobId::from_key("a")?)?);
        }
        Ok(())
    });
}

/// - given: pauses that no clock can count
/// - when: jobs are returned by `retry_after` with them
/// - then: they wait, as in any long pause
#[test]
fn fleet_206_the_longest_pause_before_a_retry_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        let jobs = queue.jobs(2)?;
        for d in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)] {
            queue.send_keyed("late", 1)?;
            let job = jobs.recv()?;
            assert_eq!(*job, 1);
            job.retry_after(d)?;
            queue.send(2)?;
            let job = jobs.recv()?;
            assert_eq!(*job, 2, "the pause of {d:?} had no effect");
            job.done()?;
            assert!(queue.cancel(&JobId::from_key("late")?)?);
        }
        Ok(())
    });
}

/// - given: pauses that no clock can count
/// - when: the queue is paused for as long
/// - then: no job is handed out until the pause is ended
#[test]
fn fleet_207_the_longest_pause_of_a_queue_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.pause(Duration::ZERO)?;
        queue.send(1)?;
        next(&queue)?.done()?;
        for d in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)] {
            queue.pause(d)?;
            queue.send(2)?;
            let jobs = queue.jobs(1)?;
            assert!(jobs.recv_timeout(10 * SOON).is_err());
            queue.pause(Duration::ZERO)?;
            jobs.recv()?.done()?;
        }
        queue.pause(Duration::from_nanos(1))?;
        queue.send(3)?;
        next(&queue)?.done()?;
        Ok(())
    });
}

#[test]
fn windows_without_end() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send(1)?;
        let jobs = queue.jobs(usize::MAX)?;
        jobs.recv()?.done()?;
        drop(jobs);
        let double = fleet.function("double", |n: u32, _: &Run| Ok(2 * n)).open()?;
        assert_eq!(double.serve(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(served(&double, usize::MAX, || double.call(4)).unwrap(), 8);
        Ok(())
    });
}

#[test]
fn settings_without_end() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(u32::MAX).capacity(u64::MAX).retry(RETRY);
        // The server may refuse what it cannot count.
        if let Ok(queue) = queue.open() {
            queue.send(1)?;
            next(&queue)?.done()?;
        }
        let queue = fleet.queue::<u32>("m").limit(usize::MAX).retry(RETRY);
        if let Ok(queue) = queue.open() {
            queue.send(1)?;
            next(&queue)?.done()?;
        }
        // In memory there is nothing to replicate.
        let _ = fleet.queue::<u32>("o").replicas(usize::MAX).open();
        Ok(())
    });
}

#[test]
fn one_attempt() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").attempts(1).retry(RETRY).open()?;
        queue.send(1)?;
        let jobs = queue.jobs(1)?;
        drop(jobs.recv()?);
        until(|| queue.stats().unwrap().dead == 1);
        assert!(jobs.try_recv().is_err());
        let once = fleet.function("once", |_: u32, _: &Run| -> Result<u32, JobError> {
            Err(JobError::RetryAfter(Duration::MAX, "never again".into()))
        });
        let once = once.attempts(1).open()?;
        let error = served(&once, 1, || once.call(1)).unwrap_err();
        assert!(error.to_string().contains("never again"), "{error}");
        Ok(())
    });
}

#[test]
fn a_function_that_retries_at_the_end_of_time_slow() {
    local(|fleet| {
        let later = fleet.function("later", |n: u32, run: &Run| match run.attempt() {
            1 => Err(JobError::RetryAfter(Duration::MAX, "much later".into())),
            _ => Ok(n),
        });
        let later = later.open()?;
        served(&later, 1, || {
            let called = ecru::timeout(1000 * SECOND, || later.call(1));
            assert!(called.is_err(), "{called:?}");
            until(|| later.stats().unwrap() == ecru_fleet::Stats::default());
        });
        Ok(())
    });
}

/// - given: results that are to be kept for less than a second, and for ever
/// - when: the function is opened
/// - then: `InvalidInput` for the former; with the latter, calls and maps have their results
#[test]
fn fleet_208_how_long_results_are_kept_slow() {
    for kept in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1), Duration::MAX] {
        both(|fleet| {
            let double = fleet.function("double", |n: u32, _: &Run| Ok(2 * n)).keep_results(kept);
            // It may be refused, but what is opened works.
            let Ok(double) = double.open().map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{kept:?}: {error}");
            }) else {
                return Ok(());
            };
            served(&double, 4, || {
                for n in 0..5 {
                    assert_eq!(double.call(n).unwrap(), 2 * n);
                    assert_eq!(double.call_keyed(&format!("{n}"), n).unwrap(), 2 * n);
                }
                let all: Result<Vec<_>, _> = double.map("all", 0..5).unwrap().collect();
                assert_eq!(all.unwrap(), [0, 2, 4, 6, 8]);
            });
            Ok(())
        });
    }
}

#[test]
fn names_of_runs_slow() {
    both(|fleet| {
        let tag = fleet.function("tag", |text: String, _: &Run| Ok(format!("<{text}>"))).open()?;
        let long = "x".repeat(10_000);
        served(&tag, 8, || {
            for name in ["", &long] {
                let error = tag.map(name, ["a".to_owned()]).err().unwrap();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                let error = tag.call_keyed(name, "a".into()).unwrap_err();
                assert!(!error.to_string().is_empty());
            }
            // None of them has the results of another one.
            let names = [
                "a", "a.", "a.1", "a.1.1", "a1", "a 1", "a-1", "a_1", "a/1", "a:1", "a#1", "1",
                "0", ".", " ", "=", "ä", "\r\n", "*", ">", "map", "map.a", "a\0",
            ];
            for name in names {
                let items = (0..12).map(move |n| format!("{name}|{n}"));
                let results: Result<Vec<_>, _> = tag.map(name, items).unwrap().collect();
                let right: Vec<_> = (0..12).map(|n| format!("<{name}|{n}>")).collect();
                assert_eq!(results.unwrap(), right, "{name:?}");
            }
            for name in names {
                for separator in [".", "/", ":", "-", "_", "#", " ", "", "="] {
                    let key = format!("{name}{separator}1");
                    let result = tag.call_keyed(&key, "key".into()).unwrap();
                    assert_eq!(result, "<key>", "{key:?} has the result of a map");
                }
            }
        });
        Ok(())
    });
}
