//! Works on jobs and calls until the process is terminated.
//!
//! As many tasks take jobs as the window has places. So a worker that is killed has at most that
//! many jobs in its journal that have no end.

use std::io;
use std::time::Duration;

use ecru::Scope;
use ecru::channel::Receiver;
use ecru_fleet::{Job, Queue, Unsettled};

use super::Place;
use crate::journal::{Handout, Journal, Line, now};
use crate::proof;
use crate::shop::{self, Name, WINDOW, Work};

/// Works, and then acknowledges.
pub(super) fn work<'s>(s: &'s Scope<'s, '_>, place: &Place<'_>) -> io::Result<i32> {
    let fleet = shop::connect(s, place.urls)?;
    let (jobs, poison) = (shop::queue(&fleet, Name::Jobs)?, shop::queue(&fleet, Name::Poison)?);
    let square = shop::square(&fleet)?;
    let (jobs, poison) = (take(&jobs, WINDOW)?, take(&poison, WINDOW)?);
    let journal = &place.journal;
    ecru::try_scope(|s| {
        for _ in 0..WINDOW {
            s.spawn(|| each(&jobs, |job| handle(journal, job)));
        }
        s.spawn(|| {
            each(&poison, |job| match proof::is_poison(&job.id) {
                true => abort(journal, &job),
                false => handle(journal, job),
            })
        });
        s.spawn(|| shop::until(|| square.serve(WINDOW)));
        Ok(0)
    })
}

/// Acknowledges, and then works: the mistake that the proof must find.
pub(super) fn work_after_acknowledging<'s>(
    s: &'s Scope<'s, '_>,
    place: &Place<'_>,
) -> io::Result<i32> {
    let jobs = shop::queue(&shop::connect(s, place.urls)?, Name::Control)?;
    let jobs = take(&jobs, WINDOW)?;
    let journal = &place.journal;
    ecru::try_scope(|s| {
        for _ in 0..WINDOW {
            s.spawn(|| each(&jobs, |job| handle_after_acknowledging(journal, job)));
        }
        Ok(0)
    })
}

fn take(queue: &Queue<Work>, window: usize) -> io::Result<Receiver<Job<Work>>> {
    shop::until(|| queue.jobs(window))
}

/// Handles jobs until the task is cancelled. The end of the jobs is an error: brokers that cannot
/// be reached are none.
fn each(
    jobs: &Receiver<Job<Work>>,
    mut handle: impl FnMut(Job<Work>) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match jobs.recv() {
            Ok(job) => handle(job)?,
            Err(error) if error.is_cancelled() => return Err(error.into()),
            // The fleet closes the channel when it is cancelled.
            Err(_) if ecru::is_cancelled() => return Err(ecru::checkpoint().unwrap_err().into()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn handout(job: &Job<Work>) -> Handout {
    let (sequence, attempt) = job.fence();
    Handout { job: job.id.clone(), sequence, attempt }
}

fn handle(journal: &Journal, job: Job<Work>) -> io::Result<()> {
    let handout = handout(&job);
    journal.note(&Line::Begun { handout: handout.clone(), at: now() })?;
    let work = |work: &Work| {
        let time = Duration::from_millis(work.millis);
        if !work.blocks {
            return ecru::sleep(time);
        }
        std::thread::sleep(time);
        Ok(())
    };
    match job.run(work) {
        // The process is terminated, or the lease is lost.
        Ok(Err(_)) | Err(_) => return journal.note(&Line::Lost { handout }),
        Ok(Ok(())) => {}
    }
    let pid = std::process::id();
    journal.keep(&Line::Worked { handout: handout.clone(), pid })?;
    let mut settled = job.done();
    while let Err(Unsettled::Unknown(settlement)) = settled {
        if ecru::is_cancelled() {
            eprintln!("{} is perhaps not done", handout.job);
            return journal.note(&Line::Unsure { handout });
        }
        settled = settlement.ask();
    }
    journal.note(&match settled {
        Ok(()) => Line::Done { handout, at: now() },
        Err(error) => {
            eprintln!("{} is not done: {error}", handout.job);
            Line::Unsure { handout }
        }
    })
}

fn abort(journal: &Journal, job: &Job<Work>) -> io::Result<()> {
    // In `run`, as attempts are recorded before it calls this.
    let Err(_lost) = job.run(|_| {
        let _ = journal.note(&Line::Begun { handout: handout(job), at: now() });
        std::process::abort()
    });
    // The lease had ended, so nothing has begun.
    Ok(())
}

fn handle_after_acknowledging(journal: &Journal, job: Job<Work>) -> io::Result<()> {
    let (handout, millis) = (handout(&job), job.millis);
    journal.note(&Line::Begun { handout: handout.clone(), at: now() })?;
    if job.done().is_err() {
        return journal.note(&Line::Unsure { handout });
    }
    journal.note(&Line::Done { handout: handout.clone(), at: now() })?;
    ecru::sleep(Duration::from_millis(millis))?;
    journal.keep(&Line::Worked { handout, pid: std::process::id() })
}
