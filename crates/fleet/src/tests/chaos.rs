//! Crashes at random, and the proof that no job is lost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ecru::sim::{self, Explore, Strategy};

use super::remote::{Link, Server};
use crate::{Fleet, Job, Queue};

const LEASE: Duration = Duration::from_secs(3);
const JOBS: u32 = 20;
const WINDOW: usize = 2;

fn open(fleet: &Fleet<'_>) -> Queue<u32> {
    fleet.queue("n").lease(LEASE).attempts(1000).open().unwrap()
}

/// Works on jobs until it is cancelled.
fn work(server: &Server, link: &Link, worked: &Mutex<Vec<u32>>, acknowledges_first: bool) {
    ecru::scope(|s| {
        let queue = open(&server.fleet(s, link));
        let each = |job: Job<u32>| -> std::io::Result<()> {
            let number = *job;
            let take_time = || ecru::sleep(Duration::from_millis(sim::random_u64() % 500));
            if acknowledges_first {
                job.done()?;
                take_time()?;
                worked.lock().unwrap().push(number);
                return Ok(());
            }
            job.run(|_| take_time())??;
            worked.lock().unwrap().push(number);
            job.done()?;
            Ok(())
        };
        let Ok(jobs) = queue.jobs(WINDOW) else { return };
        for job in &jobs {
            let _ = each(job);
        }
    });
}

/// Lets workers crash until all jobs are settled. Panics if one was lost, or too many ran twice.
fn chaos(acknowledges_first: bool) {
    let server = Server::new();
    let worked = Mutex::new(Vec::new());
    let mut crashes = 0;
    ecru::scope(|s| {
        let queue = open(&server.fleet(s, &Link::default()));
        for number in 0..JOBS {
            queue.send(number).unwrap();
        }
        let start = || {
            let link = Link::default();
            let own = link.clone();
            let (server, worked) = (&server, &worked);
            (link, s.spawn(move || work(server, &own, worked, acknowledges_first)))
        };
        let mut workers = [start(), start()];
        loop {
            let stats = queue.stats().unwrap();
            if stats.queued + stats.running == 0 {
                break;
            }
            ecru::sleep(Duration::from_millis(sim::random_u64() % 1500)).unwrap();
            let victim = &mut workers[crashes % 2];
            victim.0.cut();
            victim.1.cancel();
            *victim = start();
            crashes += 1;
        }
        // Work that was acknowledged before is still under way.
        ecru::sleep(Duration::from_secs(1)).unwrap();
        workers.iter().for_each(|(_, worker)| worker.cancel());
    });
    let worked = worked.into_inner().unwrap();
    let distinct: BTreeSet<u32> = worked.iter().copied().collect();
    assert_eq!(distinct.len(), JOBS as usize, "jobs were lost");
    assert!(worked.len() <= JOBS as usize + crashes * WINDOW, "{} runs", worked.len());
}

fn explore(acknowledges_first: bool) -> Option<String> {
    let plan = Explore::Seeds { seeds: 0..50, strategy: Strategy::Random };
    sim::explore(plan, || chaos(acknowledges_first)).err().map(|found| found.to_string())
}

/// - given: two workers that crash at random
/// - when: twenty jobs are sent
/// - then: each is worked on, none is left, and at most the windows of the crashed workers run
///   twice
#[test]
fn fleet_54_at_least_once() {
    assert_eq!(explore(false), None);
}

/// - given: workers that acknowledge a job before they work on it
/// - when: they crash in the same way
/// - then: the same proof finds that jobs were lost
#[test]
fn fleet_55_the_proof_can_fail() {
    let found = explore(true).unwrap();
    assert!(found.contains("jobs were lost"), "{found}");
}
