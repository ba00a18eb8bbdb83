//! Servers that stop and start again.

use std::time::Duration;

use ecru::sim;
use ecru_fleet::{Fleet, Function, Queue, Run};

use crate::server::Broker;
use crate::support::{Ledger, RETRY, join, member, until, until_idle};

const LEASE: Duration = Duration::from_secs(10);
const ITEMS: u32 = 40;

fn square<'s>(fleet: &Fleet<'s>, runs: &Ledger<u32>) -> std::io::Result<Function<'s, u32, u32>> {
    let runs = runs.clone();
    let body = move |number: u32, _: &Run| {
        runs.note(number);
        ecru::sleep(Duration::from_millis(sim::random_u64() % 800))?;
        Ok(number * number)
    };
    fleet.function("square", body).lease(LEASE).retry(RETRY).open()
}

/// - given: a map over three workers
/// - when: the server is killed three times in the middle, and starts again
/// - then: the map has all values in order, and nothing is left
#[test]
fn fleet_411_a_server_that_restarts_during_a_map() {
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        for name in ["a", "b", "c"] {
            let runs = runs.clone();
            member(name, move |fleet| square(fleet, &runs)?.serve(2));
        }
        ecru::scope(|s| {
            let square = square(&join(s).unwrap(), &runs).unwrap();
            let results = square.map("run", 0..ITEMS).unwrap();
            let map = s.spawn(move || results.collect::<Result<Vec<_>, _>>());
            for kill in 1..=3 {
                until(|| runs.all().len() >= 8 * kill);
                ecru::sleep(Duration::from_millis(sim::random_u64() % 400)).unwrap();
                broker.kill();
                ecru::sleep(Duration::from_millis(sim::random_u64() % 5000)).unwrap();
                broker.restart();
            }
            let squares = map.join().unwrap().unwrap();
            assert_eq!(squares, (0..ITEMS).map(|n| n * n).collect::<Vec<_>>());
            assert_eq!(until_idle(|| square.stats()), 0);
        });
        assert_eq!(broker.stored("KV_fleet-results-f_square"), 40);
    });
}

/// - given: a worker that holds a job and has no room for another one
/// - when: the server is killed, and does not remember that it has handed the job out
/// - then: the worker removes the job, which ran once, and gets the next one
#[test]
fn fleet_416_a_server_that_forgets() {
    fn open(fleet: &Fleet<'_>) -> std::io::Result<Queue<u32>> {
        fleet.queue("mill").lease(LEASE).retry(RETRY).open()
    }
    sim::test(|| {
        let (broker, settled) = (Broker::start(), Ledger::new());
        let own = settled.clone();
        member("worker", move |fleet| {
            for job in open(fleet)?.jobs(1)? {
                let worked = job.run(|_| ecru::sleep(LEASE));
                let (number, attempt) = (*job, job.attempt());
                own.note((number, attempt, worked == Ok(Ok(())) && job.done().is_ok()));
            }
            Ok(())
        });
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            for number in 0..2 {
                queue.send(number).unwrap();
            }
            until(|| {
                broker.stored("fleet-jobs-q_mill") == 2 && broker.is_held("fleet-jobs-q_mill")
            });
            ecru::sleep(Duration::from_millis(sim::random_u64() % 5000)).unwrap();
            broker.kill();
            broker.forget();
            broker.restart();
            assert!(!broker.is_held("fleet-jobs-q_mill"));
            until(|| settled.all().len() == 2);
            assert_eq!(settled.all(), [(0, 1, true), (1, 1, true)]);
            assert_eq!(until_idle(|| queue.stats()), 0);
        });
    });
}
