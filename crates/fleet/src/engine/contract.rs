//! What every engine keeps, as tests.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ecru_nats::Options;

use super::local;
use super::nats::NatsEngine;
use super::{
    Announced, Changes, Dead, Delivery, Engine, EngineQueue, Pull, QueueSpec, ResultsSpec, Seen,
    Sending, Terms, Watch,
};
use crate::errors::LeaseLost;

#[path = "../../../nats/tests/behaviour/server.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod server;

const LONG: Duration = Duration::from_secs(60);

/// Runs `body` with each engine that can be had here. In memory it runs in simulations.
fn each(body: impl Fn(&dyn Engine) -> io::Result<()> + Send + Sync) {
    ecru::sim::test(|| body(&*local()).unwrap());
    on_a_server(body);
}

/// Runs `body` with the engine on NATS, if a server is installed.
fn on_a_server(body: impl Fn(&dyn Engine) -> io::Result<()>) {
    if let Some(server) = server::Server::start("") {
        ecru::run(|| {
            ecru::scope(|s| {
                let engine = NatsEngine::connect(s, &server.url(), Options::new())?;
                // A job that is lost comes again after its lease, which takes longer.
                ecru::timeout(LONG - LONG / 6, || body(&engine))?
            })
        })
        .unwrap();
    }
}

/// Opens the queue with a long lease and these settings.
fn open(engine: &dyn Engine, settings: Changes) -> io::Result<Box<dyn EngineQueue>> {
    engine.queue("mill", &Changes { lease: settings.lease.or(Some(LONG)), ..settings })
}

fn lease(lease: Duration) -> Changes {
    Changes { lease: Some(lease), ..Changes::default() }
}

fn send(queue: &dyn EngineQueue, id: &str, is_named: bool) -> io::Result<Sending> {
    let sending = is_named.then_some(id);
    Ok(queue
        .begin_send(id, Bytes::copy_from_slice(id.as_bytes()), sending, &Terms::default())?
        .wait()?)
}

fn new(queue: &dyn EngineQueue, id: &str) -> io::Result<()> {
    let sending = send(queue, id, false)?;
    assert!(matches!(sending, Sending::New), "{sending:?}");
    Ok(())
}

fn next(pull: &dyn Pull) -> io::Result<Delivery> {
    Ok(pull.next()?.expect("the pull has not been stopped"))
}

fn claim(job: &Delivery) -> io::Result<()> {
    assert_eq!(job.lease.begin(false)?, job.begun + 1);
    assert!(job.lease.claim()?);
    Ok(())
}

fn done(job: &Delivery) -> io::Result<()> {
    claim(job)?;
    job.lease.done()
}

#[test]
fn ids_are_unique_while_queued_or_held() {
    each(|engine| {
        let queue = open(engine, Changes { capacity: Some(Some(3)), ..Changes::default() })?;
        new(&*queue, "a")?;
        assert!(matches!(send(&*queue, "a", false)?, Sending::Already));
        assert!(matches!(send(&*queue, "b", true)?, Sending::New));
        assert!(matches!(send(&*queue, "b", true)?, Sending::Already));
        new(&*queue, "c")?;
        assert!(matches!(send(&*queue, "d", false)?, Sending::Full));
        assert!(matches!(send(&*queue, "a", false)?, Sending::Already));
        let pull = queue.pull(1)?;
        let held = next(&*pull)?;
        assert_eq!((&*held.id, &held.payload[..], held.delivery), ("a", &b"a"[..], 1));
        assert!(matches!(send(&*queue, "a", false)?, Sending::Already));
        done(&held)?;
        drop(held);
        let second = next(&*pull)?;
        assert_eq!(second.id, "b");
        done(&second)?;
        // A key is free again.
        new(&*queue, "a")
    });
}

#[test]
fn a_sending_is_remembered() {
    on_a_server(|engine| {
        let queue = open(engine, Changes::default())?;
        assert!(matches!(send(&*queue, "a", true)?, Sending::New));
        done(&next(&*queue.pull(1)?)?)?;
        assert!(matches!(send(&*queue, "a", true)?, Sending::Already));
        Ok(())
    });
}

