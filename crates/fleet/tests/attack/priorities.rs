//! Priorities, rates, orders of keys and limits together, and settings that change between runs.

use std::io;
use std::time::Duration;

use ecru::channel::Receiver;
use ecru_fleet::{Fleet, Job, JobId, Queue, SendError, Sent, Update};

use crate::support::{LONG, RETRY, SECOND, SOON, both, local, real, twice, until};

/// Sends jobs of a priority, as numbers whose hundreds are the priority.
fn send(queue: &Queue<u32>, priority: u8, count: u32) -> io::Result<()> {
    queue.priority(priority).send_all((0..count).map(|n| 100 * u32::from(priority) + n))?;
    Ok(())
}

/// Receives jobs one after another, and returns them.
fn take(jobs: &Receiver<Job<u32>>, count: usize) -> io::Result<Vec<u32>> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let job = ecru::timeout(LONG, || jobs.recv())??;
        seen.push(*job);
        job.done()?;
    }
    Ok(seen)
}

fn until_queued(queue: &Queue<u32>, wanted: [u64; 4]) {
    until(|| queue.stats().unwrap().queued_by_priority == wanted);
}

#[test]
fn a_receiver_that_is_older_than_the_priorities_slow() {
    both(|fleet| {
        fleet.on_warning(|_| {});
        let queue = fleet.queue::<u32>("n").open()?;
        let jobs = queue.jobs(8)?;
        queue.update(Update::new().priorities())?;
        // The receiver asks in the new way from here on.
        queue.priority(1).send(100)?;
        assert_eq!(take(&jobs, 1)?, [100]);
        send(&queue, 3, 8)?;
        until(|| queue.stats().unwrap().running == 8);
        // All of them are here, and one at most is in the channel.
        let first = jobs.recv()?;
        queue.send(7)?;
        first.done()?;
        until(|| queue.stats().unwrap().running_by_priority[0] == 1);
        let seen = take(&jobs, 8)?;
        assert!(seen[..2].contains(&7), "{seen:?}");
        Ok(())
    });
}

#[test]
fn a_receiver_that_comes_late_to_a_rate() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").rate(2, SECOND).open()?;
        send(&queue, 0, 8)?;
        let jobs = queue.jobs(8)?;
        // Time in which a job could be handed out, if anything would take it.
        ecru::sleep(10 * SECOND)?;
        let begun = ecru::time::now();
        let mut times = Vec::new();
        for _ in 0..6 {
            drop(jobs.recv()?.done());
            times.push(ecru::time::now() - begun);
        }
        for three in times.windows(3) {
            assert!(three[2] - three[0] >= SECOND - SOON, "{times:?}");
        }
        Ok(())
    });
}

#[test]
fn a_receiver_that_only_polls_has_its_jobs_at_a_rate() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().rate(5, SECOND).open()?;
        send(&queue, 2, 3)?;
        let jobs = queue.jobs(4)?;
        let mut seen = Vec::new();
        until(|| {
            seen.extend(jobs.try_recv().map(|job| {
                let number = *job;
                job.done().unwrap();
                number
            }));
            seen.len() == 3
        });
        assert_eq!(seen, [200, 201, 202]);
        Ok(())
    });
}

#[test]
fn a_rate_a_limit_and_priorities_slow() {
    both(|fleet| {
        let period = Duration::from_millis(300);
        let open = || {
            let queue = fleet.queue::<u32>("n").priorities().limit(2);
            queue.rate(4, period).retry(RETRY).open()
        };
        let queue = open()?;
        for priority in 0..4 {
            send(&queue, priority, 3)?;
        }
        until_queued(&queue, [3; 4]);
        let (left, right) = (queue.jobs(8)?, open()?.jobs(8)?);
        let begun = ecru::time::now();
        // The limit holds although both have large windows.
        let mut held: Vec<Job<u32>> = Vec::new();
        let mut count = 0;
        while count < 12 {
            assert!(queue.stats()?.running <= 2);
            if let Some(job) = held.pop() {
                job.done()?;
                count += 1;
            }
            for jobs in [&left, &right] {
                held.extend(jobs.recv_timeout(SOON).ok());
            }
        }
        assert!(ecru::time::now() - begun >= 2 * period - 2 * SOON);
        until(|| queue.stats().unwrap().running == 0);
        Ok(())
    });
}

#[test]
fn a_rate_and_an_order() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").per_key(1).rate(50, SECOND).retry(RETRY).open()?;
        for n in 0..4 {
            for key in ["a", "b"] {
                queue.send_keyed(key, n)?;
            }
        }
        let jobs = queue.jobs(16)?;
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..8 {
            let job = ecru::timeout(LONG, || jobs.recv())??;
            seen[usize::from(job.id().as_str().starts_with('b'))].push(*job);
            job.done()?;
        }
        assert_eq!(seen, [[0, 1, 2, 3], [0, 1, 2, 3]]);
        Ok(())
    });
}

