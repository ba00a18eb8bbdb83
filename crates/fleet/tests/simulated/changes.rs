//! What changes while a fleet works: the settings of a queue, and the room on the server.

use std::time::Duration;

use ecru::sim;
use ecru_fleet::Update;

use crate::server::Broker;
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
