//! Jobs that are handed out at a rate, by several processes.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Queue};

use crate::server::Broker;
use crate::support::{Ledger, SECOND, join, member, until, until_idle};

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").rate(4, SECOND).open()
}

/// Works on jobs, and notes when each begins.
fn work(name: &str, begun: &Ledger<std::time::Duration>) -> sim::Host {
    let begun = begun.clone();
    member(name, move |fleet| {
        for job in open(fleet)?.jobs(3)? {
            begun.note(sim::elapsed());
            assert_eq!(job.attempt(), 1);
            job.done()?;
        }
        Ok(())
    })
}

/// - given: a queue with a rate of four jobs a second, twenty jobs, and two processes that work
/// - when: they work on them
/// - then: in no second more than four jobs begin in both processes together, and all of them are
///   done within six seconds
#[test]
fn fleet_427_a_rate_over_two_processes_slow() {
    sim::test(|| {
        let (_broker, begun) = (Broker::start(), Ledger::new());
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send_all(0..20).unwrap();
            let started = sim::elapsed();
            for name in ["one", "other"] {
                work(name, &begun);
            }
            until_idle(|| queue.stats());
            let times = begun.all();
            assert_eq!(times.len(), 20);
            // The answer of the server takes some milliseconds, which differ.
            for five in times.windows(5) {
                assert!(five[4] - five[0] >= SECOND - SECOND / 20, "{five:?}");
            }
            assert!(times[19] - started < 6 * SECOND, "{times:?}");
        });
    });
}

/// - given: a queue with a rate of four jobs a second, a process with more jobs than that, and
///   another one
/// - when: the former ends in good order while jobs wait there for the rate
/// - then: the other one gets all of them in their first attempt
#[test]
fn fleet_428_jobs_that_wait_for_a_rate_are_given_back_slow() {
    sim::test(|| {
        let (_broker, begun) = (Broker::start(), Ledger::new());
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send_all(0..12).unwrap();
            ecru::scope(|inner| {
                let queue = open(&join(inner).unwrap()).unwrap();
                let jobs = queue.jobs(12).unwrap();
                jobs.recv().unwrap().done().unwrap();
                until(|| queue.stats().unwrap().running == 11);
                inner.cancel();
            });
            let left = queue.stats().unwrap();
            assert_eq!(left.queued + left.running, 11);
            work("other", &begun);
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert_eq!(begun.all().len(), 11);
        });
    });
}
