//! What changes while a fleet works: the settings of a queue, and the room on the server.

use std::io;
use std::time::Duration;

use ecru::sim;
use ecru_fleet::{SendError, Update};

use crate::server::{Broker, NO_ROOM};
use crate::support::{Ledger, RETRY, SECOND, join, member, until, until_idle};

/// - given: a function that two workers serve
/// - when: it is mapped, and the server has no room for results, again and again, for a minute
///   altogether
/// - then: all results are there, and each item ran once
#[test]
fn fleet_420_no_room_for_results() {
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        let _workers = ["one", "other"].map(|name| {
            let runs = runs.clone();
            member(name, move |fleet| {
                fleet.on_warning(|_| ());
                let runs = runs.clone();
                let square = fleet.function("square", move |n: u64, _run| {
                    runs.note(n);
                    ecru::sleep(SECOND)?;
                    Ok(n * n)
                });
                square.attempts(2).open()?.serve(3)
            })
        });
        ecru::scope(|s| {
            let fleet = join(s).unwrap();
            let square = fleet.function("square", |n: u64, _run| Ok(n * n)).open().unwrap();
            let begun = sim::elapsed();
            broker.full(move |subject| {
                let is_full = sim::elapsed() < begun + 60 * SECOND && sim::chance(0.9);
                is_full && subject.starts_with("$KV.")
            });
            let results = square.map("run", 0..12).unwrap();
            let squares: Vec<u64> = results.map(Result::unwrap).collect();
            assert_eq!(squares, (0..12).map(|n| n * n).collect::<Vec<u64>>());
            let mut all = runs.all();
            all.sort_unstable();
            assert_eq!(all, (0..12).collect::<Vec<u64>>());
            assert_eq!(until_idle(|| square.stats()), 0);
        });
    });
}

/// - given: a function that a worker serves, and a queue
/// - when: the server has no room, and says so in each of the ways in which it may
/// - then: a job is refused as `StorageFull` and was not stored; a result waits, and its item runs
///   once
#[test]
fn fleet_435_each_way_to_have_no_room() {
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        let noted = runs.clone();
        let _worker = member("worker", move |fleet| {
            fleet.on_warning(|_| ());
            let runs = noted.clone();
            let square = fleet.function("square", move |n: u64, _run| {
                runs.note(n);
                Ok(n * n)
            });
            square.attempts(2).open()?.serve(2)
        });
        ecru::scope(|s| {
            let fleet = join(s).unwrap();
            let square = fleet.function("square", |n: u64, _run| Ok(n * n)).open().unwrap();
            let queue = fleet.queue::<u64>("mill").open().unwrap();
            for (number, refusal) in (0..).zip(NO_ROOM) {
                broker.no_room(move |subject| {
                    subject.starts_with("fleet.jobs.q_").then_some(refusal)
                });
                let sent = queue.send(number);
                let Err(SendError::Refused { error, .. }) = sent else { panic!("{sent:?}") };
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{refusal:?}: {error}");
                let all = queue.send_all(vec![number, number]);
                assert!(all.is_err(), "{refusal:?}");
                let until = sim::elapsed() + 3 * SECOND;
                broker.no_room(move |subject| {
                    let is_full = sim::elapsed() < until && subject.starts_with("$KV.");
                    is_full.then_some(refusal)
                });
                assert_eq!(square.call(number).unwrap(), number * number, "{refusal:?}");
                assert!(sim::elapsed() >= until);
                assert_eq!(runs.count(|n| *n == number), 1, "{refusal:?}");
            }
            assert_eq!(broker.stored("fleet-jobs-q_mill"), 0);
            assert_eq!(until_idle(|| square.stats()), 0);
        });
    });
}

/// - given: a worker with jobs that take longer than a lease
/// - when: the lease is made shorter at any time, then longer, and then shorter again
/// - then: each job runs once
#[test]
fn fleet_421_another_lease() {
    sim::test(|| {
        let (_broker, runs) = (Broker::start(), Ledger::new());
        let begun = runs.clone();
        let _worker = member("worker", move |fleet| {
            fleet.on_warning(|_| ());
            let queue = fleet.queue::<u32>("mill").retry(RETRY).open()?;
            let jobs = queue.jobs(3)?;
            ecru::scope(|s| {
                for job in jobs {
                    let runs = begun.clone();
                    s.spawn(move || {
                        let slept = job.run(|number| {
                            runs.note(*number);
                            ecru::sleep(100 * SECOND)
                        });
                        assert_eq!(slept, Ok(Ok(())));
                        job.done()
                    });
                }
            });
            Ok(())
        });
        ecru::scope(|s| {
            let fleet = join(s).unwrap();
            fleet.on_warning(|_| ());
            let queue = fleet.queue::<u32>("mill").lease(60 * SECOND).retry(RETRY).open().unwrap();
            for number in 0..3 {
                queue.send(number).unwrap();
            }
            until(|| runs.all().len() == 3);
            for lease in [6, 30, 3] {
                let pause = sim::random_u64() % 25_000;
                ecru::sleep(Duration::from_millis(pause)).unwrap();
                queue.update(Update::new().lease(lease * SECOND)).unwrap();
            }
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert_eq!(runs.all().len(), 3);
        });
    });
}

/// - given: a worker that waits for jobs, and one job that it works on
/// - when: the queue is paused, jobs are sent, and the pause ends by itself, or is ended
/// - then: the job that runs goes on, no other one begins before the end, and all are done
#[test]
fn fleet_436_a_pause() {
    sim::test(|| {
        let (_broker, begun) = (Broker::start(), Ledger::new());
        let noted = begun.clone();
        let _worker = member("worker", move |fleet| {
            for job in fleet.queue::<u32>("mill").retry(RETRY).open()?.jobs(2)? {
                noted.note((*job, sim::elapsed()));
                job.run(|_| ecru::sleep(2 * SECOND))??;
                job.done()?;
            }
            Ok(())
        });
        ecru::scope(|s| {
            let queue = join(s).unwrap().queue::<u32>("mill").open().unwrap();
            queue.send(0).unwrap();
            begun.wait(|(number, _)| *number == 0);
            let ends_early = sim::chance(0.5);
            let at = sim::elapsed();
            queue.pause(30 * SECOND).unwrap();
            for number in 1..4 {
                queue.send(number).unwrap();
            }
            if ends_early {
                ecru::sleep(10 * SECOND).unwrap();
                queue.pause(Duration::ZERO).unwrap();
            }
            let pause = if ends_early { 10 * SECOND } else { 29 * SECOND };
            assert_eq!(until_idle(|| queue.stats()), 0);
            let all = begun.all();
            assert_eq!(all.len(), 4, "{all:?}");
            assert!(all[1..].iter().all(|(_, time)| *time >= at + pause), "{at:?} {all:?}");
        });
    });
}
