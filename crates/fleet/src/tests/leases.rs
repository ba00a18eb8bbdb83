//! Leases of holders that crash or lose their connections.

use std::time::Duration;

use ecru::time::now;

use super::remote::{Link, Server};
use crate::{Fleet, LeaseLost, Queue};

const LEASE: Duration = Duration::from_secs(30);

fn open(fleet: &crate::Fleet<'_>) -> Queue<u32> {
    fleet.queue("n").lease(LEASE).open().unwrap()
}

/// - given: a worker in the middle of a job, and another worker that is free
/// - when: the first one's process dies
/// - then: the job runs again on the other one, at the latest one lease later
#[test]
fn fleet_50_a_crashed_worker() {
    ecru::sim::test(|| {
        let (server, link) = (Server::new(), Link::default());
        let (begun, has_begun) = ecru::channel::bounded(1);
        ecru::scope(|s| {
            let first = s.spawn(|| {
                ecru::scope(|s| {
                    let queue = open(&server.fleet(s, &link));
                    queue.send(7).unwrap();
                    let job = queue.jobs(1).unwrap().recv().unwrap();
                    begun.send(()).unwrap();
                    job.run(|_| ecru::sleep(Duration::MAX))
                })
            });
            has_begun.recv().unwrap();
            // The lease has been renewed several times.
            ecru::sleep(3 * LEASE + LEASE / 7).unwrap();
            let crashed = now();
            link.cut();
            first.cancel();
            let queue = open(&server.fleet(s, &Link::default()));
            let job = queue.jobs(1).unwrap().recv().unwrap();
            let after = now() - crashed;
            assert!(after <= LEASE && after >= LEASE / 2, "{after:?}");
            assert_eq!((*job, job.attempt()), (7, 2));
            job.done().unwrap();
        });
    });
}

/// - given: a job in `run`, and another worker
/// - when: its holder has no connection for a whole lease
/// - then: the holder gives up before another one begins: the waits in `run` are cancelled, `run`
///   returns `LeaseLost::Expired`, and `done` fails without removing the job
#[test]
fn fleet_51_a_lost_lease() {
    ecru::sim::test(|| {
        let (server, link) = (Server::new(), Link::default());
        ecru::scope(|s| {
            let queue = open(&server.fleet(s, &link));
            queue.send(7).unwrap();
            let job = queue.jobs(1).unwrap().recv().unwrap();
            let other = s.spawn(|| {
                ecru::scope(|s| {
                    let queue = open(&server.fleet(s, &Link::default()));
                    let job = queue.jobs(1).unwrap().recv().unwrap();
                    let begun = now();
                    job.done().unwrap();
                    begun
                })
            });
            let mut cut = now();
            let mut cancelled = None;
            let result = job.run(|_| {
                cut = now();
                link.cut();
                assert!(ecru::sleep(Duration::MAX).is_err());
                cancelled = Some(now());
            });
            assert_eq!(result, Err(LeaseLost::Expired));
            let cancelled = cancelled.unwrap();
            assert!(cancelled - cut <= LEASE);
            assert!(cancelled <= other.join().unwrap());
            link.mend();
            let error = job.done().unwrap_err();
            assert!(error.to_string().contains("not renewed in time"), "{error}");
        });
    });
}

/// - given: jobs in the channel and in `run`
/// - when: the connection is lost for half of a lease, again and again
/// - then: no lease is lost
#[test]
fn fleet_52_short_partitions() {
    ecru::sim::test(|| {
        let (server, link) = (Server::new(), Link::default());
        ecru::scope(|s| {
            let queue = open(&server.fleet(s, &link));
            queue.send(1).unwrap();
            queue.send(2).unwrap();
            let jobs = queue.jobs(2).unwrap();
            let job = jobs.recv().unwrap();
            s.spawn_daemon(|| {
                while ecru::sleep(LEASE / 2).is_ok() {
                    link.cut();
                    if ecru::sleep(LEASE / 2).is_err() {
                        break;
                    }
                    link.mend();
                }
            });
            assert_eq!(job.run(|_| ecru::sleep(10 * LEASE + LEASE / 4)), Ok(Ok(())));
            job.done().unwrap();
            let job = jobs.recv().unwrap();
            assert_eq!(job.attempt(), 1);
            job.done().unwrap();
        });
    });
}

/// - given: two jobs in memory that a program with one thread holds
/// - when: one of them blocks the thread for three leases
/// - then: both are done in their first attempts
#[test]
fn fleet_100_a_blocked_thread_in_memory_slow() {
    let lease = Duration::from_secs(1);
    let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            let queue = Fleet::local(s).queue("n").lease(lease).open().unwrap();
            queue.send(1).unwrap();
            queue.send(2).unwrap();
            let jobs = queue.jobs(2).unwrap();
            let [one, other] = [jobs.recv().unwrap(), jobs.recv().unwrap()];
            assert_eq!(one.run(|_| std::thread::sleep(3 * lease)), Ok(()));
            for job in [one, other] {
                assert_eq!(job.attempt(), 1);
                job.done().unwrap();
            }
            assert_eq!(queue.stats().unwrap().running, 0);
        });
    });
}