#[test]
fn jobs_are_handed_out_until_they_are_settled() {
    each(|engine| {
        let queue = open(engine, Changes::default())?;
        for id in ["a", "b", "c"] {
            new(&*queue, id)?;
        }
        let pull = queue.pull(3)?;
        let [a, b, c] = [next(&*pull)?, next(&*pull)?, next(&*pull)?];
        assert!(a.sequence < b.sequence && b.sequence < c.sequence);
        assert!(c.received >= a.received && c.received <= ecru::time::now());
        let counts = queue.counts()?;
        assert_eq!((counts.queued, counts.running, counts.redelivered), (0, 3, 0));
        assert!(a.lease.begin_renew()?.wait()?);
        let begun = ecru::time::now();
        let pause = Duration::from_millis(20);
        a.lease.retry(pause)?;
        done(&b)?;
        claim(&c)?;
        c.lease.terminate("for a\r\nreason")?;
        let sequence = a.sequence;
        drop((a, b, c));
        let again = next(&*pull)?;
        assert!(ecru::time::now() - begun >= pause);
        assert_eq!((&*again.id, again.sequence, again.delivery), ("a", sequence, 2));
        assert_eq!(queue.counts()?.redelivered, 1);
        again.lease.give_back(Duration::ZERO);
        drop(again);
        let third = next(&*pull)?;
        assert_eq!(third.delivery, 3);
        done(&third)?;
        assert_eq!(queue.counts()?.running, 0);
        Ok(())
    });
}

#[test]
fn a_lease_expires_slow() {
    each(|engine| {
        let queue = open(engine, lease(Duration::from_millis(100)))?;
        new(&*queue, "a")?;
        let pull = queue.pull(2)?;
        let held = next(&*pull)?;
        let again = next(&*pull)?;
        assert_eq!((&again.id, again.sequence), (&held.id, held.sequence));
        assert!(again.delivery > 1);
        done(&again)
    });
}

#[test]
fn a_lease_is_renewed_slow() {
    each(|engine| {
        let lease = Duration::from_secs(2);
        let queue = open(engine, Changes { lease: Some(lease), ..Changes::default() })?;
        new(&*queue, "a")?;
        let pull = queue.pull(2)?;
        let held = next(&*pull)?;
        while ecru::time::now() - held.received < lease + lease / 4 {
            ecru::sleep(lease / 8)?;
            assert!(held.lease.begin_renew()?.wait()?);
        }
        assert_eq!(queue.counts()?.redelivered, 0);
        done(&held)
    });
}

#[test]
fn attempts_of_a_holder_that_is_certain_count_slow() {
    each(|engine| {
        let queue = open(engine, lease(Duration::from_millis(100)))?;
        let pull = queue.pull(2)?;
        new(&*queue, "a")?;
        let first = next(&*pull)?;
        assert_eq!((first.begun, first.lease.begin(true)?), (0, 1));
        // It is as certain as before, and after a while not any more.
        assert_eq!((first.lease.begin(true)?, first.lease.begin(true)?), (1, 1));
        let second = next(&*pull)?;
        assert_eq!((second.begun, second.lease.begin(false)?), (1, 2));
        assert!(!first.lease.claim()? && second.lease.claim()?);
        second.lease.done()?;
        drop((first, second));

        new(&*queue, "a")?;
        let first = next(&*pull)?;
        assert_eq!(first.lease.begin(true)?, 1);
        first.lease.count()?;
        assert!(!first.lease.must_count());
        first.lease.give_back(Duration::ZERO);
        let second = next(&*pull)?;
        assert_eq!(second.begun, 1);
        done(&second)?;
        drop((first, second));

        // Its lease has ended, and no one has begun since.
        new(&*queue, "a")?;
        let (first, second) = (next(&*pull)?, next(&*pull)?);
        assert_eq!(first.lease.begin(true)?, 1);
        assert_eq!(first.lease.begin(false)?, 1);
        assert!(first.lease.claim()? && second.lease.begin(false).is_err());
        first.lease.done()
    });
}

