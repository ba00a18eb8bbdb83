//! Jobs that are stored together or not at all, and jobs that two processes send at the same times.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Queue, SendError};

use crate::server::{Answer, Broker};
use crate::support::{Ledger, SECOND, join, member, until, until_idle};

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").open()
}

const JOBS: &str = "fleet-jobs-q_mill";

/// Sends a batch until it is known to be stored. Returns how often the outcome was not known.
fn send_all(queue: &Queue<u32>, mut jobs: Vec<u32>) -> io::Result<u32> {
    let mut sent = queue.send_all(jobs);
    let mut unknown = 0;
    loop {
        sent = match sent {
            Ok(_) => return Ok(unknown),
            Err(SendError::Unknown { job, id }) => {
                unknown += 1;
                queue.send_all_again(&id, job)
            }
            Err(SendError::Refused { job, error })
                if error.kind() == io::ErrorKind::ResourceBusy =>
            {
                ecru::sleep(SECOND / 10)?;
                jobs = job;
                queue.send_all(jobs)
            }
            Err(error) => return Err(error.into()),
        };
    }
}

/// - given: a queue, and a server whose answers to batches are lost for a while
/// - when: a batch is sent, and again by the id in the error, also after the jobs are done
/// - then: the outcome is `Unknown` until there is an answer, and each job is stored once
#[test]
fn fleet_424_a_batch_without_an_answer() {
    sim::test(|| {
        let broker = Broker::start();
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            // The first answer only tells that there are batches. The second one is lost.
            let mut answers = 0;
            broker.answer(move |question| {
                answers += u32::from(question.is_job());
                if question.is_job() && answers == 2 { Answer::Lost } else { Answer::Sent }
            });
            let error = queue.send_all(0..5).unwrap_err();
            let SendError::Unknown { job, id } = error else { panic!("{error}") };
            assert_eq!(broker.stored(JOBS), 5);
            let ids = queue.send_all_again(&id, job.clone()).unwrap();
            assert_eq!((ids.len(), broker.stored(JOBS)), (5, 5));
            for job in queue.jobs(2).unwrap().iter().take(5) {
                job.done().unwrap();
            }
            assert_eq!(queue.send_all_again(&id, job).unwrap(), ids);
            assert_eq!(broker.stored(JOBS), 0);
        });
    });
}

/// - given: a queue, and a worker
/// - when: batches are sent while the server is killed and starts again, at times that the seed
///   chooses
/// - then: at each moment all jobs of a batch are stored or none, and each is worked on
#[test]
fn fleet_425_a_batch_and_a_killed_server_slow() {
    sim::test(|| {
        let (broker, worked) = (Broker::start(), Ledger::new());
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            let own = queue.clone();
            let sender = s.spawn(move || send_all(&own, (0..20).collect()));
            for _ in 0..sim::random_u64() % 40 {
                sim::point();
                ecru::yield_now().unwrap();
            }
            broker.kill();
            assert!([0, 20].contains(&broker.stored(JOBS)), "{}", broker.stored(JOBS));
            ecru::sleep(SECOND).unwrap();
            broker.restart();
            sender.join().unwrap().unwrap();
            assert_eq!(broker.stored(JOBS), 20);
            let own = worked.clone();
            member("worker", move |fleet| {
                for job in open(fleet)?.jobs(4)? {
                    own.note(*job);
                    job.done()?;
                }
                Ok(())
            });
            until_idle(|| queue.stats());
            let mut all = worked.all();
            all.sort_unstable();
            assert_eq!(all, (0..20).collect::<Vec<_>>());
        });
    });
}

/// - given: two processes with a schedule for each minute, one of which starts late, and is paused
///   for a minute later
/// - when: some minutes pass
/// - then: each minute has one job
#[test]
fn fleet_426_two_processes_have_a_schedule_slow() {
    sim::test(|| {
        let (broker, worked) = (Broker::start(), Ledger::new());
        let hosts: Vec<_> = ["one", "other"]
            .into_iter()
            .map(|name| {
                member(name, move |fleet| {
                    if name == "other" {
                        ecru::sleep(70 * SECOND)?;
                    }
                    open(fleet)?.cron("tick", "* * * * *", "UTC", 7)?;
                    Ok(ecru::sleep(10_000 * SECOND)?)
                })
            })
            .collect();
        let own = worked.clone();
        member("worker", move |fleet| {
            for job in open(fleet)?.jobs(1)? {
                own.note(job.id().to_string());
                job.done()?;
            }
            Ok(())
        });
        ecru::sleep(130 * SECOND).unwrap();
        hosts[0].pause();
        ecru::sleep(60 * SECOND).unwrap();
        hosts[0].resume();
        ecru::sleep(165 * SECOND).unwrap();
        until(|| worked.count(|id| id == "tick/360000") > 0 && broker.stored(JOBS) == 0);
        let mut expected: Vec<_> =
            (1..=6).map(|minute| format!("tick/{}", 60_000 * minute)).collect();
        let mut all = worked.all();
        expected.sort_unstable();
        all.sort_unstable();
        assert_eq!(all, expected);
    });
}
