//! Jobs with priorities.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ecru::channel::Receiver;
use ecru::schedule::Delay;
use ecru::sync::Latch;
use ecru_fleet::{Job, Queue, SendError, Sent, Update};

use crate::broker::each;

const SOON: Duration = Duration::from_millis(10);

/// Sends jobs of a priority, as numbers whose hundreds are the priority.
fn send(queue: &Queue<u32>, priority: u8, count: u32) -> io::Result<()> {
    queue.priority(priority).send_all((0..count).map(|n| 100 * u32::from(priority) + n))?;
    Ok(())
}

/// Receives jobs one after another, and returns the priorities.
fn take(jobs: &Receiver<Job<u32>>, count: usize) -> io::Result<Vec<u8>> {
    let mut seen = Vec::new();
    for job in jobs.iter().take(count) {
        seen.push(job.priority());
        job.run(|_| ())?;
        job.done()?;
    }
    Ok(seen)
}

/// Waits until a queue has these numbers of jobs, by their priorities.
fn until_queued(queue: &Queue<u32>, wanted: [u64; 4]) -> io::Result<()> {
    while queue.stats()?.queued_by_priority != wanted {
        ecru::sleep(SOON)?;
    }
    Ok(())
}

/// - given: a queue with priorities, and jobs that were sent with the least urgent ones first
/// - when: they are received one after another
/// - then: the most urgent ones come first, and those of a priority in the order in which they were
///   sent; the numbers of the queue are known by priority
#[test]
fn fleet_190_urgent_jobs_first() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").priorities().open()?;
        for priority in [3, 1, 2, 0] {
            send(&queue, priority, 2)?;
        }
        until_queued(&queue, [2; 4])?;
        let jobs = queue.jobs(1)?;
        let mut seen = Vec::new();
        for job in jobs.iter().take(8) {
            seen.push(*job);
            if seen.len() == 3 {
                let stats = queue.stats()?;
                assert_eq!(stats.running_by_priority, [0, 1, 0, 0]);
                assert_eq!((stats.queued, stats.running), (5, 1));
            }
            job.done()?;
        }
        assert_eq!(seen, [0, 1, 100, 101, 200, 201, 300, 301]);
        assert_eq!(queue.stats()?.queued, 0);
        Ok(())
    });
}

/// - given: a queue with many jobs of the most urgent priority, and some of each other one
/// - when: they are received, one at a time
/// - then: of each 24 jobs in a row, one at least is of each priority that still has jobs
#[test]
fn fleet_191_starvation_is_bounded_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").priorities().open()?;
        for priority in 1..4 {
            send(&queue, priority, 4)?;
        }
        send(&queue, 0, 80)?;
        until_queued(&queue, [80, 4, 4, 4])?;
        let seen = take(&queue.jobs(1)?, 92)?;
        for priority in 0..4 {
            let places: Vec<usize> = (0..92).filter(|place| seen[*place] == priority).collect();
            let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).chain([places[0] + 1]);
            assert!(gaps.max().unwrap() <= 24, "{priority}: {seen:?}");
        }
        assert_eq!(seen[..8], [0; 8]);
        Ok(())
    });
}

/// - given: a queue with jobs of the least urgent priority, and a receiver that has asked for four
/// - when: an urgent job is sent, and the receiver takes one job after another
/// - then: it comes before those that had not been asked for
#[test]
fn fleet_192_an_urgent_job_and_those_asked_for_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").priorities().open()?;
        send(&queue, 3, 8)?;
        let jobs = queue.jobs(4)?;
        let first = jobs.recv()?;
        while queue.stats()?.running < 4 {
            ecru::sleep(SOON)?;
        }
        queue.send(7)?;
        first.done()?;
        // Three have been asked for. The urgent job has the place that is free now.
        let seen = take(&jobs, 8)?;
        assert!(seen[..4].contains(&0), "{seen:?}");
        Ok(())
    });
}

/// - given: jobs of each priority in a queue with two attempts
/// - when: one is dropped and comes again, one is buried and revived, and one has a key
/// - then: each keeps its priority, and the key is taken whatever the priority is
#[test]
fn fleet_193_priorities_stay_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").priorities().retry(Delay::Constant(SOON)).open()?;
        let sent = queue.priority(2).send_keyed("a", 200)?;
        for priority in 0..4 {
            assert_eq!(queue.priority(priority).send_keyed("a", 1)?, Sent::Already);
        }
        assert_eq!(queue.send_keyed("a", 1)?, Sent::Already);
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        assert_eq!(sent, Sent::New(job.id().clone()));
        job.run(|_| ())?;
        drop(job);
        let again = jobs.recv()?;
        assert_eq!((*again, again.priority(), again.attempt()), (200, 2, 2));
        assert_eq!(queue.priority(0).send_keyed("a", 1)?, Sent::Already);
        again.bury("no")?;
        // The key is free as long as the job is dead.
        queue.priority(3).send_keyed("a", 300)?;
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.job(), dead.priority()), (Some(&200), 2));
        let error = dead.revive().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(take(&jobs, 1)?, [3]);
        queue.dead()?.recv()?.revive()?;
        assert_eq!(take(&jobs, 1)?, [2]);
        // One that is queued can be cancelled.
        let Sent::New(id) = queue.priority(1).send_keyed("b", 100)? else { panic!("it is new") };
        assert!(queue.cancel(&id)? && !queue.cancel(&id)?);
        Ok(())
    });
}

