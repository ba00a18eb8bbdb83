//! Holders that stand still, or get no answer: who settles the job.

use std::io;
use std::time::Duration;

use ecru::sim::{self, Host};
use ecru_fleet::{Fleet, JobId, Queue, SendError, Sent, Unsettled};

use crate::server::{Answer, Broker};
use crate::support::{Ledger, RETRY, SECOND, join, member, until, until_idle};

const LEASE: Duration = Duration::from_secs(10);
const JOBS: u32 = 3;

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(LEASE).attempts(100).retry(RETRY).open()
}

/// Works on jobs for two seconds each, and notes those that it was done with.
fn worker(name: &str, done: &Ledger<u32>) -> Host {
    let done = done.clone();
    member(name, move |fleet| {
        for job in open(fleet)?.jobs(1)? {
            let number = *job;
            if job.run(|_| ecru::sleep(SECOND)) == Ok(Ok(())) {
                ecru::sleep(SECOND)?;
                if job.done().is_ok() {
                    done.note(number);
                }
            }
        }
        Ok(())
    })
}

/// - given: two processes that work on jobs
/// - when: one of them stands still at any time, for up to three leases
/// - then: each job is settled by one `done`, although the job may have been worked on twice
#[test]
fn fleet_417_a_holder_that_stands_still() {
    sim::test(|| {
        let (_broker, done) = (Broker::start(), Ledger::new());
        let workers = ["one", "other"].map(|name| worker(name, &done));
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            // Both have asked for jobs.
            ecru::sleep(SECOND).unwrap();
            for number in 0..JOBS {
                let stops = &workers[usize::from(sim::chance(0.5))];
                // At any time between the request for the job and its end.
                let early = sim::chance(0.5);
                if early {
                    stops.pause();
                }
                queue.send(number).unwrap();
                if !early {
                    ecru::sleep(Duration::from_millis(sim::random_u64() % 2500)).unwrap();
                    stops.pause();
                }
                ecru::sleep(Duration::from_millis(sim::random_u64() % 30_000)).unwrap();
                stops.resume();
                assert_eq!(until_idle(|| queue.stats()), 0);
            }
            until(|| done.all().len() >= JOBS as usize);
            ecru::sleep(4 * LEASE).unwrap();
            let mut all = done.all();
            all.sort_unstable();
            assert_eq!(all, (0..JOBS).collect::<Vec<_>>());
        });
    });
}

/// - given: a worker that has done its work
/// - when: the server does not confirm that the job is settled, and from then on no renewal either
/// - then: `done` returns `Unknown` when the lease has ended; asked again, the server knows that
///   this attempt has settled the job, which is not handed out again
#[test]
fn fleet_418_an_unknown_settlement() {
    sim::test(|| {
        let broker = Broker::start();
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send(7).unwrap();
            let jobs = queue.jobs(1).unwrap();
            let job = jobs.recv().unwrap();
            job.run(|_| ()).unwrap();
            let is_claim_lost = sim::chance(0.5);
            let mut is_over = false;
            broker.answer(move |question| {
                is_over |= question.is_claim() && is_claim_lost || question.is_done();
                let is_deleted = question.subject.starts_with("$JS.API.STREAM.MSG.DELETE");
                if is_over || is_deleted { Answer::Lost } else { Answer::Sent }
            });
            let begun = sim::elapsed();
            let Err(Unsettled::Unknown(settlement)) = job.done() else {
                // The server was asked whether the job is there, in time.
                assert!(!is_claim_lost);
                return;
            };
            assert!(sim::elapsed() - begun <= LEASE);
            assert_eq!((*settlement, settlement.id().as_str().len()), (7, 26));
            broker.answer(|_| Answer::Sent);
            settlement.ask().unwrap();
            ecru::sleep(3 * LEASE).unwrap();
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert!(jobs.try_recv().is_err());
        });
    });
}

/// - given: a key whose job was sent, worked on and done
/// - when: another job is sent with the key within two minutes, and the connection is lost before
///   the message has reached the server
/// - then: sending it again by the id in the error stores it, and it is worked on; a third time is
///   `Already`
#[test]
fn fleet_419_a_key_is_sent_again() {
    sim::test(|| {
        let (broker, done) = (Broker::start(), Ledger::new());
        worker("worker", &done);
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            let first = queue.send_keyed("k", 1).unwrap();
            assert_eq!(first, Sent::New(JobId::from_key("k").unwrap()));
            done.wait(|number| *number == 1);
            for number in 2..5 {
                assert_eq!(until_idle(|| queue.stats()), 0);
                sim::partition(&[&sim::here()], &[broker.host()]);
                let sent = queue.send_keyed("k", number);
                let Err(SendError::Unknown { job, id }) = sent else { panic!("{sent:?}") };
                sim::link(&sim::here(), broker.host()).reset();
                sim::heal();
                let mut again = queue.send_again(&id, job);
                while let Err(SendError::Unknown { .. } | SendError::Refused { .. }) = again {
                    ecru::sleep(SECOND).unwrap();
                    again = queue.send_again(&id, job);
                }
                again.unwrap();
                done.wait(|worked| *worked == number);
                // It was stored once, although it is done.
                assert_eq!(queue.send_again(&id, job).unwrap(), Sent::Already);
            }
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert_eq!(done.all(), [1, 2, 3, 4]);
        });
    });
}

/// - given: a process that works on a job
/// - when: it stands still for most of a lease
/// - then: it is told once that the leases were looked after too late
#[test]
fn fleet_422_a_process_that_stands_still_is_told() {
    sim::test(|| {
        let (_broker, told) = (Broker::start(), Ledger::new());
        let own = told.clone();
        let worker = member("worker", move |fleet| {
            let tell = own.clone();
            fleet.on_warning(move |text| tell.note(text.to_owned()));
            for job in open(fleet)?.jobs(1)? {
                // The lease may be lost meanwhile.
                if job.run(|_| ecru::sleep(LEASE)) == Ok(Ok(())) {
                    let _ = job.done();
                }
            }
            Ok(())
        });
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send(7).unwrap();
            until(|| queue.stats().is_ok_and(|stats| stats.running == 1));
            worker.pause();
            ecru::sleep(LEASE * 5 / 6).unwrap();
            worker.resume();
            told.wait(|text| text.contains("too late"));
            assert_eq!(until_idle(|| queue.stats()), 0);
            assert_eq!(told.all().len(), 1);
        });
    });
}

/// - given: two processes that have a schedule of the same name
/// - when: one of them dies, and later starts again
/// - then: at each time one job was stored
#[test]
fn fleet_423_a_schedule_of_two_processes() {
    sim::test(|| {
        let (_broker, done) = (Broker::start(), Ledger::new());
        let workers = ["one", "other"].map(|name| {
            let done = done.clone();
            member(name, move |fleet| {
                let queue = fleet.queue::<u32>("mill").lease(LEASE).open()?;
                queue.every("tick", SECOND, 7)?;
                for job in queue.jobs(1)? {
                    let id = job.id().as_str().to_owned();
                    job.run(|_| ())?;
                    if job.done().is_ok() {
                        done.note(id);
                    }
                }
                Ok(())
            })
        });
        ecru::sleep(5 * SECOND).unwrap();
        workers[0].crash();
        ecru::sleep(5 * SECOND).unwrap();
        workers[0].restart();
        // A job that the dead one had been handed comes again after its lease.
        ecru::sleep(5 * SECOND + LEASE).unwrap();
        let mut all = done.all();
        all.sort();
        let mut each = all.clone();
        each.dedup();
        assert_eq!(each, all);
        assert!(all.len() >= 23, "{all:?}");
    });
}
