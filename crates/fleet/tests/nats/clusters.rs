//! Fleets on a cluster of three servers, of which one is killed.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use ecru::{Source, channel};
use ecru_fleet::{Fleet, Function, SendError, Sent};
use ecru_nats::Client;

use crate::cluster::{Cluster, settled, until};

/// A lease that is longer than it takes to ask a server, and not much longer: a job that was handed
/// out by a server that was killed comes again after it.
const LEASE: Duration = Duration::from_secs(3);

/// How long a test may take. Most take less than a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a test, and cancels what takes too long: a test that hangs would show nothing.
fn limited(test: impl FnOnce() -> io::Result<()>) {
    ecru::run(|| ecru::timeout(LIMIT, test)).expect("the test ends in time").unwrap();
}

/// Sends a job once, whatever happens to the servers.
fn send(queue: &ecru_fleet::Queue<u32>, job: u32) {
    let mut sent = queue.send(job);
    loop {
        match sent {
            Ok(_) => return,
            // It is perhaps stored.
            Err(SendError::Unknown { job, id }) => sent = queue.send_again(&id, job),
            Err(SendError::Refused { job, .. }) => {
                ecru::sleep(Duration::from_millis(50)).unwrap();
                sent = queue.send(job);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Opens a function with three replicas.
fn double<'s>(fleet: &Fleet<'s>) -> Function<'s, u32, u32> {
    until(|| {
        let double = fleet.function("double", |number: u32, _| Ok(2 * number));
        double.replicas(3).lease(LEASE).attempts(1000).open()
    })
}

/// - given: a queue with three replicas, and a worker
/// - when: the leader of the queue's stream is killed and starts again, twice
/// - then: each job is worked on, those included that were sent without a leader, and nothing is
///   left
#[test]
fn fleet_358_a_killed_leader_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let open = || fleet.queue::<u32>("mill").replicas(3).lease(LEASE).attempts(1000).open();
            let queue = until(open);
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let (worked, done) = channel::unbounded();
            let jobs = until(|| queue.jobs(8));
            s.spawn_daemon(move || {
                for job in &jobs {
                    worked.send(*job).unwrap();
                    // After an error the job comes again, unless only the answer was lost: so it
                    // has been counted before.
                    let _ = job.done();
                }
            });
            let (mut sent, mut seen) = (0, BTreeSet::new());
            for _ in 0..2 {
                let leader = settled(&js, "fleet-jobs-q_mill");
                for half in 0..2 {
                    for _ in 0..20 {
                        send(&queue, sent);
                        sent += 1;
                    }
                    if half == 0 {
                        cluster.kill(&leader);
                    }
                }
                while seen.len() < sent as usize {
                    seen.insert(done.recv().expect("the worker goes on"));
                }
                cluster.restart(&leader);
            }
            settled(&js, "fleet-jobs-q_mill");
            let left = until(|| match queue.stats() {
                Ok(stats) if stats.queued + stats.running == 0 => Ok(stats),
                other => Err(format!("{other:?}")),
            });
            assert_eq!(left.dead, 0);
            Ok(())
        })
    });
}

/// - given: a function with three replicas, which a process serves
/// - when: it is called while the leader of its jobs or of its results is killed and starts again
/// - then: each call has its result
#[test]
fn fleet_359_calls_without_a_leader_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let double = double(&fleet);
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let served = double.clone();
            s.spawn_daemon(move || served.serve(4));
            assert_eq!(until(|| double.call(1)), 2);
            for (round, stream) in
                ["fleet-jobs-f_double", "KV_fleet-results-f_double"].iter().enumerate()
            {
                let leader = settled(&js, stream);
                let calls: Vec<_> = (0..8)
                    .map(|n| {
                        let double = double.clone();
                        let key = format!("{round}-{n}");
                        // A call whose outcome is not known is repeated under its key.
                        s.spawn(move || until(|| double.call_keyed(&key, n)))
                    })
                    .collect();
                cluster.kill(&leader);
                for (n, call) in calls.into_iter().enumerate() {
                    assert_eq!(call.join().unwrap() as usize, 2 * n);
                }
                cluster.restart(&leader);
            }
            Ok(())
        })
    });
}