/// Works on so many jobs, all that come at once, and none ends before `together` of them have run
/// at the same time. Returns how many have run at most at a time.
fn work(receivers: &[Receiver<Job<u32>>], count: usize, together: usize) -> usize {
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (met, done) = (Latch::new(together), Latch::new(count));
    let body = || {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        met.count_down();
        let waited = met.wait();
        running.fetch_sub(1, Ordering::SeqCst);
        waited
    };
    ecru::scope(|s| {
        for jobs in receivers {
            let (body, done) = (&body, &done);
            s.spawn_daemon(move || {
                ecru::scope(|s| {
                    for job in jobs {
                        s.spawn(move || {
                            job.run(|_| body()).unwrap().unwrap();
                            job.done().unwrap();
                            done.count_down();
                        });
                    }
                });
            });
        }
        done.wait().unwrap();
    });
    most.into_inner()
}

/// - given: a queue with priorities and a limit of two
/// - when: three receivers with large windows take its jobs, and the limit becomes four, three, and
///   is removed
/// - then: as many run at a time, and no more as soon as the receivers know of it; all are done
#[test]
fn fleet_194_a_limit_with_priorities_slow() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").priorities().limit(2).open()?;
        for priority in [3, 0, 1] {
            send(&queue, priority, 6)?;
        }
        let receivers = [queue.jobs(8)?, queue.jobs(8)?, queue.jobs(8)?];
        assert_eq!(work(&receivers, 18, 2), 2);
        fleet.on_warning(|_| {});
        queue.update(Update::new().limit(4))?;
        send(&queue, 2, 20)?;
        assert_eq!(work(&receivers, 20, 4), 4);
        queue.update(Update::new().limit(3))?;
        loop {
            send(&queue, 1, 10)?;
            // A place that was lent before may still be used.
            match work(&receivers, 10, 3) {
                3 => break,
                more => assert_eq!(more, 4),
            }
        }
        queue.update(Update::new().no_limit())?;
        send(&queue, 1, 20)?;
        assert!(work(&receivers, 20, 5) >= 5);
        Ok(())
    });
}

/// - given: a queue without priorities that is in use, and jobs that are queued
/// - when: a job is sent with a priority, the queue is opened with priorities, and it is sent again
/// - then: it is refused first, with what to do; then it is stored, the receiver gets it and those
///   that were queued before, and other handles know of it
#[test]
fn fleet_195_a_queue_gets_priorities_slow() {
    each(|_, fleet| {
        fleet.on_warning(|_| {});
        let plain = fleet.queue::<u32>("n").open()?;
        plain.send_keyed("a", 1)?;
        let refused = plain.priority(1).send(100).unwrap_err();
        assert!(matches!(refused, SendError::Refused { job: 100, .. }), "{refused:?}");
        assert!(refused.to_string().contains(".priorities()"), "{refused}");
        let out_of_range = plain.priority(4).send(400).unwrap_err();
        assert!(out_of_range.to_string().contains("0, the most urgent, to 3"), "{out_of_range}");
        let jobs = plain.jobs(1)?;
        let held = jobs.recv()?;
        plain.send(2)?;
        let ranked = fleet.queue::<u32>("n").priorities().open()?;
        // The one that was sent before is known by its key.
        assert_eq!(ranked.priority(2).send_keyed("a", 200)?, Sent::Already);
        plain.priority(3).send(300)?;
        ranked.priority(1).send(100)?;
        held.done()?;
        let mut seen: Vec<u32> = Vec::new();
        for job in jobs.iter().take(3) {
            seen.push(*job);
            job.done()?;
        }
        seen.sort_unstable();
        assert_eq!(seen, [2, 100, 300]);
        // Opening it without a word about priorities leaves them.
        let third = fleet.queue::<u32>("n").open()?;
        third.priority(2).send_after(SOON, 200)?;
        assert_eq!(take(&jobs, 1)?, [2]);
        Ok(())
    });
}

/// - given: a queue with priorities, and one whose jobs of a key are in order
/// - when: each is opened with what the other one has
/// - then: `InvalidInput`, and the message says what to do
#[test]
fn fleet_196_priorities_and_order() {
    each(|_, fleet| {
        let both = fleet.queue::<u32>("n").priorities().per_key(1).open().unwrap_err();
        fleet.queue::<u32>("ranked").priorities().open()?;
        fleet.queue::<u32>("ordered").per_key(1).open()?;
        let order = fleet.queue::<u32>("ranked").per_key(1).open().unwrap_err();
        let priorities = fleet.queue::<u32>("ordered").priorities().open().unwrap_err();
        for error in [both, order, priorities] {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("use two queues"), "{error}");
        }
        let error = fleet.queue::<u32>("n").open()?.priority(1);
        let error = error.every("tick", Duration::from_secs(1), 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        Ok(())
    });
}

/// - given: a queue with priorities and a rate of four per 200 ms
/// - when: jobs of several priorities are received
/// - then: all come, the most urgent ones before those that are least urgent, and not faster
#[test]
fn fleet_197_a_rate_with_priorities_slow() {
    each(|_, fleet| {
        let period = Duration::from_millis(200);
        let queue = fleet.queue::<u32>("n").priorities().rate(4, period).open()?;
        send(&queue, 3, 4)?;
        send(&queue, 0, 4)?;
        until_queued(&queue, [4, 0, 0, 4])?;
        let begun = ecru::time::now();
        assert_eq!(take(&queue.jobs(2)?, 8)?, [0, 0, 0, 0, 3, 3, 3, 3]);
        assert!(ecru::time::now() - begun >= period - SOON);
        Ok(())
    });
}
