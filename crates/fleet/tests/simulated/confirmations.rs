//! Confirmations of the server that come late, or never.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use ecru::sim::{self, Host};
use ecru_fleet::{Fleet, Function, LeaseLost, Queue, Run, SendError, Sent, Unsettled};

use crate::server::{Answer, Broker};
use crate::support::{Ledger, RETRY, SECOND, join, member, until_idle};

const LEASE: Duration = Duration::from_secs(10);

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(LEASE).retry(RETRY).open()
}

/// What a worker has done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// The work on a job, for the number of the attempt.
    Worked(String, u32),
    /// It is not known whether a job is settled.
    Unsure(String),
    /// A job was settled, or was not.
    Settled(String, bool),
    /// The work was cancelled.
    Lost(String),
}

/// Works on jobs for a second each, and settles them a second later.
fn worker(name: &str, ledger: &Ledger<Event>) -> Host {
    let ledger = ledger.clone();
    member(name, move |fleet| {
        let name = || sim::here().name().to_owned();
        for job in open(fleet)?.jobs(1)? {
            if job.run(|_| ecru::sleep(SECOND)) != Ok(Ok(())) {
                ledger.note(Event::Lost(name()));
                continue;
            }
            ledger.note(Event::Worked(name(), job.attempt()));
            ecru::sleep(SECOND)?;
            let mut done = job.done();
            while let Err(Unsettled::Unknown(settlement)) = done {
                ledger.note(Event::Unsure(name()));
                done = settlement.ask();
            }
            ledger.note(Event::Settled(name(), done.is_ok()));
        }
        Ok(())
    })
}

/// - given: a worker that has settled a job
/// - when: the confirmation comes after the lease, or not at all, also those of renewals
/// - then: the worker makes sure that the job is removed, which ran once, and goes on
#[test]
fn fleet_406_a_late_confirmation_of_a_settlement() {
    sim::test(|| {
        let (broker, ledger) = (Broker::start(), Ledger::new());
        worker("worker", &ledger);
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            let late = if sim::chance(0.5) { Answer::Lost } else { Answer::Late(3 * LEASE) };
            let with_renewals = sim::chance(0.5);
            let mut is_over = false;
            broker.answer(move |question| {
                is_over |= question.is_done();
                let is_meant =
                    question.is_done() || is_over && with_renewals && question.is_renewal();
                if is_meant { late } else { Answer::Sent }
            });
            queue.send(7).unwrap();
            let own = || "worker".to_owned();
            let first = [Event::Worked(own(), 1), Event::Settled(own(), true)];
            ledger.wait(|event| *event == first[1]);
            ecru::sleep(4 * LEASE).unwrap();
            assert_eq!(ledger.all(), first);
            broker.answer(|_| Answer::Sent);
            queue.send(8).unwrap();
            assert_eq!(until_idle(|| queue.stats()), 0);
            ecru::sleep(SECOND).unwrap();
            assert_eq!(ledger.all(), [first.clone(), first].concat());
        });
    });
}

/// - given: a worker that has done its work, and another worker that is free
/// - when: the first one is cut off from the server before it settles the job
/// - then: it does not know the outcome, and then learns that it has not settled the job: the other
///   one has
#[test]
fn fleet_407_a_lost_settlement() {
    sim::test(|| {
        let (broker, ledger) = (Broker::start(), Ledger::new());
        let workers = ["one", "other"].map(|name| worker(name, &ledger));
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send(7).unwrap();
            let worked = ledger.wait(|event| matches!(event, Event::Worked(..)));
            let Event::Worked(first, 1) = worked else { panic!("{worked:?}") };
            let (cut, other) = match workers[0].name() == first {
                true => (&workers[0], &workers[1]),
                false => (&workers[1], &workers[0]),
            };
            sim::partition(&[cut], &[broker.host()]);
            assert_eq!(until_idle(|| queue.stats()), 0);
            sim::heal();
            ecru::sleep(SECOND).unwrap();
            let other = other.name().to_owned();
            let events = ledger.all();
            assert_eq!(events.len(), 5, "{events:?}");
            for event in [
                Event::Unsure(first.clone()),
                Event::Settled(first, false),
                Event::Worked(other.clone(), 2),
                Event::Settled(other, true),
            ] {
                assert!(events.contains(&event), "{event:?} is not in {events:?}");
            }
        });
    });
}

