//! How far jobs are.

use std::io;
use std::time::Duration;

use ecru_fleet::{JobId, Progress, Queue};

use crate::broker::each;

const SOON: Duration = Duration::from_millis(5);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Waits until the queue has this progress: reports are on their way for a moment.
fn until(queue: &Queue<u32>, expected: &[(JobId, Progress)]) -> io::Result<()> {
    ecru::timeout(LONG, || {
        while queue.progress()? != expected {
            ecru::sleep(SOON)?;
        }
        Ok(())
    })?
}

/// - given: two jobs that are worked on, and a queued one
/// - when: one of the two reports how far it is, and is then done
/// - then: the queue has its progress and counts it, and has none afterwards
#[test]
fn fleet_180_progress() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        queue.send_all([1, 2, 3])?;
        let jobs = queue.jobs(2)?;
        let [one, other] = [jobs.recv()?, jobs.recv()?];
        let stats = queue.stats()?;
        assert_eq!((stats.reporting, stats.percent), (0, None));
        let progress = Progress::new(3, 4).with_text("half of it \u{1F33E}");
        one.run(|_| {
            one.progress(&progress);
            until(&queue, &[(one.id().clone(), progress.clone())])
        })??;
        let stats = queue.stats()?;
        assert_eq!((stats.reporting, stats.percent), (1, Some(75)));
        one.done()?;
        until(&queue, &[])?;
        other.progress(&Progress::new(0, 0));
        until(&queue, &[(other.id().clone(), Progress::new(0, 0))])?;
        // Where it is stored there is room for the next job.
        other.bury("no use")?;
        until(&queue, &[])?;
        assert_eq!(queue.stats()?.reporting, 0);
        Ok(())
    });
}

/// - given: a job that is worked on
/// - when: it reports many times at once
/// - then: the queue has the last report within a lease, although the job says no more
#[test]
fn fleet_181_the_last_report_counts_slow() {
    each(|broker, fleet| {
        let queue = fleet.queue::<u32>("n").lease(broker.lease()).open()?;
        queue.send(7)?;
        let job = queue.jobs(1)?.recv()?;
        job.run(|_| {
            for step in 0..=1000 {
                job.progress(&Progress::new(step, 1000));
            }
            until(&queue, &[(job.id().clone(), Progress::new(1000, 1000))])
        })??;
        job.done()?;
        Ok(())
    });
}

/// - given: a job that has reported how far it is
/// - when: it fails, and runs again
/// - then: the queue has no progress of it until it reports again
#[test]
fn fleet_182_a_retry_begins_anew() {
    each(|_, fleet| {
        let queue = fleet.queue::<u32>("n").retry(ecru::schedule::Delay::Constant(SOON)).open()?;
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        let job = jobs.recv()?;
        job.progress(&Progress::new(1, 2));
        until(&queue, &[(job.id().clone(), Progress::new(1, 2))])?;
        drop(job);
        let job = jobs.recv()?;
        assert_eq!(job.attempt(), 2);
        until(&queue, &[])?;
        job.progress(&Progress::new(1, 4));
        until(&queue, &[(job.id().clone(), Progress::new(1, 4))])?;
        job.retry_after(Duration::ZERO)?;
        until(&queue, &[])?;
        jobs.recv()?.done()?;
        Ok(())
    });
}

/// - given: a function that is served
/// - when: its body reports how far it is
/// - then: the function has its progress until the call has ended, and a report after that has no
///   effect
#[test]
fn fleet_183_progress_of_a_call() {
    each(|_, fleet| {
        let (go_on, goes_on) = ecru::channel::bounded(1);
        let (tell, told) = ecru::channel::unbounded();
        let body = move |number: u32, run: &ecru_fleet::Run| {
            run.progress(&Progress::new(1, 2));
            goes_on.recv()?;
            tell.send(run.clone())?;
            Ok(number)
        };
        let function = fleet.function("f", body).open()?;
        ecru::scope(|s| {
            s.spawn_daemon(|| function.serve(1));
            let call = s.spawn(|| function.call(7));
            ecru::timeout(LONG, || {
                while function.progress()?.iter().all(|(_, progress)| progress.percent() != 50) {
                    ecru::sleep(SOON)?;
                }
                Ok::<(), io::Error>(())
            })??;
            go_on.send(()).unwrap();
            assert_eq!(call.join().unwrap()?, 7);
            let run = told.recv()?;
            ecru::timeout(LONG, || {
                while function.stats()?.running > 0 || !function.progress()?.is_empty() {
                    ecru::sleep(SOON)?;
                }
                Ok::<(), io::Error>(())
            })??;
            run.progress(&Progress::new(2, 2));
            assert_eq!(function.progress()?, []);
            Ok(())
        })
    });
}
