//! Processes that change the settings of one queue at the same time, stand still and are killed.

use std::io;
use std::time::Duration;

use ecru::sim;
use ecru_fleet::{Fleet, Queue, Update};
use ecru_nats::Client;

use crate::server::Broker;
use crate::support::{Ledger, SECOND, SOON, join, member, until};

const LEASE: Duration = Duration::from_secs(2);

/// What the servers act on: the lease, the limit and the capacity.
fn in_force(client: &Client) -> (Duration, Option<i64>, Option<u64>) {
    let js = client.jetstream();
    let jobs = js.stream_info("fleet-jobs-q_mill").unwrap().config;
    let workers = js.consumer("fleet-jobs-q_mill", "workers").unwrap().info().unwrap().config;
    let limit = workers.max_ack_pending.filter(|most| *most > 0);
    (workers.ack_wait.unwrap(), limit, jobs.max_messages)
}

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.on_warning(|_| {});
    fleet.queue("mill").open()
}

/// Lets three hosts change a setting each: `(name, how)`. One of them may be killed. Each notes its
/// name when it was told that the setting is changed.
fn change_at_once(broker: &Broker, told: &Ledger<&'static str>) -> &'static str {
    let updates = [
        ("lease", Update::new().lease(LEASE)),
        ("limit", Update::new().limit(3)),
        ("capacity", Update::new().capacity(50)),
    ];
    // Longer than a client waits for an answer, so some have gone by then.
    broker.delay(|operation| {
        let stores = operation.starts_with("STREAM.UPDATE") || operation.contains("CREATE");
        (stores && sim::chance(0.3)).then(|| SECOND / 2 * (sim::random_u64() % 20) as u32)
    });
    let hosts = updates.clone().map(|(name, update)| {
        let told = told.clone();
        let host = member(name, move |fleet| {
            let told = told.clone();
            ecru::sleep(SOON * (sim::random_u64() % 5) as u32)?;
            // A server that does not answer in time may have done it.
            while open(fleet).and_then(|queue| queue.update(update.clone())).is_err() {
                ecru::sleep(SOON)?;
            }
            told.note(name);
            ecru::sleep(Duration::MAX)?;
            Ok(())
        });
        (name, host)
    });
    let (victim, host) = &hosts[(sim::random_u64() % 3) as usize];
    ecru::sleep(SECOND / 4 * (sim::random_u64() % 40) as u32).unwrap();
    host.crash();
    until(|| {
        updates.iter().all(|(name, _)| name == victim || told.count(|other| other == name) > 0)
    });
    // What was under way comes after all the others have been told.
    broker.delay(|_| None);
    until(|| broker.delayed() == 0);
    // It is not started again.
    hosts.iter().for_each(|(_, host)| host.crash());
    victim
}

/// - given: three processes, each of which changes another setting of a queue, and a server that
///   handles what they store up to ten seconds later, in any order
/// - when: one of them is killed at a time that the seed chooses, and afterwards another process
///   opens the queue
/// - then: each change that a process was told of is in force
#[test]
fn fleet_433_settings_of_processes_that_stand_still() {
    sim::test(|| {
        let (broker, told) = (Broker::start(), Ledger::new());
        ecru::scope(|s| {
            open(&join(s).unwrap()).unwrap();
            let victim = change_at_once(&broker, &told);
            let client = Client::connect(s, Broker::URL).unwrap();
            open(&join(s).unwrap()).unwrap();
            check(in_force(&client), victim, &told);
        });
    });
}

/// - given: the same, and a process that takes jobs
/// - when: one of the three is killed, and no process opens the queue any more
/// - then: the process that takes jobs sees to it that each change is in force
#[test]
fn fleet_434_settings_are_mended_by_those_that_take_jobs() {
    sim::test(|| {
        let (broker, told) = (Broker::start(), Ledger::new());
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            let _jobs = queue.jobs(1).unwrap();
            let client = Client::connect(s, Broker::URL).unwrap();
            let victim = change_at_once(&broker, &told);
            // It looks once in each lease, and the longest one is half a minute.
            ecru::sleep(100 * SECOND).unwrap();
            check(in_force(&client), victim, &told);
        });
    });
}

fn check(
    (lease, limit, capacity): (Duration, Option<i64>, Option<u64>),
    victim: &str,
    told: &Ledger<&'static str>,
) {
    let is = [
        ("lease", lease == LEASE),
        ("limit", limit == Some(3)),
        ("capacity", capacity == Some(50)),
    ];
    for (name, is_changed) in is {
        let was_told = told.count(|other| *other == name) > 0;
        assert!(is_changed || !was_told, "the {name} is lost; {victim} was killed");
    }
}
