//! The end of a fleet's scope.

use std::time::Duration;

use super::remote::{Link, Server};

const LEASE: Duration = Duration::from_secs(30);

/// - given: a worker with a job in `run` that goes on under a shield, and jobs in the channel
/// - when: the worker is cancelled, as by SIGTERM
/// - then: the jobs in the channel are given back at once; the running one keeps its lease for as
///   long as it takes, and its `done` succeeds; then the worker ends
#[test]
fn fleet_56_drain() {
    ecru::sim::test(|| {
        let server = Server::new();
        let (begun, has_begun) = ecru::channel::bounded(1);
        ecru::scope(|s| {
            let queue = server.fleet(s, &Link::default()).queue::<u32>("n").lease(LEASE);
            let queue = queue.open().unwrap();
            for number in 0..3 {
                queue.send(number).unwrap();
            }
            let worker = s.spawn(|| {
                ecru::scope(|s| {
                    let fleet = server.fleet(s, &Link::default());
                    let queue = fleet.queue::<u32>("n").lease(LEASE).open().unwrap();
                    let jobs = queue.jobs(3).unwrap();
                    let job = jobs.recv().unwrap();
                    // The others are in the channel.
                    while queue.stats().unwrap().running < 3 {
                        ecru::sleep(Duration::from_millis(1)).unwrap();
                    }
                    let worked = ecru::shield(|| {
                        job.run(|_| {
                            begun.send(()).unwrap();
                            ecru::sleep(5 * LEASE)
                        })
                    });
                    assert_eq!(worked, Ok(Ok(())));
                    assert!(jobs.recv().is_err());
                    job.done().unwrap();
                });
            });
            has_begun.recv().unwrap();
            let cancelled = ecru::time::now();
            worker.cancel();
            let jobs = queue.jobs(3).unwrap();
            for _ in 0..2 {
                let job = jobs.recv().unwrap();
                assert_eq!(job.attempt(), 1);
                job.done().unwrap();
            }
            assert!(ecru::time::now() - cancelled < Duration::from_secs(1));
            worker.join().unwrap();
            assert!(ecru::time::now() - cancelled >= 4 * LEASE);
            let stats = queue.stats().unwrap();
            assert_eq!((stats.queued, stats.running), (0, 0));
        });
    });
}

/// - given: a job that was received and then kept outside of the scope, and one that was forgotten
/// - when: the scope of the fleet ends
/// - then: the scope does not wait for the jobs
#[test]
fn fleet_57_a_kept_job() {
    ecru::sim::test(|| {
        let begun = ecru::time::now();
        let kept = ecru::scope(|s| {
            let queue = crate::Fleet::local(s).queue::<u32>("n").open().unwrap();
            queue.send(7).unwrap();
            queue.send(7).unwrap();
            let jobs = queue.jobs(2).unwrap();
            let _forgotten = std::mem::ManuallyDrop::new(jobs.recv().unwrap());
            jobs.recv().unwrap()
        });
        assert_eq!(ecru::time::now(), begun);
        assert_eq!(*kept, 7);
        assert!(kept.done().is_err());
    });
}
