//! Jobs and results that fail to be written or read, and those of the largest size.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use ecru_fleet::{CallError, JobError, Run, SendError, Sent};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::support::{
    RETRY, both, local, next, panic_of, panic_quietly, served, twice, until_dead,
};

/// What writing or reading it does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moody {
    Fine,
    FailsToBeWritten,
    PanicsWhenWritten,
    FailsToBeRead,
    PanicsWhenRead,
}
use Moody::{FailsToBeRead, FailsToBeWritten, Fine, PanicsWhenRead, PanicsWhenWritten};

impl Serialize for Moody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FailsToBeWritten => Err(serde::ser::Error::custom("it will not be written")),
            PanicsWhenWritten => panic_quietly("while it is written"),
            _ => serializer.serialize_u8(*self as u8),
        }
    }
}

impl<'de> Deserialize<'de> for Moody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moody, D::Error> {
        let mood = u8::deserialize(deserializer)?;
        if mood == FailsToBeRead as u8 {
            return Err(serde::de::Error::custom("it will not be read"));
        }
        if mood == PanicsWhenRead as u8 {
            panic_quietly("while it is read");
        }
        Ok(Fine)
    }
}

#[test]
fn jobs_that_cannot_be_written() {
    both(|fleet| {
        let queue = fleet.queue::<Moody>("n").open()?;
        match queue.send(FailsToBeWritten) {
            Err(SendError::Refused { job: FailsToBeWritten, error }) => {
                assert!(error.to_string().contains("it will not be written"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let text = panic_of(|| queue.send(PanicsWhenWritten)).unwrap_err();
        assert_eq!(text, "while it is written");
        let text = panic_of(|| drop(queue.begin_send(PanicsWhenWritten))).unwrap_err();
        assert_eq!(text, "while it is written");
        assert_eq!(queue.stats()?.queued, 0);
        queue.send(Fine)?;
        next(&queue)?.done()?;
        Ok(())
    });
}

#[test]
fn maps_with_keys_that_json_does_not_have() {
    local(|fleet| {
        let queue = fleet.queue::<HashMap<(u8, u8), u8>>("n").open()?;
        let refused = queue.send(HashMap::from([((1, 2), 3)]));
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{refused:?}");
        let floats = fleet.queue::<f64>("floats").open()?;
        floats.send(1.5)?;
        assert_eq!(*next(&floats)?, 1.5);
        Ok(())
    });
}

/// - given: two jobs whose type fails to be read, one of them by a panic, and another job
/// - when: they are received
/// - then: both go to the dead, with the text of the error or of the panic, and the other job is
///   handed out
#[test]
fn fleet_202_a_panic_while_a_job_is_read_slow() {
    both(|fleet| {
        let queue = fleet.queue::<Moody>("n").retry(RETRY).open()?;
        queue.send_keyed("fails", FailsToBeRead)?;
        queue.send_keyed("panics", PanicsWhenRead)?;
        queue.send_keyed("fine", Fine)?;
        let job = next(&queue)?;
        assert_eq!(job.id().as_str(), "fine");
        job.done()?;
        let jobs = queue.jobs(3)?;
        until_dead(&queue, 2);
        drop(jobs);
        // They can be looked at, and removed, though no one can read them.
        let mut seen = Vec::new();
        for dead in queue.dead()? {
            assert_eq!(dead.job(), None);
            seen.push((dead.id().to_string(), dead.reason().to_owned()));
            dead.discard()?;
        }
        seen.sort();
        assert_eq!((&*seen[0].0, &*seen[1].0), ("fails", "panics"));
        assert!(seen[0].1.contains("it will not be read"), "{seen:?}");
        assert!(seen[1].1.contains("while it is read"), "{seen:?}");
        assert_eq!(queue.stats()?.dead, 0);
        Ok(())
    });
}

/// - given: arguments and results that fail or panic when they are written or read
/// - when: functions are called with them
/// - then: the callers get errors, and the functions are still served
#[test]
fn fleet_203_a_panic_while_a_result_is_written_slow() {
    both(|fleet| {
        let moods = [Fine, FailsToBeWritten, PanicsWhenWritten, FailsToBeRead, PanicsWhenRead];
        let echo = fleet.function("echo", move |n: usize, _: &Run| Ok(moods[n])).attempts(2);
        let echo = echo.retry(RETRY).open()?;
        let takes = fleet.function("takes", |_: Moody, _: &Run| Ok(7)).attempts(2).retry(RETRY);
        let takes = takes.open()?;
        served(&echo, 2, || {
            served(&takes, 2, || {
                for (n, mood) in moods.into_iter().enumerate().skip(1) {
                    let result = panic_of(|| echo.call(n));
                    assert!(!matches!(result, Ok(Ok(_))), "{n}: {result:?}");
                    let result = panic_of(|| takes.call(mood));
                    assert!(!matches!(result, Ok(Ok(_))), "{n}: {result:?}");
                    assert_eq!(echo.call(0).unwrap(), Fine);
                    assert_eq!(takes.call(Fine).unwrap(), 7);
                }
            });
        });
        Ok(())
    });
}

#[test]
fn maps_whose_results_cannot_be_written_or_read_slow() {
    both(|fleet| {
        let moods = [Fine, FailsToBeWritten, PanicsWhenWritten, FailsToBeRead, PanicsWhenRead];
        let echo = fleet.function("echo", move |n: usize, _: &Run| Ok(moods[n])).attempts(2);
        let echo = echo.retry(RETRY).open()?;
        served(&echo, 2, || {
            let results = echo.map("moods", [1, 2, 3, 4, 0]).unwrap();
            let results: Vec<_> = results.map(|result| result.is_ok()).collect();
            assert_eq!(results, [false, false, false, false, true]);
        });
        Ok(())
    });
}

/// - given: items that fail or panic when they are written or read, and one that does not
/// - when: a function is mapped over them
/// - then: each index has an error, and the last one a result
#[test]
fn fleet_205_items_that_cannot_be_written() {
    both(|fleet| {
        let takes = fleet.function("takes", |_: Moody, _: &Run| Ok(7)).attempts(2).retry(RETRY);
        let takes = takes.open()?;
        served(&takes, 2, || {
            let items = [FailsToBeWritten, FailsToBeRead, PanicsWhenRead, PanicsWhenWritten, Fine];
            let results = takes.map("moods", items).unwrap();
            let results: Vec<_> = results.map(|result| result.is_ok()).collect();
            assert_eq!(results, [false, false, false, false, true]);
        });
        Ok(())
    });
}

/// Returns the longest text that can be sent.
fn longest(send: impl Fn(String) -> bool) -> usize {
    let (mut fits, mut does_not) = (1 << 19, 1 << 20);
    while does_not - fits > 1 {
        let middle = usize::midpoint(fits, does_not);
        *if send("x".repeat(middle)) { &mut fits } else { &mut does_not } = middle;
    }
    fits
}

#[test]
fn the_largest_job_slow() {
    twice(|fleet| {
        let queue = fleet.queue::<String>("n").open()?;
        let jobs = queue.jobs(1)?;
        let length = longest(|text| {
            let sent = match queue.send(text) {
                Ok(_) => true,
                Err(SendError::Refused { error, .. }) => {
                    assert!(error.to_string().contains("elsewhere"), "{error}");
                    false
                }
                Err(error) => panic!("{error}"),
            };
            if sent {
                jobs.recv().unwrap().done().unwrap();
            }
            sent
        });
        assert!(length > (1 << 20) - 2048, "{length}");
        // Whatever can be sent can go through everything else.
        for (key, why) in
            [("x".repeat(512), "€".repeat(5000)), ("\0".repeat(170), "\0".repeat(5000))]
        {
            queue.send_keyed(&key, "x".repeat(length))?;
            let job = jobs.recv()?;
            assert_eq!((job.len(), job.id().as_str()), (length, &*key));
            job.bury(&why)?;
            let dead = queue.dead()?.recv()?;
            assert_eq!(dead.job().map(String::len), Some(length));
            assert!(why.starts_with(dead.reason()));
            dead.revive()?;
            let job = jobs.recv()?;
            assert_eq!(job.len(), length);
            drop(job);
            let job = jobs.recv()?;
            assert_eq!((job.len(), job.attempt()), (length, 2));
            job.done()?;
        }
        Ok(())
    });
}

/// - given: a function that returns its argument
/// - when: it is called with ever larger texts
/// - then: the result comes, or an error after the first attempt that says that it is too large
#[test]
fn fleet_211_the_largest_result_slow() {
    twice(|fleet| {
        let echo = fleet.function("echo", |text: String, _: &Run| Ok(text)).attempts(2);
        let echo = echo.retry(RETRY).open()?;
        served(&echo, 1, || {
            let call = |text: String| {
                let length = text.len();
                match echo.call(text) {
                    Ok(result) => {
                        assert_eq!(result.len(), length);
                        true
                    }
                    Err(CallError::Failed { reason, .. }) => {
                        assert!(
                            reason.contains("elsewhere") || reason.contains("refused"),
                            "{reason}"
                        );
                        false
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("elsewhere"), "{error}");
                        false
                    }
                }
            };
            let length = longest(call);
            assert!(length > (1 << 20) - 2048, "{length}");
            let key = "\0".repeat(100);
            let result = echo.call_keyed(&key, "x".repeat(length)).unwrap();
            assert_eq!(result.len(), length);
            let results = echo.map("\0\0\0", ["x".repeat(length), "y".into()]).unwrap();
            let results: Result<Vec<_>, _> = results.collect();
            assert_eq!(results.unwrap()[0].len(), length);
        });
        Ok(())
    });
}

#[test]
fn a_failure_with_the_longest_text_slow() {
    twice(|fleet| {
        let fails = fleet.function("fails", |text: String, _: &Run| -> Result<(), JobError> {
            Err(JobError::Fatal(text.into()))
        });
        let fails = fails.open()?;
        served(&fails, 1, || {
            for text in ["€".repeat(300_000), "\0".repeat(150_000), "\"".repeat(500_000)] {
                match fails.call(text.clone()) {
                    Err(CallError::Failed { reason, attempts: 1 }) => {
                        assert!(reason.len() >= 1000 && text.starts_with(&reason));
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
        Ok(())
    });
}

#[test]
fn texts_that_are_hard_to_write_slow() {
    both(|fleet| {
        let queue = fleet.queue::<(String, Option<()>, Vec<()>, u128, i128)>("n").open()?;
        for text in ["", "\0", "\u{10ffff}", "\"}", "{\"v\":2}", "\r\n+OK\r\n", "\u{feff}"] {
            let job = (text.to_owned(), None, vec![(); 3], u128::MAX, i128::MIN);
            queue.send(job.clone())?;
            let received = next(&queue)?;
            assert_eq!(*received, job);
            received.done()?;
        }
        let units = fleet.queue::<()>("units").open()?;
        units.send(())?;
        next(&units)?.done()?;
        Ok(())
    });
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Old {
    name: String,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct New {
    name: String,
    size: u32,
}

/// - given: a receiver whose release cannot read a job, which was dropped, and the job among the
///   dead
/// - when: the job is revived, and received by a release that can read it
/// - then: the dropped receiver does not bury it
#[test]
fn fleet_214_a_receiver_that_is_gone_slow() {
    both(|fleet| {
        let (old, new) = (fleet.queue::<Old>("n").open()?, fleet.queue::<New>("n").open()?);
        let job = || Old { name: "ann".into() };
        assert!(matches!(old.send_keyed("a", job())?, Sent::New(_)));
        let jobs = new.jobs(2)?;
        until_dead(&new, 1);
        drop(jobs);
        let dead = new.dead()?.recv()?;
        assert_eq!(dead.job(), None);
        assert!(dead.reason().contains("size"), "{}", dead.reason());
        // A release that can read it gets it as it was.
        dead.revive()?;
        let job = next(&old)?;
        assert_eq!(job.name, "ann");
        job.done()?;
        assert_eq!(old.stats()?, ecru_fleet::Stats::default());
        Ok(())
    });
}

#[test]
fn a_function_that_returns_another_type_elsewhere_slow() {
    both(|fleet| {
        let here = fleet.function("f", |_: u32, _: &Run| Ok("text".to_owned())).open()?;
        let there = fleet.function("f", |n: u32, _: &Run| Ok(n)).open()?;
        served(&here, 2, || {
            let error = there.call(1).unwrap_err();
            assert!(matches!(error, CallError::Io(_)), "{error:?}");
            assert!(there.call_keyed("k", 1).is_err());
            assert_eq!(here.call_keyed("k", 1).unwrap(), "text");
            let results: Vec<_> = there.map("m", 0..3).unwrap().collect();
            assert!(results.len() == 3 && results.iter().all(Result::is_err), "{results:?}");
        });
        Ok(())
    });
}

/// Panics when it is dropped while this is set.
static FRAGILE: AtomicBool = AtomicBool::new(false);

#[derive(Serialize, Deserialize, Debug)]
struct Fragile(u32);

impl Drop for Fragile {
    fn drop(&mut self) {
        if FRAGILE.swap(false, Ordering::SeqCst) {
            panic_quietly("while it is dropped");
        }
    }
}

#[test]
fn jobs_that_panic_when_they_are_dropped_slow() {
    both(|fleet| {
        let queue = fleet.queue::<Fragile>("n").retry(RETRY).open()?;
        queue.send(Fragile(1))?;
        let job = next(&queue)?;
        FRAGILE.store(true, Ordering::SeqCst);
        assert!(panic_of(|| drop(job)).is_err());
        let job = next(&queue)?;
        FRAGILE.store(true, Ordering::SeqCst);
        let _ = panic_of(|| job.done());
        assert!(!FRAGILE.load(Ordering::SeqCst));
        let jobs = queue.jobs(1)?;
        // Whether it was done or given back, it is not lost between the two.
        if queue.stats()?.running + queue.stats()?.queued > 0 {
            jobs.recv()?.done()?;
        }
        queue.send(Fragile(2))?;
        assert_eq!(jobs.recv()?.0, 2);
        Ok(())
    });
}
