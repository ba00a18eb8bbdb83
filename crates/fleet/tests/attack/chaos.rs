//! Everything at once, at random, under many seeds: nothing is lost, keys are unique, the limit
//! holds, and each end is counted once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ecru::Source;
use ecru::sim::{self, Explore, Strategy};
use ecru_fleet::{Fleet, Job, JobId, Queue, SendError, Sent};

use crate::support::{RETRY, SECOND, SOON, until};

const KEYS: u64 = 5;
const LIMIT: u32 = 3;
const CAPACITY: u64 = 8;

/// What has happened to the jobs.
#[derive(Default)]
struct Ledger {
    stored: AtomicU32,
    done: AtomicU32,
    cancelled: AtomicU32,
    discarded: AtomicU32,
    held: AtomicU32,
    /// The holders of each key whose jobs were not cancelled.
    keys: Mutex<BTreeMap<String, u32>>,
}

fn add(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn key() -> String {
    format!("key {}", sim::random_u64() % KEYS)
}

fn nap() {
    let _ = ecru::sleep(SOON * (sim::random_u64() % 4) as u32);
}

fn send(queue: &Queue<u64>, ledger: &Ledger) {
    for n in 0..25 {
        let sent = match sim::random_u64() % 3 {
            0 => queue.send(n),
            1 => queue.begin_send(n).wait().unwrap(),
            _ => queue.send_keyed(&key(), n),
        };
        match sent {
            Ok(Sent::New(_)) => add(&ledger.stored),
            Ok(Sent::Already) | Err(SendError::Full(_)) => nap(),
            Err(error) => panic!("{error}"),
        }
        let stats = queue.stats().unwrap();
        assert!(stats.queued + stats.running <= CAPACITY, "{stats:?}");
    }
}

fn cancel(queue: &Queue<u64>, ledger: &Ledger) {
    for _ in 0..20 {
        nap();
        if queue.cancel(&JobId::from_key(&key()).unwrap()).unwrap() {
            add(&ledger.cancelled);
        }
    }
}

fn revive(queue: &Queue<u64>, ledger: &Ledger) {
    while !ecru::is_cancelled() {
        nap();
        let Ok(all) = queue.dead() else { return };
        for dead in all {
            if sim::chance(0.5) {
                let _ = dead.revive();
            } else if dead.discard().is_ok() {
                add(&ledger.discarded);
            }
        }
    }
}

/// Settles a job in one of all ways.
fn settle(queue: &Queue<u64>, ledger: &Ledger, with_cancels: bool, job: Job<u64>) {
    let id = job.id().clone();
    match sim::random_u64() % 8 {
        0 => drop(job),
        1 => drop(job.retry_after(SOON)),
        2 => drop(job.bury("no")),
        3 if with_cancels => {
            if queue.cancel(&id).unwrap_or(false) {
                add(&ledger.cancelled);
            }
        }
        _ => {
            if job.done().is_ok() {
                add(&ledger.done);
            }
        }
    }
}

fn work(queue: &Queue<u64>, ledger: &Ledger, with_cancels: bool) {
    let Ok(jobs) = queue.jobs((sim::random_u64() % 4) as usize + 1) else { return };
    for job in jobs {
        let lost = job.run(|_| {
            let held = ledger.held.fetch_add(1, Ordering::SeqCst) + 1;
            // The holder of a cancelled job hears of it some time later.
            assert!(with_cancels || held <= LIMIT, "{held} are held");
            let key = job.id().to_string();
            let holders = *ledger
                .keys
                .lock()
                .unwrap()
                .entry(key.clone())
                .and_modify(|n| *n += 1)
                .or_insert(1);
            assert!(with_cancels || holders == 1, "two jobs of the key {key} run");
            nap();
            ledger.keys.lock().unwrap().remove(&key);
            ledger.held.fetch_sub(1, Ordering::SeqCst);
        });
        if lost.is_ok() {
            settle(queue, ledger, with_cancels, job);
        }
    }
}

fn chaos(with_cancels: bool) {
    let ledger = &Ledger::default();
    ecru::scope(|s| {
        let queue = Fleet::local(s).queue("n").limit(LIMIT as usize).capacity(CAPACITY);
        let queue = queue.attempts(4).retry(RETRY).open().unwrap();
        let queue = &queue;
        ecru::scope(|s| {
            ecru::scope(|senders| {
                for _ in 0..3 {
                    senders.spawn(|| send(queue, ledger));
                }
                if with_cancels {
                    senders.spawn(|| cancel(queue, ledger));
                }
                // Two could revive and discard one job at once.
                s.spawn_daemon(|| revive(queue, ledger));
                for _ in 0..3 {
                    s.spawn_daemon(|| {
                        while !ecru::is_cancelled() {
                            // The task of the worker is cancelled at a random moment.
                            let life = SOON * (sim::random_u64() % 30) as u32;
                            let _ = ecru::timeout(life, || work(queue, ledger, with_cancels));
                        }
                    });
                }
            });
            until(|| {
                let stats = queue.stats().unwrap();
                stats.queued + stats.running + stats.dead == 0
            });
            let _ = ecru::sleep(SECOND);
        });
    });
    let count = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
    let ended = [&ledger.done, &ledger.cancelled, &ledger.discarded].map(count);
    let (stored, ended_in_all) = (count(&ledger.stored), ended.iter().sum::<u32>());
    // A job that is buried and cancelled at once may be among the dead, and is discarded there.
    assert!(stored == ended_in_all || with_cancels && stored < ended_in_all, "{ended:?}");
}

fn explore(strategy: Strategy, with_cancels: bool) {
    let plan = Explore::Seeds { seeds: 0..60, strategy };
    if let Err(found) = sim::explore(plan, || chaos(with_cancels)) {
        panic!("{found}");
    }
}

#[test]
fn each_job_ends_once_slow() {
    explore(Strategy::Random, false);
}

#[test]
fn each_job_ends_once_in_rare_orders_slow() {
    explore(Strategy::Pct { depth: 4 }, false);
}

#[test]
fn each_job_ends_once_though_jobs_are_cancelled_slow() {
    explore(Strategy::Random, true);
}