#[test]
fn the_last_holder_that_has_begun_settles_slow() {
    each(|engine| {
        let queue = open(engine, lease(Duration::from_millis(100)))?;
        let pull = queue.pull(3)?;
        let expired = |error: io::Error| LeaseLost::find(&error) == Some(LeaseLost::Expired);
        for late in 0..3 {
            new(&*queue, "a")?;
            let (first, second) = (next(&*pull)?, next(&*pull)?);
            assert_eq!((first.begun, second.begun), (0, 0));
            match late {
                // It has begun, and another one has begun since.
                0 => {
                    assert_eq!(first.lease.begin(false)?, 1);
                    assert_eq!(second.lease.begin(false)?, 2);
                    assert!(!first.lease.claim()?);
                    assert!(second.lease.claim()?);
                    assert!(!first.lease.claim()? && second.lease.claim()?);
                }
                // It has not begun, and the other one has.
                1 => {
                    assert_eq!(second.lease.begin(false)?, 1);
                    assert!(first.lease.begin(false).is_err_and(expired));
                    assert!(second.lease.claim()?);
                }
                // It has settled the job before the other one begins.
                _ => {
                    assert_eq!(first.lease.begin(false)?, 1);
                    assert!(first.lease.claim()?);
                    assert!(second.lease.begin(false).is_err());
                    first.lease.done()?;
                    continue;
                }
            }
            second.lease.done()?;
        }
        assert_eq!(queue.counts()?.running, 0);
        Ok(())
    });
}

#[test]
fn a_limit_holds_over_all_pulls() {
    each(|engine| {
        let queue = open(engine, Changes { limit: Some(Some(2)), ..Changes::default() })?;
        for id in ["a", "b", "c"] {
            new(&*queue, id)?;
        }
        let (one, other) = (queue.pull(5)?, queue.pull(5)?);
        ecru::scope(|s| {
            // Both pulls wait, and either may get a job.
            let (found, jobs) = ecru::channel::unbounded();
            for pull in [&one, &other] {
                let found = found.clone();
                s.spawn(move || {
                    while let Ok(Some(job)) = pull.next() {
                        found.send(job).unwrap();
                    }
                });
            }
            let (a, b) = (jobs.recv()?, jobs.recv()?);
            let counts = queue.counts()?;
            assert_eq!((counts.queued, counts.running), (1, 2));
            done(&a)?;
            assert_eq!(jobs.recv()?.id, "c");
            drop(b);
            one.stop();
            other.stop();
            Ok(())
        })
    });
}

#[test]
fn cancellations_remove_and_are_announced() {
    each(|engine| {
        let queue = open(engine, Changes::default())?;
        let heard = queue.announcements()?;
        assert!(!queue.cancel("a")?);
        new(&*queue, "a")?;
        new(&*queue, "b")?;
        assert!(queue.cancel("a")? && !queue.cancel("a")?);
        assert!(matches!(heard.next()?, Announced::Cancelled(id, _) if id == "a"));
        let pull = queue.pull(1)?;
        let held = next(&*pull)?;
        assert_eq!(held.id, "b");
        assert!(queue.cancel("b")?);
        let Announced::Cancelled(id, sequence) = heard.next()? else { panic!() };
        assert_eq!((&*id, sequence.unwrap_or(held.sequence)), ("b", held.sequence));
        // It is removed already, which an engine may say.
        let _ = held.lease.terminate("it was cancelled");
        drop(held);
        new(&*queue, "b")?;
        assert_eq!(next(&*pull)?.delivery, 1);
        Ok(())
    });
}

#[test]
fn a_pause_holds_jobs_back() {
    each(|engine| {
        let queue = open(engine, Changes::default())?;
        queue.pause(LONG)?;
        let pull = queue.pull(1)?;
        new(&*queue, "a")?;
        let counts = queue.counts()?;
        assert_eq!((counts.queued, counts.running), (1, 0));
        queue.pause(Duration::ZERO)?;
        assert_eq!(next(&*pull)?.id, "a");
        Ok(())
    });
}

#[test]
fn the_dead_are_kept_apart() {
    each(|engine| {
        let queue = open(engine, Changes { capacity: Some(Some(1)), ..Changes::default() })?;
        assert_eq!(queue.dead(0)?, None);
        let dead = |id: &str, sequence, reason: &str| Dead {
            id: id.into(),
            sequence,
            attempts: 3,
            reason: reason.into(),
            payload: Bytes::from_static(b"grain"),
            priority: 2,
        };
        let first = dead("a", 1, " it\r\nbroke\0 \u{1F980}");
        for entry in [&first, &first, &dead("a", 2, ""), &dead("b", 3, &"ä".repeat(4096))] {
            queue.bury(entry)?;
        }
        let counts = queue.counts()?;
        assert_eq!((counts.queued, counts.dead), (0, 3));
        let (place, found) = queue.dead(0)?.unwrap();
        assert_eq!(found, first);
        let (second, found) = queue.dead(place + 1)?.unwrap();
        assert_eq!(found.sequence, 2);
        let (third, found) = queue.dead(second + 1)?.unwrap();
        assert_eq!((&*found.id, found.reason.len(), third), ("b", 8192, counts.last_dead));
        assert!(queue.discard(place)? && !queue.discard(place)?);
        assert_eq!(queue.dead(0)?.unwrap().0, second);
        assert_eq!(queue.counts()?.dead, 2);
        Ok(())
    });
}