/// - given: a run with three replicas whose results are stored
/// - when: it is mapped again, and the leader of its results is killed before they are read
/// - then: each result is read
#[test]
fn fleet_360_stored_results_without_a_leader_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let double = double(&fleet);
            let served = double.clone();
            s.spawn_daemon(move || served.serve(4));
            let once: Vec<u32> = double.map("numbers", 0..40)?.collect::<Result<_, _>>().unwrap();
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let leader = settled(&js, "KV_fleet-results-f_double");
            let mut again = double.map("numbers", 0..40)?;
            let first = again.next().unwrap().unwrap();
            cluster.kill(&leader);
            let rest = again.map(Result::unwrap);
            assert_eq!(std::iter::once(first).chain(rest).collect::<Vec<_>>(), once);
            Ok(())
        })
    });
}

/// - given: a function with three replicas, and a caller whose calls have returned
/// - when: each server in turn is killed, and starts again only after another call
/// - then: that call returns, although one of the servers told the caller of results
#[test]
fn fleet_361_calls_outlive_each_server_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let double = double(&fleet);
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let served = double.clone();
            s.spawn_daemon(move || served.serve(4));
            assert_eq!(until(|| double.call(0)), 0);
            for (number, server) in (1..).zip(["n1", "n2", "n3"]) {
                cluster.kill(server);
                assert_eq!(until(|| double.call(number)), 2 * number);
                cluster.restart(server);
                settled(&js, "fleet-jobs-f_double");
                settled(&js, "KV_fleet-results-f_double");
            }
            Ok(())
        })
    });
}

/// - given: a queue with three replicas
/// - when: jobs are sent again under their ids while the servers store the first attempts
/// - then: no attempt is refused: some are `Unknown`, later ones tell that the job is stored, and
///   each job is stored once
#[test]
fn fleet_364_sent_again_while_it_is_stored_slow() {
    let Some(cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let queue = until(|| fleet.queue::<u32>("mill").replicas(3).open());
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            settled(&js, "fleet-jobs-q_mill");
            let mut on_their_way = 0;
            for job in 0..200 {
                let first = queue.begin_send(job);
                let id = first.id().clone();
                match queue.send_again(&id, job) {
                    Ok(_) => {}
                    Err(SendError::Unknown { .. }) => on_their_way += 1,
                    // On a busy machine the servers may elect another leader.
                    Err(SendError::Refused { error, .. })
                        if error.kind() == io::ErrorKind::ResourceBusy => {}
                    other => panic!("{other:?}"),
                }
                drop(first.wait()?);
                until(|| queue.send_again(&id, job));
                assert_eq!(until(|| queue.send_again(&id, job)), Sent::Already);
            }
            assert!(on_their_way > 0, "each attempt came after the first one was stored");
            assert_eq!(queue.stats()?.queued, 200);
            Ok(())
        })
    });
}

/// - given: a cluster, and four processes
/// - when: they open a queue with three replicas and a setting each, at the same moment; then with
///   other values, and once more as soon as the leader of the queue has been killed
/// - then: all settings are in force each time
#[test]
fn fleet_387_settings_at_the_same_moment_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    limited(|| {
        ecru::scope(|s| {
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let jobs = "fleet-jobs-q_mill";
            for (limit, capacity) in [(3, 50), (4, 60), (5, 70)] {
                if limit == 5 {
                    let leader = settled(&js, jobs);
                    cluster.kill(&leader);
                }
                let gate = ecru::sync::Barrier::new(4);
                let open = |number: usize| {
                    ecru::scope(|s| {
                        let fleet = until(|| Fleet::connect(s, &cluster.urls()));
                        fleet.on_warning(|_| {});
                        gate.wait().unwrap();
                        until(|| {
                            let queue = fleet.queue::<u32>("mill").replicas(3);
                            let queue = match number {
                                0 => queue.priorities(),
                                1 => queue.limit(limit),
                                2 => queue.lease(LEASE),
                                _ => queue.capacity(capacity),
                            };
                            queue.open().map(drop)
                        });
                    });
                };
                ecru::par::map(0..4, open);
                let config = until(|| js.stream_info(jobs)).config;
                let workers = until(|| js.consumer(jobs, "workers")?.info()).config;
                assert_eq!((config.replicas, config.max_messages), (3, Some(capacity)));
                let found = (workers.max_ack_pending, workers.ack_wait);
                assert_eq!(found, (Some(i64::try_from(limit).unwrap()), Some(LEASE)));
                assert!(config.subjects.len() == 4 && workers.filter_subject.is_some());
            }
            Ok(())
        })
    });
}