#[test]
fn an_order_gets_no_limit_later() {
    both(|fleet| {
        fleet.on_warning(|_| {});
        let queue = fleet.queue::<u32>("n").per_key(1).open()?;
        fleet.queue::<u32>("limited").limit(2).open()?;
        let errors = [
            queue.update(Update::new().limit(3)).unwrap_err(),
            fleet.queue::<u32>("n").limit(3).open().unwrap_err(),
            fleet.queue::<u32>("limited").per_key(1).open().unwrap_err(),
            queue.update(Update::new().priorities()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("per_key"), "{error}");
        }
        // Nothing of it was changed: the limit would let no second job come.
        queue.send_keyed("a", 1)?;
        for n in 0..4 {
            queue.send(n)?;
        }
        let jobs = queue.jobs(8)?;
        let held: Vec<_> = (0..5).map(|_| jobs.recv().unwrap()).collect();
        assert_eq!(held.len(), 5);
        Ok(())
    });
}

#[test]
fn a_second_run_without_a_word_about_priorities_slow() {
    real(|server| {
        let with = |body: &dyn Fn(&Fleet<'_>) -> io::Result<()>| {
            ecru::scope(|s| {
                let fleet = Fleet::connect(s, &server.url())?;
                fleet.on_warning(|_| {});
                body(&fleet)
            })
        };
        with(&|fleet| {
            let queue = fleet.queue::<u32>("n").priorities().limit(3).open()?;
            (0..4).rev().try_for_each(|priority| send(&queue, priority, 2))
        })?;
        // As after a return to an earlier version of the program.
        with(&|fleet| {
            let queue = fleet.queue::<u32>("n").open()?;
            until_queued(&queue, [2; 4]);
            queue.priority(1).send_keyed("k", 199)?;
            assert_eq!(queue.send_keyed("k", 0)?, Sent::Already);
            assert_eq!(take(&queue.jobs(1)?, 3)?, [0, 1, 100]);
            let jobs = queue.jobs(8)?;
            let held: Vec<_> = (0..3).map(|_| jobs.recv().unwrap()).collect();
            assert_eq!(held.iter().map(|job| **job).collect::<Vec<_>>(), [101, 199, 200]);
            assert!(jobs.recv_timeout(SECOND / 2).is_err(), "the limit is three");
            Ok(())
        })?;
        with(&|fleet| {
            let queue = fleet.queue::<u32>("n").priorities().open()?;
            let mut left = take(&queue.jobs(8)?, 6)?;
            left.sort_unstable();
            assert_eq!(left, [101, 199, 200, 201, 300, 301]);
            Ok(())
        })
    });
}

#[test]
fn many_processes_give_a_queue_priorities_at_once_slow() {
    real(|server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            fleet.on_warning(|_| {});
            let queue = fleet.queue::<u32>("n").limit(3).open()?;
            send(&queue, 0, 5)?;
            let jobs = queue.jobs(2)?;
            let held = jobs.recv()?;
            ecru::par::map(0..6, |n| {
                ecru::scope(|s| {
                    let fleet = Fleet::connect(s, &server.url()).unwrap();
                    fleet.on_warning(|_| {});
                    let queue = fleet.queue::<u32>("n").priorities().open().unwrap();
                    queue.priority(n % 4).send_keyed("one", 1000).unwrap();
                });
            });
            held.done()?;
            let seen = take(&jobs, 5)?;
            assert_eq!(seen.iter().filter(|number| **number == 1000).count(), 1, "{seen:?}");
            Ok(())
        })
    });
}

#[test]
fn the_largest_windows_slow() {
    twice(|fleet| {
        for (name, window) in [("a", 5000), ("b", 1_000_000), ("c", usize::MAX)] {
            for is_limited in [false, true] {
                let mut queue = fleet.queue::<u32>(&format!("{name}{is_limited}")).priorities();
                if is_limited {
                    queue = queue.limit(4);
                }
                let queue = queue.open()?;
                (0..4).try_for_each(|priority| send(&queue, priority, 6))?;
                let mut seen = take(&queue.jobs(window)?, 24)?;
                seen.sort_unstable();
                let all = (0..4).flat_map(|priority| (0..6).map(move |n| 100 * priority + n));
                assert!(seen.into_iter().eq(all), "{window}");
            }
        }
        Ok(())
    });
}

#[test]
fn jobs_for_later_take_no_place_of_a_limit_slow() {
    // In memory, a job that is not due has a place, as in each queue without priorities.
    real(|server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let queue = fleet.queue::<u32>("n").priorities().limit(1).lease(30 * SECOND).open()?;
            for n in 0..5 {
                queue.send_after(20 * SECOND, n)?;
            }
            let jobs = queue.jobs(4)?;
            queue.priority(3).send(300)?;
            // The urgent ones are not due, and the only place is for the job that is.
            assert_eq!(*ecru::timeout(10 * SECOND, || jobs.recv())??, 300);
            Ok(())
        })
    });
}