#[test]
fn a_stopped_pull_gives_back_what_it_has() {
    each(|engine| {
        let queue = open(engine, Changes::default())?;
        for id in ["a", "b", "c", "d"] {
            new(&*queue, id)?;
        }
        let pull = queue.pull(4)?;
        let first = next(&*pull)?;
        pull.stop();
        let mut rest = Vec::new();
        while let Some(job) = pull.next()? {
            rest.push(job);
        }
        assert!(pull.next()?.is_none());
        done(&first)?;
        let left = 3 - rest.len();
        for job in rest {
            done(&job)?;
        }
        let counts = queue.counts()?;
        assert_eq!((counts.queued, counts.running), (left as u64, 0));

        // A pull that is dropped gives back, too.
        new(&*queue, "e")?;
        new(&*queue, "f")?;
        let other = queue.pull(2 + left)?;
        let first = next(&*other)?;
        drop(other);
        first.lease.give_back(Duration::ZERO);
        drop(first);
        let last = queue.pull(2 + left)?;
        let held: Vec<Delivery> = (0..2 + left).map(|_| next(&*last).unwrap()).collect();
        assert_eq!(held.len(), 2 + left);
        Ok(())
    });
}

fn result(watch: &dyn Watch) -> io::Result<Option<(String, Bytes)>> {
    Ok(match watch.next()? {
        Seen::Result { index, value, .. } => Some((index, value)),
        Seen::UpToDate => None,
    })
}

#[test]
fn the_first_result_wins_and_is_seen() {
    each(|engine| {
        let spec = ResultsSpec { name: "mill".into(), keep: Some(LONG), replicas: None };
        let results = engine.results(&spec)?;
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert!(results.put("run", "0", bytes("one"))?);
        assert!(!results.put("run", "0", bytes("other"))?);
        assert!(results.put("other", "0", bytes(""))?);
        assert_eq!(results.get("run", "0")?, Some(bytes("one")));
        assert_eq!(results.get("run", "1")?, None);

        let all = results.watch("run", None)?;
        let (zero, one) = (results.watch("run", Some("0"))?, results.watch("run", Some("1"))?);
        for watch in [&all, &zero] {
            assert_eq!(result(&**watch)?, Some(("0".into(), bytes("one"))));
            assert_eq!(result(&**watch)?, None);
        }
        assert_eq!(result(&*one)?, None);
        assert!(results.put("run", "1", bytes("two"))?);
        assert!(!results.put("run", "1", bytes("other"))?);
        for watch in [&all, &one] {
            assert_eq!(result(&**watch)?, Some(("1".into(), bytes("two"))));
        }
        results.remove("run", "0")?;
        results.remove("run", "7")?;
        assert_eq!(results.get("run", "0")?, None);
        let none = results.watch("none", None)?;
        assert_eq!(result(&*none)?, None);
        assert!(results.put("run", "0", bytes("new"))?);
        assert_eq!(result(&*all)?, Some(("0".into(), bytes("new"))));
        Ok(())
    });
}

#[test]
fn results_up_to_a_position_are_forgotten() {
    each(|engine| {
        let spec = ResultsSpec { name: "mill".into(), keep: Some(LONG), replicas: None };
        let results = engine.results(&spec)?;
        let watch = results.watch("run", None)?;
        assert_eq!(watch.next()?, Seen::UpToDate);
        let mut positions = Vec::new();
        for index in ["0", "1", "2"] {
            assert!(results.put("run", index, Bytes::new())?);
            assert!(results.put("other", index, Bytes::new())?);
            let Seen::Result { index: seen, position, .. } = watch.next()? else { panic!() };
            assert_eq!(seen, index);
            positions.push(position);
        }
        assert!(positions.is_sorted_by(|one, next| one < next), "{positions:?}");
        results.forget("run", positions[1])?;
        while results.get("run", "1")?.is_some() {
            ecru::sleep(Duration::from_millis(1))?;
        }
        assert_eq!(results.get("run", "0")?, None);
        assert!(results.get("run", "2")?.is_some());
        assert!(results.get("other", "0")?.is_some());
        assert!(results.put("run", "3", Bytes::new())?);
        let Seen::Result { index, position, .. } = watch.next()? else { panic!() };
        assert!(index == "3" && position > positions[2], "the watch goes on");
        Ok(())
    });
}