/// - given: a worker in the middle of a job that takes two leases
/// - when: the confirmations of its renewals come later than the lease
/// - then: the worker gives the job up, and settles it in a later attempt, when they come in time
#[test]
fn fleet_408_late_confirmations_of_renewals() {
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        let own = runs.clone();
        member("worker", move |fleet| {
            for job in open(fleet)?.jobs(1)? {
                let mut begun = sim::elapsed();
                let worked = job.run(|_| {
                    begun = sim::elapsed();
                    ecru::sleep(2 * LEASE)
                });
                own.note((job.attempt(), sim::elapsed() - begun));
                match worked {
                    Ok(_) => job.done()?,
                    Err(lost) => assert_eq!(lost, LeaseLost::Expired),
                }
            }
            Ok(())
        });
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            broker.answer(|question| match question.is_renewal() {
                true => Answer::Late(LEASE + SECOND),
                false => Answer::Sent,
            });
            queue.send(7).unwrap();
            let (attempt, time) = runs.wait(|_| true);
            assert_eq!(attempt, 1);
            assert!(time <= LEASE && time >= LEASE - SECOND, "{time:?}");
            broker.answer(|_| Answer::Sent);
            assert_eq!(until_idle(|| queue.stats()), 0);
            let all = runs.all();
            assert_eq!(all.last().unwrap().1, 2 * LEASE, "{all:?}");
        });
    });
}

/// - given: a queue with a worker
/// - when: the server stores a job, and its acknowledgement is lost or comes too late
/// - then: the sender gets `Unknown` with the id, and sends the job again by it, while it is there
///   and after it is done: `Already`, and the job has run once
#[test]
fn fleet_409_a_lost_acknowledgement_of_a_job() {
    sim::test(|| {
        let (broker, ledger) = (Broker::start(), Ledger::new());
        worker("worker", &ledger);
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            let fate = if sim::chance(0.5) { Answer::Lost } else { Answer::Late(8 * SECOND) };
            broker.answer(move |question| if question.is_job() { fate } else { Answer::Sent });
            let Err(SendError::Unknown { job, id }) = queue.send(7) else { panic!() };
            broker.answer(|_| Answer::Sent);
            assert_eq!(queue.send_again(&id, job).unwrap(), Sent::Already);
            ledger.wait(|event| matches!(event, Event::Settled(..)));
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert_eq!(queue.send_again(&id, job).unwrap(), Sent::Already);
            ecru::sleep(LEASE).unwrap();
            assert_eq!(ledger.count(|event| matches!(event, Event::Worked(..))), 1);
            assert_eq!(broker.history(&format!("fleet.jobs.q_mill.{id}")).len(), 1);
        });
    });
}

/// - given: a function with a worker
/// - when: it is called and mapped while the first acknowledgement of each job, and the
///   confirmation of each result of the map, are lost
/// - then: all results are there, and each call ran once
#[test]
fn fleet_410_calls_with_lost_acknowledgements() {
    fn next<'s>(fleet: &Fleet<'s>, runs: &Ledger<u32>) -> io::Result<Function<'s, u32, u32>> {
        let runs = runs.clone();
        let body = move |number: u32, _: &Run| {
            runs.note(number);
            Ok(number + 1)
        };
        fleet.function("next", body).lease(LEASE).retry(RETRY).open()
    }
    sim::test(|| {
        let (broker, runs) = (Broker::start(), Ledger::new());
        let own = runs.clone();
        member("worker", move |fleet| next(fleet, &own)?.serve(4));
        ecru::scope(|s| {
            let next = next(&join(s).unwrap(), &runs).unwrap();
            let mut asked = BTreeSet::new();
            broker.answer(move |question| {
                let is_stored = question.is_job() || question.subject.contains(".m-run.");
                let is_first = is_stored && asked.insert(question.subject.to_owned());
                if is_first { Answer::Lost } else { Answer::Sent }
            });
            assert_eq!(next.call(100).unwrap(), 101);
            let mapped = next.map("run", 0..10).unwrap();
            let values: Vec<u32> = mapped.map(Result::unwrap).collect();
            assert_eq!(values, (1..=10).collect::<Vec<_>>());
            assert_eq!(until_idle(|| next.stats()), 0);
            let mut all = runs.all();
            all.sort_unstable();
            assert_eq!(all, (0..10).chain([100]).collect::<Vec<_>>());
        });
    });
}