#[test]
fn a_pause_and_a_drain_of_all_priorities_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().limit(8).open()?;
        let jobs = queue.jobs(4)?;
        queue.pause(LONG)?;
        (0..4).try_for_each(|priority| send(&queue, priority, 1))?;
        assert!(jobs.recv_timeout(SECOND).is_err());
        queue.pause(Duration::ZERO)?;
        assert_eq!(take(&jobs, 4)?.len(), 4);
        Ok(())
    });
}

#[test]
fn what_is_asked_for_ahead_is_given_back_without_an_attempt_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().attempts(2).retry(RETRY).open()?;
        (0..4).try_for_each(|priority| send(&queue, priority, 3))?;
        until_queued(&queue, [3; 4]);
        for _ in 0..5 {
            let jobs = queue.jobs(12)?;
            until(|| queue.stats().unwrap().running == 12);
            drop(jobs);
        }
        let jobs = queue.jobs(1)?;
        for _ in 0..12 {
            let job = ecru::timeout(LONG, || jobs.recv())??;
            assert_eq!(job.attempt(), 1);
            job.done()?;
        }
        assert_eq!(queue.stats()?.dead, 0);
        Ok(())
    });
}

#[test]
fn a_batch_and_a_job_are_sent_again_by_another_handle() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().open()?;
        let (third, first) = (queue.priority(3), queue.priority(1));
        let (batch, id) = ecru::cancel_scope(|handle| {
            handle.cancel();
            let batch = match third.send_all([300, 301]) {
                Err(SendError::Cancelled { id, .. }) => id,
                other => panic!("{other:?}"),
            };
            match third.send(302) {
                Err(SendError::Cancelled { id, .. }) => (batch, id),
                other => panic!("{other:?}"),
            }
        });
        for handle in [&first, &queue, &first] {
            handle.send_all_again(&batch, vec![300, 301])?;
            handle.send_again(&id, 302)?;
        }
        assert_eq!(queue.stats()?.queued_by_priority, [0, 0, 0, 3]);
        // A key has no priority of its own.
        let key = JobId::from_key("k")?;
        first.send_again(&key, 100)?;
        assert_eq!(third.send_again(&key, 300)?, Sent::Already);
        assert_eq!(queue.stats()?.queued_by_priority, [0, 1, 0, 3]);
        Ok(())
    });
}

#[test]
fn a_schedule_changes_its_priority() {
    local(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().open()?;
        queue.priority(3).every("tick", SECOND, 300)?;
        ecru::sleep(SECOND + SOON)?;
        queue.priority(1).every("tick", SECOND, 100)?;
        ecru::sleep(2 * SECOND)?;
        let counts = queue.stats()?.queued_by_priority;
        assert!(counts[3] <= 2 && counts[1] >= 1 && counts[1] + counts[3] <= 4, "{counts:?}");
        ecru::sleep(3 * SECOND)?;
        assert_eq!(queue.stats()?.queued_by_priority[3], counts[3]);
        Ok(())
    });
}

#[test]
fn a_capacity_counts_all_priorities() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().capacity(3).open()?;
        (1..4).try_for_each(|priority| send(&queue, priority, 1))?;
        assert!(matches!(queue.send(7), Err(SendError::Full(7))));
        assert!(matches!(queue.priority(2).send_all([1]), Err(SendError::Full(_))));
        // There is such a job, whatever the capacity.
        let queue = fleet.queue::<u32>("k").priorities().capacity(1).open()?;
        queue.priority(3).send_keyed("k", 1)?;
        assert_eq!(queue.priority(0).send_keyed("k", 1)?, Sent::Already);
        Ok(())
    });
}

#[test]
fn one_place_of_a_limit_and_many_receivers_slow() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").priorities().limit(1).retry(RETRY).open()?;
        (0..4).try_for_each(|priority| send(&queue, priority, 5))?;
        let receivers: Vec<_> = (0..4).map(|_| queue.jobs(3)).collect::<Result<_, _>>()?;
        let mut count = 0;
        ecru::timeout(LONG, || {
            while count < 20 {
                let Ok(job) = receivers[count % 4].recv_timeout(SOON) else {
                    // Another one has the place.
                    for jobs in &receivers {
                        if let Ok(job) = jobs.recv_timeout(SOON) {
                            job.done()?;
                            count += 1;
                        }
                    }
                    continue;
                };
                job.done()?;
                count += 1;
            }
            Ok::<(), io::Error>(())
        })??;
        until(|| queue.stats().unwrap().running == 0);
        Ok(())
    });
}

#[test]
fn priorities_at_the_end_of_a_fleet() {
    local(|_| {
        let queue = ecru::scope(|s| {
            let fleet = Fleet::local(s);
            fleet.queue::<u32>("n").open()
        })?;
        // It would have to look whether the queue has priorities by now.
        assert!(matches!(queue.priority(2).send(2), Err(SendError::Disconnected(2))));
        assert!(matches!(queue.priority(9).send(2), Err(SendError::Refused { .. })));
        let error = queue.priority(2).every("tick", SECOND, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        Ok(())
    });
}