#[test]
fn settings_change_while_jobs_are_held() {
    each(|engine| {
        let queue = open(engine, Changes { limit: Some(Some(1)), ..Changes::default() })?;
        let first = queue.spec()?;
        assert_eq!((first.lease, first.limit, first.capacity), (LONG, Some(1), None));
        // What is not named stays, and opening alone changes nothing.
        let other = engine.queue("mill", &lease(2 * LONG))?;
        assert_eq!(other.spec()?, first);
        let heard = queue.announcements()?;
        for id in ["a", "b", "c"] {
            new(&*queue, id)?;
        }
        let pull = queue.pull(3)?;
        let a = next(&*pull)?;
        ecru::scope(|s| {
            let waits = s.spawn(|| next(&*pull));
            // Fewer than there are. Nothing is lost.
            let few = Changes { capacity: Some(Some(1)), limit: Some(None), ..lease(LONG / 2) };
            other.update(&few)?;
            let wanted = QueueSpec {
                lease: LONG / 2,
                limit: None,
                capacity: Some(1),
                replicas: 1,
                rate: None,
                per_key: false,
                priorities: false,
            };
            assert_eq!((queue.spec()?, other.spec()?), (wanted.clone(), wanted));
            assert_eq!(heard.next()?, Announced::Lease(LONG / 2));
            // The limit is gone, so another job is handed out beside the first one.
            let b = waits.join().expect("it does not panic")?;
            assert!(matches!(send(&*queue, "d", false)?, Sending::Full));
            for job in [&a, &b, &next(&*pull)?] {
                assert!(job.lease.begin_renew()?.wait()?);
                done(job)?;
            }
            let counts = queue.counts()?;
            assert_eq!((counts.queued, counts.running), (0, 0));
            other.update(&Changes { capacity: Some(None), ..Changes::default() })?;
            assert_eq!(queue.spec()?.capacity, None);
            Ok::<(), io::Error>(())
        })?;
        let keep = |keep| ResultsSpec { name: "mill".into(), keep, replicas: None };
        for kept in [Some(LONG), None, Some(2 * LONG), Some(Duration::from_secs(1))] {
            let results = engine.results(&keep(kept))?;
            assert!(results.put(
                "run",
                &format!("{kept:?}").replace(['(', ')'], ""),
                Bytes::new()
            )?);
        }
        Ok(())
    });
}

#[test]
fn settings_that_exclude_each_other_are_refused_together() {
    each(|engine| {
        let queue = open(engine, Changes::default())?;
        let changes = [
            Changes { per_key: Some(true), ..Changes::default() },
            Changes { limit: Some(Some(3)), ..Changes::default() },
            Changes { priorities: Some(true), ..Changes::default() },
            Changes { capacity: Some(Some(9)), ..Changes::default() },
        ];
        let changed = ecru::par::map(&changes, |changes| {
            let other = engine.queue("mill", &Changes::default())?;
            other.update(changes)
        });
        let spec = queue.spec()?;
        for (changed, changes) in changed.iter().zip(&changes) {
            let is_refused =
                changed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput);
            assert_eq!(changes.apply(&spec) != spec, is_refused, "{changed:?}");
        }
        assert!(
            changed[3].is_ok() && changed.iter().filter(|changed| changed.is_err()).count() > 0
        );
        assert_ne!(spec.per_key, spec.limit.is_some() || spec.priorities);
        Ok(())
    });
}

#[test]
fn what_cannot_serve_is_refused_slow() {
    on_a_server(|engine| {
        let error =
            open(engine, Changes { replicas: Some(3), ..Changes::default() }).err().unwrap();
        assert!(error.to_string().contains("mill cannot have 3 replicas"), "{error}");
        let queue = open(engine, Changes::default())?;
        let more = Changes { replicas: Some(3), ..Changes::default() };
        let error = queue.update(&more).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("mill"), "{error}");
        new(&*queue, "a")
    });
}
