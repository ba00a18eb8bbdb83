//! Jobs with priorities, while processes and the server fail.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Queue, SendError, Sent, Update};

use crate::server::Broker;
use crate::support::{Ledger, RETRY, SECOND, SOON, join, member, until, until_idle};

const JOBS: u32 = 12;

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").priorities().limit(3).lease(2 * SECOND).retry(RETRY).open()
}

/// Works on all jobs that come, each in a task.
fn work(queue: &Queue<u32>, window: usize, seen: &Ledger<(u32, &'static str)>) -> io::Result<()> {
    let jobs = queue.jobs(window)?;
    ecru::scope(|s| {
        for job in jobs {
            let seen = seen.clone();
            s.spawn(move || {
                let number = *job;
                let ran = job.run(|_| {
                    seen.note((number, "begun"));
                    ecru::sleep(SOON)
                });
                if let Ok(Ok(())) = ran {
                    // A process that is killed later may have settled it.
                    seen.note((number, "worked"));
                    if job.done().is_ok() {
                        seen.note((number, "done"));
                    }
                }
            });
        }
    });
    Ok(())
}

/// Sends jobs of all priorities. Returns when each is stored.
fn send(queue: &Queue<u32>) {
    for number in 0..JOBS {
        let queue = queue.priority((number % 4).try_into().unwrap());
        let key = format!("job {number}");
        let mut sent = queue.send_keyed(&key, number);
        // The server may not answer.
        while let Err(error) = sent {
            ecru::sleep(SOON).unwrap();
            sent = match error {
                SendError::Unknown { job, id } => queue.send_again(&id, job),
                error => queue.send_keyed(&key, error.into_inner()),
            };
        }
    }
}

/// - given: a queue with priorities and a limit of three, two processes that work with large
///   windows, and jobs of all priorities
/// - when: one process is killed at a time that the seed chooses, and started again, and the server
///   is killed and started again
/// - then: each job is worked on, and afterwards there are still as many places as the limit has
#[test]
fn fleet_431_priorities_when_a_process_is_killed_slow() {
    sim::test(|| {
        let (broker, seen, joined) = (Broker::start(), Ledger::new(), Ledger::new());
        let hosts: Vec<_> = ["one", "two"]
            .into_iter()
            .map(|name| {
                let (seen, joined) = (seen.clone(), joined.clone());
                member(name, move |fleet| {
                    let queue = open(fleet)?;
                    joined.note(name);
                    work(&queue, 8, &seen)
                })
            })
            .collect();
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            send(&queue);
            ecru::sleep(SOON * u32::try_from(sim::random_u64() % 20).unwrap()).unwrap();
            hosts[0].crash();
            ecru::sleep(SOON * u32::try_from(sim::random_u64() % 20).unwrap()).unwrap();
            broker.kill();
            ecru::sleep(SECOND).unwrap();
            broker.restart();
            let before = joined.count(|name| *name == "one");
            hosts[0].restart();
            // A process that is about to join when the servers end would fail.
            until(|| joined.count(|name| *name == "one") > before);
            assert_eq!(until_idle(|| queue.stats()), 0);
            // Nobody else takes jobs.
            hosts.iter().for_each(|host| host.crash());
            ecru::sleep(5 * SECOND).unwrap();
            queue.priority(1).send_all(0..4).unwrap();
            let jobs = queue.jobs(8).unwrap();
            let held: Vec<_> = (0..3).map(|_| jobs.recv().unwrap()).collect();
            assert!(jobs.recv_timeout(SECOND).is_err());
            drop(held);
        });
        for number in 0..JOBS {
            assert!(seen.count(|event| *event == (number, "worked")) > 0, "{number} is lost");
        }
    });
}

/// - given: a process that works on a queue without priorities, of an older release, and jobs
/// - when: another process opens it with priorities at a time that the seed chooses, and both send
/// - then: each job is done, and once
#[test]
fn fleet_432_two_releases_slow() {
    sim::test(|| {
        let (_broker, seen) = (Broker::start(), Ledger::new());
        let own = seen.clone();
        let _old = member("old", move |fleet| {
            let queue = fleet.queue("mill").lease(2 * SECOND).open()?;
            ecru::scope(|s| {
                let worker = queue.clone();
                let seen = own.clone();
                s.spawn_daemon(move || work(&worker, 4, &seen));
                for number in 0..12 {
                    queue.send(number)?;
                    ecru::sleep(SOON)?;
                }
                ecru::sleep(100 * SECOND)?;
                Ok(())
            })
        });
        ecru::scope(|s| {
            let fleet = join(s).unwrap();
            fleet.on_warning(|_| {});
            ecru::sleep(SOON * u32::try_from(sim::random_u64() % 16).unwrap()).unwrap();
            let queue: Queue<u32> =
                fleet.queue("mill").lease(2 * SECOND).priorities().open().unwrap();
            for number in 12..24 {
                let sent = queue.priority((number % 4).try_into().unwrap()).send(number).unwrap();
                assert!(matches!(sent, Sent::New(_)));
            }
            until(|| seen.count(|(_, what)| *what == "done") == 24);
            assert_eq!(until_idle(|| queue.stats()), 0);
            // The other process works on all priorities, as nobody else does.
            queue.update(Update::new().limit(5)).unwrap();
            queue.priority(3).send(24).unwrap();
            until(|| seen.count(|event| *event == (24, "done")) == 1);
        });
        for number in 0..25 {
            let done = seen.count(|event| *event == (number, "done"));
            assert_eq!(done, 1, "{number}");
        }
    });
}
