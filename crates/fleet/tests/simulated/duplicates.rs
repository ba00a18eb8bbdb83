//! Messages that the server hands out twice, because it has forgotten that it did.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Function, Queue, Run};

use crate::server::Broker;
use crate::support::{Ledger, SECOND, SOON, join, member, until_idle};

/// Returns the name of the host that it runs on. The host `slow` takes longer.
fn place<'s>(fleet: &Fleet<'s>, runs: &Ledger<String>) -> io::Result<Function<'s, u32, String>> {
    let runs = runs.clone();
    let body = move |_, _: &Run| {
        let name = sim::here().name().to_owned();
        runs.note(name.clone());
        ecru::sleep(if name == "slow" { 2 * SECOND } else { SECOND })?;
        Ok(name)
    };
    fleet.function("place", body).open()
}

/// - given: a function that two workers serve
/// - when: the server hands a call out to both
/// - then: one of them runs it, and both workers go on
#[test]
fn fleet_404_a_call_that_is_handed_out_twice() {
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        for name in ["quick", "slow"] {
            let runs = runs.clone();
            member(name, move |fleet| place(fleet, &runs)?.serve(1));
        }
        ecru::scope(|s| {
            let place = place(&join(s).unwrap(), &runs).unwrap();
            // Both have asked for calls.
            ecru::sleep(SECOND).unwrap();
            broker.repeat(|subject| subject.starts_with("fleet.jobs."));
            let host = place.call_keyed("k", 0).unwrap();
            until_idle(|| place.stats());
            ecru::sleep(3 * SECOND).unwrap();
            assert_eq!(runs.all(), [&*host]);
            assert_eq!(broker.handed_out("fleet.jobs.f_place.k=2Fk"), 2);
            assert_eq!(broker.history("$KV.fleet-results-f_place.k.k").len(), 1);
            assert_eq!(place.call_keyed("k", 0).unwrap(), host);
            assert_eq!((runs.all().len(), place.stats().unwrap().dead), (1, 0));

            broker.repeat(|_| false);
            let mapped = place.map("run", 0..6).unwrap();
            let names: Vec<String> = mapped.map(Result::unwrap).collect();
            assert!(names.iter().any(|name| name == "slow"), "{names:?}");
            assert!(names.iter().any(|name| name == "quick"), "{names:?}");
            until_idle(|| place.stats());
            assert_eq!(runs.all().len(), 7);
        });
    });
}

/// - given: a queue with two workers
/// - when: the server hands each job out to both
/// - then: one worker settles each job, the other one does not, and no job is left or dead
#[test]
fn fleet_405_jobs_that_are_handed_out_twice() {
    let open = |fleet: &Fleet<'_>| -> io::Result<Queue<u32>> { fleet.queue("mill").open() };
    sim::test(|| {
        let (broker, settled) = (Broker::start(), Ledger::new());
        for name in ["quick", "slow"] {
            let settled = settled.clone();
            member(name, move |fleet| {
                for job in open(fleet)?.jobs(1)? {
                    let number = *job;
                    let pause = SOON * (sim::random_u64() % 3) as u32;
                    let worked = job.run(|_| ecru::sleep(pause));
                    settled.note((number, worked == Ok(Ok(())) && job.done().is_ok()));
                }
                Ok(())
            });
        }
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            ecru::sleep(SECOND).unwrap();
            broker.repeat(|subject| subject.starts_with("fleet.jobs."));
            for number in 0..10 {
                queue.send(number).unwrap();
                // Both have room for the next one.
                ecru::sleep(SECOND).unwrap();
            }
            assert_eq!(until_idle(|| queue.stats()), 0);
            let all = settled.all();
            assert_eq!((all.len(), all.iter().filter(|(_, is_done)| *is_done).count()), (20, 10));
            for number in 0..10 {
                assert_eq!(settled.count(|settled| *settled == (number, true)), 1, "{number}");
            }
        });
    });
}
