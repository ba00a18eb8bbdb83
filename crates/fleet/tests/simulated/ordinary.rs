//! Nothing goes wrong but jobs.

use std::time::Duration;

use ecru_fleet::{CallError, Fleet, Function, JobError, Queue, Run};

use crate::server::Broker;
use crate::support::{Ledger, RETRY, join, member, until_idle};

const ATTEMPTS: u32 = 3;

fn open(fleet: &Fleet<'_>) -> std::io::Result<Queue<u32>> {
    fleet.queue("mill").attempts(ATTEMPTS).retry(RETRY).open()
}

/// - given: a simulated server, and a worker on another host
/// - when: jobs are sent, one of which fails once, and another one each time
/// - then: each is worked on, the former twice; the latter is among the dead after its last attempt
#[test]
fn fleet_400_jobs_of_a_simulated_server() {
    ecru::sim::test(|| {
        let (_broker, worked) = (Broker::start(), Ledger::new());
        let own = worked.clone();
        member("worker", move |fleet| {
            for job in open(fleet)?.jobs(2)? {
                own.note(*job);
                match (*job, job.attempt()) {
                    (3, _) | (4, 1) => drop(job),
                    _ => job.done()?,
                }
            }
            Ok(())
        });
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            for number in 0..6 {
                queue.send(number).unwrap();
            }
            assert_eq!(until_idle(|| queue.stats()), 1);
            for (number, times) in [1, 1, 1, 3, 2, 1].into_iter().enumerate() {
                let number = u32::try_from(number).unwrap();
                assert_eq!(worked.count(|worked| *worked == number), times, "{number}");
            }
            let dead = queue.dead().unwrap().recv().unwrap();
            assert_eq!((dead.job(), dead.attempts()), (Some(&3), ATTEMPTS));
            assert!(dead.reason().contains("3 attempts"), "{}", dead.reason());
        });
    });
}

/// Halves even numbers.
fn halve<'s>(fleet: &Fleet<'s>, runs: &Ledger<u32>) -> std::io::Result<Function<'s, u32, u32>> {
    let runs = runs.clone();
    let body = move |number: u32, _: &Run| {
        runs.note(number);
        ecru::sleep(Duration::from_millis(u64::from(number % 7)))?;
        if number.is_multiple_of(2) {
            Ok(number / 2)
        } else {
            Err(JobError::Fatal("it is odd".into()))
        }
    };
    fleet.function("halve", body).retry(RETRY).open()
}

/// - given: a function that workers on two other hosts serve
/// - when: it is called, called with a key, and mapped over items
/// - then: each call has its result or its failure, results are stored, and nothing runs twice
#[test]
fn fleet_401_calls_over_a_simulated_server() {
    ecru::sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        for name in ["one", "other"] {
            let runs = runs.clone();
            member(name, move |fleet| halve(fleet, &runs)?.serve(2));
        }
        ecru::scope(|s| {
            let halve = halve(&join(s).unwrap(), &runs).unwrap();
            assert_eq!(halve.call(100).unwrap(), 50);
            let error = halve.call(101).unwrap_err();
            assert!(matches!(error, CallError::Failed { attempts: 1, .. }), "{error}");
            for _ in 0..2 {
                assert_eq!(halve.call_keyed("k", 102).unwrap(), 51);
            }
            let mapped = halve.map("run", (0..20).map(|n| 2 * n)).unwrap();
            let halves: Vec<u32> = mapped.map(Result::unwrap).collect();
            assert_eq!(halves, (0..20).collect::<Vec<_>>());
            until_idle(|| halve.stats());
        });
        let mut all = runs.all();
        all.sort_unstable();
        let mut expected: Vec<u32> = (0..20).map(|n| 2 * n).chain([100, 101, 102]).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert_eq!(broker.stored("fleet-jobs-f_halve"), 0);
    });
}
