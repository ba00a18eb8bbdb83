//! Everything goes wrong at random, under many seeds: and no job and no result is lost.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use ecru::sim::{self, Explore, Host, Link, Simulation, Strategy};
use ecru::{Cancelled, Scope, Source};
use ecru_fleet::{Fleet, Function, Job, JobId, Queue, Run, SendError};

use crate::server::{Answer, Broker, NO_ROOM};
use crate::support::{Ledger, RETRY, SECOND, SOON, join, until_idle};

const LEASE: Duration = Duration::from_secs(5);
const ITEMS: u32 = 40;
const JOBS: u32 = 15;
/// Of the jobs, each fifth one fails in every attempt.
const BAD: u32 = 5;

/// What a run is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Nothing goes wrong but jobs.
    Calm,
    Chaos,
    /// The workers acknowledge jobs before they work on them, which is a fault.
    AcknowledgedFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// An item of the map was computed.
    Item(u32),
    /// The work on a job was done.
    Job(u32),
}

fn is_bad(job: u32) -> bool {
    job.is_multiple_of(BAD)
}

/// Returns a random time that is shorter than this one.
fn up_to(longest: Duration) -> Duration {
    Duration::from_millis(sim::random_u64() % longest.as_millis() as u64)
}

fn square<'s>(fleet: &Fleet<'s>, ledger: &Ledger<Event>) -> io::Result<Function<'s, u32, u32>> {
    let ledger = ledger.clone();
    let body = move |number: u32, _: &Run| {
        ecru::sleep(up_to(LEASE))?;
        ledger.note(Event::Item(number));
        Ok(number * number)
    };
    fleet.function("square", body).lease(LEASE).retry(RETRY).open()
}

fn mill(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(LEASE).retry(RETRY).attempts(6).open()
}

fn work(form: Form, job: Job<u32>, ledger: &Ledger<Event>) -> io::Result<()> {
    let number = *job;
    let take_time = || ecru::sleep(up_to(LEASE));
    if form == Form::AcknowledgedFirst && !is_bad(number) {
        job.done()?;
        take_time()?;
        ledger.note(Event::Job(number));
        return Ok(());
    }
    job.run(|_| take_time())??;
    if !is_bad(number) {
        ledger.note(Event::Job(number));
        job.done()?;
    }
    Ok(())
}

/// Runs a worker, which begins anew after an error.
fn worker(name: &str, form: Form, ledger: &Ledger<Event>) -> Host {
    let ledger = ledger.clone();
    let life = move || {
        ecru::scope(|s| {
            let fleet = join(s)?;
            let (square, jobs) = (square(&fleet, &ledger)?, mill(&fleet)?.jobs(2)?);
            s.spawn_daemon(move || square.serve(2));
            for job in jobs {
                // After an error the job comes again.
                let _ = work(form, job, &ledger);
            }
            Ok(())
        })
    };
    sim::host(name, move || {
        loop {
            match life() {
                Err(error) if Cancelled::find(&error).is_none() => ecru::sleep(SOON)?,
                result => return result,
            }
        }
    })
}

/// The items of the map, which come one after another.
fn items() -> impl Iterator<Item = u32> + Send {
    (0..ITEMS).inspect(|_| {
        let _ = ecru::sleep(up_to(SECOND / 2));
    })
}

