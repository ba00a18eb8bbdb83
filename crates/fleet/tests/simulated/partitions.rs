//! Partitions between workers and the server.

use std::io;
use std::time::Duration;

use ecru::sim::{self, Host};
use ecru_fleet::{Fleet, Function, Run};

use crate::server::Broker;
use crate::support::{Ledger, SECOND, SOON, join, member, until_idle};

const LEASE: Duration = Duration::from_secs(10);

/// What happens in a run of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Begun,
    Cancelled,
    Done,
}

type Event = (String, What, Duration);

/// A function that takes three leases.
fn grind<'s>(fleet: &Fleet<'s>, ledger: &Ledger<Event>) -> io::Result<Function<'s, u32, u32>> {
    let ledger = ledger.clone();
    let body = move |number: u32, _: &Run| {
        let note = |what| ledger.note((sim::here().name().to_owned(), what, sim::elapsed()));
        note(What::Begun);
        let slept = ecru::sleep(3 * LEASE);
        note(if slept.is_ok() { What::Done } else { What::Cancelled });
        slept?;
        Ok(number + 1)
    };
    fleet.function("grind", body).lease(LEASE).open()
}

/// Cuts a worker off from the server: both directions, or one of them.
fn cut(worker: &Host, server: &Host) {
    match sim::random_u64() % 3 {
        0 => sim::partition(&[worker], &[server]),
        1 => sim::partition_one_way(worker, server),
        _ => sim::partition_one_way(server, worker),
    }
}

/// - given: a worker in the middle of a call, and another worker that is free
/// - when: the first one is cut off from the server for longer than its lease, in both directions
///   or in one
/// - then: its run is cancelled by its own clock before the other one begins; one result is stored;
///   when the partition is over, both work
#[test]
fn fleet_402_a_worker_that_is_cut_off() {
    sim::test(|| {
        let (broker, ledger) = (Broker::start(), Ledger::new());
        let workers = ["one", "other"].map(|name| {
            let ledger = ledger.clone();
            member(name, move |fleet| grind(fleet, &ledger)?.serve(1))
        });
        ecru::scope(|s| {
            let grind = grind(&join(s).unwrap(), &ledger).unwrap();
            let caller = grind.clone();
            let call = s.spawn(move || caller.call_keyed("k", 7));
            let (first, ..) = ledger.wait(|(_, what, _)| *what == What::Begun);
            let is_first = |host: &&Host| host.name() == first;
            ecru::sleep(Duration::from_millis(sim::random_u64() % 10_000)).unwrap();
            cut(workers.iter().find(is_first).unwrap(), broker.host());
            let cut_off = sim::elapsed();
            assert_eq!(call.join().unwrap().unwrap(), 8);

            let at = |is_meant: &dyn Fn(&Event) -> bool| ledger.wait(is_meant).2;
            let given_up = at(&|(host, what, _)| *host == first && *what == What::Cancelled);
            let begun = at(&|(host, what, _)| *host != first && *what == What::Begun);
            assert!(given_up <= cut_off + LEASE + SOON, "{given_up:?} {cut_off:?}");
            assert!(given_up <= begun && begun <= cut_off + 2 * LEASE, "{given_up:?} {begun:?}");
            assert_eq!(ledger.count(|(_, what, _)| *what == What::Done), 1);
            assert_eq!(broker.history("$KV.fleet-results-f_grind.k.k").len(), 1);

            // After a minute of silence, the client gives its connection up.
            ecru::sleep(SECOND * (sim::random_u64() % 2 * 90) as u32).unwrap();
            sim::heal();
            let mapped = grind.map("run", 0..8).unwrap();
            let values: Vec<u32> = mapped.map(Result::unwrap).collect();
            assert_eq!(values, (1..=8).collect::<Vec<_>>());
            for worker in &workers {
                let is_done =
                    |(host, what, _): &Event| host == worker.name() && *what == What::Done;
                assert!(ledger.count(is_done) > 0, "{} has not worked again", worker.name());
            }
            until_idle(|| grind.stats());
        });
    });
}

/// - given: a worker in the middle of a call
/// - when: it is cut off from the server again and again, each time for half of a lease
/// - then: its run goes on, and there is no other one
#[test]
fn fleet_403_short_partitions_of_a_connection() {
    sim::test(|| {
        let (broker, ledger) = (Broker::start(), Ledger::new());
        let own = ledger.clone();
        let worker = member("worker", move |fleet| grind(fleet, &own)?.serve(2));
        ecru::scope(|s| {
            let grind = grind(&join(s).unwrap(), &ledger).unwrap();
            let call = s.spawn(move || grind.call(7));
            ledger.wait(|(_, what, _)| *what == What::Begun);
            for _ in 0..3 {
                cut(&worker, broker.host());
                ecru::sleep(LEASE / 2).unwrap();
                sim::heal();
                ecru::sleep(LEASE / 2).unwrap();
            }
            assert_eq!(call.join().unwrap().unwrap(), 8);
            let whats: Vec<What> = ledger.all().into_iter().map(|(_, what, _)| what).collect();
            assert_eq!(whats, [What::Begun, What::Done]);
        });
    });
}