/// Sends all jobs, each until it is stored. Returns their ids.
fn send(queue: &Queue<u32>) -> Vec<JobId> {
    let send = |number| {
        ecru::sleep(up_to(2 * SECOND)).unwrap();
        let pending = queue.begin_send(number);
        let id = pending.id().clone();
        let mut sent = pending.wait().unwrap();
        loop {
            match sent {
                Ok(_) => return id,
                Err(SendError::Unknown { .. } | SendError::Refused { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            ecru::sleep(up_to(SECOND)).unwrap();
            sent = queue.send_again(&id, number);
        }
    };
    (0..JOBS).map(send).collect()
}

/// Lets something go wrong for a while.
fn disturb(broker: &Broker, workers: &[Host], queue: &Queue<u32>) {
    let (root, server) = (sim::here(), broker.host());
    let worker = &workers[(sim::random_u64() % workers.len() as u64) as usize];
    match sim::random_u64() % 12 {
        0 => sim::partition(&[worker], &[server]),
        1 => sim::partition_one_way(worker, server),
        2 => sim::partition_one_way(server, worker),
        3 => sim::partition(&[&root], &[server]),
        4 => drop(sim::link(worker, server).reset()),
        5 => drop(sim::link(&root, server).reset()),
        6 => {
            broker.kill();
            ecru::sleep(up_to(LEASE)).unwrap();
            if sim::chance(0.5) {
                broker.forget();
            }
            broker.restart();
        }
        7 => {
            worker.crash();
            ecru::sleep(up_to(LEASE)).unwrap();
            worker.restart();
        }
        // A process, or the server, stands still.
        8 => stands_still(worker),
        9 => stands_still(server),
        10 => {
            // The server has no room, or little.
            let how = NO_ROOM[(sim::random_u64() % NO_ROOM.len() as u64) as usize];
            let share = if sim::chance(0.5) { 1.0 } else { 0.5 };
            broker.no_room(move |_| sim::chance(share).then_some(how));
            ecru::sleep(up_to(4 * LEASE)).unwrap();
            broker.no_room(|_| None);
        }
        // An operator pauses the queue. The server may not answer.
        _ => drop(queue.pause(up_to(3 * LEASE))),
    }
    ecru::sleep(up_to(2 * LEASE)).unwrap();
    sim::heal();
}

fn stands_still(host: &Host) {
    host.pause();
    ecru::sleep(up_to(2 * LEASE)).unwrap();
    host.resume();
}

/// Fails with a text if something is not true.
fn check(is_true: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_true { Ok(()) } else { Err(why()) }
}

/// Maps items and sends jobs, while everything goes wrong. Then proves that nothing was lost.
fn run(form: Form) -> Result<(), String> {
    let (broker, ledger) = (Broker::start(), Ledger::new());
    let workers = ["a", "b", "c"].map(|name| worker(name, form, &ledger));
    if form != Form::Calm {
        broker.answer(|_| {
            if sim::chance(0.03) {
                Answer::Late(up_to(2 * LEASE))
            } else if sim::chance(0.03) {
                Answer::Lost
            } else {
                Answer::Sent
            }
        });
        broker.repeat(|_| sim::chance(0.1));
    }
    ecru::scope(|s| coordinate(s, form, &broker, &workers, &ledger))
}

fn coordinate<'s>(
    s: &'s Scope<'s, '_>,
    form: Form,
    broker: &Broker,
    workers: &[Host],
    ledger: &Ledger<Event>,
) -> Result<(), String> {
    let (square, queue) = loop {
        // The confirmations of the server may be lost.
        let fleet = join(s).unwrap();
        if let (Ok(square), Ok(queue)) = (square(&fleet, ledger), mill(&fleet)) {
            break (square, queue);
        }
    };
    let (squares, ids) = ecru::scope(|inner| {
        let map = inner.spawn(|| {
            loop {
                // The server may be away when the map begins.
                if let Ok(results) = square.map("run", items()) {
                    return results.collect::<Result<Vec<u32>, _>>();
                }
                ecru::sleep(SOON).unwrap();
            }
        });
        let sender = inner.spawn(|| send(&queue));
        if form != Form::Calm {
            for _ in 0..5 {
                ecru::sleep(up_to(2 * SECOND)).unwrap();
                disturb(broker, workers, &queue);
            }
            sim::calm();
        }
        (map.join().unwrap(), sender.join().unwrap())
    });
    let squares = squares.map_err(|error| format!("the map has failed: {error}"))?;
    check(squares.iter().copied().eq((0..ITEMS).map(|n| n * n)), || format!("{squares:?}"))?;
    until_idle(|| square.stats());
    let count = until_idle(|| queue.stats());
    let dead: BTreeSet<u32> = match count {
        0 => BTreeSet::new(),
        _ => queue
            .dead()
            .unwrap()
            .iter()
            .take(count as usize)
            .map(|dead| *dead.job().unwrap())
            .collect(),
    };
    for (number, id) in (0..JOBS).zip(&ids) {
        let worked = ledger.count(|event| *event == Event::Job(number));
        let has_ended = if is_bad(number) {
            dead.contains(&number)
        } else {
            worked > 0 || dead.contains(&number)
        };
        check(has_ended, || format!("the job {number} was lost"))?;
        has_reason(form, broker, &format!("fleet.jobs.q_mill.{id}"), worked)?;
        let stored = broker.history(&format!("fleet.jobs.q_mill.{id}")).len();
        check(stored == 1, || format!("the job {number} was stored {stored} times"))?;
    }
    for number in 0..ITEMS {
        let worked = ledger.count(|event| *event == Event::Item(number));
        has_reason(form, broker, &format!("fleet.jobs.f_square.m-run=2F{number}"), worked)?;
        let stored = broker.history(&format!("$KV.fleet-results-f_square.m-run.{number}")).len();
        check(stored == 1, || format!("the item {number} has {stored} results"))?;
    }
    check(broker.stored("fleet-jobs-f_square") == 0, || "a call was left".to_owned())
}

/// Checks that a job was worked on once, or that the server has handed it out more than once.
fn has_reason(form: Form, broker: &Broker, subject: &str, worked: usize) -> Result<(), String> {
    let handed_out = broker.handed_out(subject) as usize;
    check(worked <= handed_out, || format!("{subject} ran {worked} times of {handed_out}"))?;
    check(form != Form::Calm || worked <= 1, || format!("{subject} ran {worked} times"))
}

/// Returns a simulation in which much is on its way at each moment.
fn simulation(seed: u64) -> Simulation {
    let latency = Duration::from_millis(1)..=Duration::from_millis(60);
    Simulation::new(seed).network(Link::new().latency(latency))
}

fn explore(form: Form, seeds: u64, strategy: Strategy) {
    let plan = Explore::Seeds { seeds: 0..seeds, strategy };
    if let Err(found) = simulation(0).explore(plan, || run(form).unwrap()) {
        panic!("{found}");
    }
}

/// - given: a map and a queue over a simulated server, and three workers
/// - when: nothing goes wrong but jobs that fail
/// - then: each item and each good job runs once, and each bad one is among the dead
#[test]
fn fleet_412_nothing_goes_wrong() {
    explore(Form::Calm, 8, Strategy::Random);
}

/// - given: a map and a queue over a simulated server, and three workers
/// - when: connections are cut and reset, processes die or stand still, the server does and forgets
///   what it has handed out, or has no room, the queue is paused, confirmations are late or lost, and
///   messages are handed out twice, as a seed decides
/// - then: once it is calm, the map has all values, each result and each job was stored once, each
///   job is done or dead, and none ran more often than it was handed out
#[test]
fn fleet_413_everything_goes_wrong_slow() {
    explore(Form::Chaos, 100, Strategy::Random);
    explore(Form::Chaos, 30, Strategy::Pct { depth: 3 });
}

/// - given: workers that acknowledge a job before they work on it
/// - when: everything goes wrong in the same way
/// - then: the same proof finds that jobs were lost
#[test]
fn fleet_414_the_proof_over_a_server_can_fail() {
    let found = (0..20)
        .find_map(|seed| simulation(seed).run(|| run(Form::AcknowledgedFirst)).unwrap().err());
    let found = found.expect("a job is lost");
    assert!(found.contains("was lost"), "{found}");
}

/// - given: a seed
/// - when: everything goes wrong twice with it
/// - then: both runs are the same
#[test]
fn fleet_415_a_seed_repeats_a_run() {
    for seed in 0..4 {
        let [first, second] = [(); 2].map(|()| simulation(seed).run(|| run(Form::Chaos)));
        assert_eq!((first.trace_hash, first.steps), (second.trace_hash, second.steps), "{seed}");
        assert_eq!(first.elapsed, second.elapsed, "{seed}");
        first.result.unwrap().unwrap();
    }
}
