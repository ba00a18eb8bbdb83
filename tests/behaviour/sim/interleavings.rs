//! Interleavings, and what determines them.

use super::{first_failure, simulate};
use ecru::sim::{self, Failure};
use ecru::sync::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Tasks of many kinds. Returns the order in which they did something.
fn program() -> Vec<u32> {
    let log = Mutex::new(Vec::new());
    ecru::scope(|s| {
        for task in 0..4 {
            let log = &log;
            s.spawn(move || {
                for step in 0..5 {
                    log.lock().push(10 * task + step);
                    if sim::chance(0.3) {
                        let pause = sim::random_u64() % 1_000;
                        ecru::sleep(Duration::from_micros(pause)).unwrap();
                    }
                }
            });
        }
    });
    log.into_inner()
}

/// - given: a program, and a seed
/// - when: it is simulated several times
/// - then: the runs are equal: in what they do, their hash, their steps, their virtual time
#[test]
fn sim_11_the_same_again() {
    for seed in 0..10 {
        let (one, other) = (simulate(seed, program), simulate(seed, program));
        assert_eq!(one.trace_hash, other.trace_hash);
        assert_eq!(
            (one.steps, one.elapsed, &one.trace),
            (other.steps, other.elapsed, &other.trace)
        );
        assert_eq!(one.steps, one.trace.len() as u64);
        assert_eq!(one.unwrap(), other.unwrap());
    }
}

/// - given: a program
/// - when: it is simulated with other seeds
/// - then: its tasks interleave in other ways
#[test]
fn sim_12_other_seeds() {
    let orders: BTreeSet<_> = (0..20).map(|seed| simulate(seed, program).unwrap()).collect();
    let hashes: BTreeSet<_> = (0..20).map(|seed| simulate(seed, program).trace_hash).collect();
    assert!(orders.len() >= 19, "{} orders", orders.len());
    assert_eq!(hashes.len(), 20);
}

/// - given: two tasks that never wait: each takes locks of its own
/// - when: they are simulated
/// - then: with some seeds one runs between two locks of the other, with others it does not
#[test]
fn sim_13_uncontended_locks() {
    let order = |seed| {
        let report = simulate(seed, || {
            let log = std::sync::Mutex::new(String::new());
            let task = |name| {
                let own = Mutex::new(());
                for _ in 0..2 {
                    drop(own.lock());
                    log.lock().unwrap().push(name);
                }
            };
            ecru::scope(|s| {
                s.spawn(|| task('a'));
                s.spawn(|| task('b'));
            });
            log.into_inner().unwrap()
        });
        report.unwrap()
    };
    let orders: BTreeSet<String> = (0..300).map(order).collect();
    assert_eq!(Vec::from_iter(orders), ["aabb", "abab", "abba", "baab", "baba", "bbaa"]);
}

/// - given: a value behind a lock, which a program looks at, and then changes, under the lock each
///   time
/// - when: it is simulated with a hundred seeds
/// - then: one of them shows that another task may come between
#[test]
fn sim_14_check_then_act() {
    let failed = first_failure(|| {
        let seats = Mutex::new(1_u32);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let is_free = *seats.lock() > 0;
                    if is_free {
                        let mut seats = seats.lock();
                        *seats = seats.checked_sub(1).expect("a seat was sold twice");
                    }
                });
            }
        });
    });
    let Err(Failure::Panicked(payload)) = &failed.result else { panic!("{failed}") };
    assert!(payload.message().unwrap().contains("a seat was sold twice"));
    assert!(
        failed.to_string().contains(&format!("the simulation with seed {} failed", failed.seed))
    );
}

/// - given: a task that spawns another one, or calls `point`
/// - when: it is simulated
/// - then: with some seeds the other one runs before the call returns, with others after
#[test]
fn sim_15_decision_points() {
    let at_spawn = |seed| {
        let report = simulate(seed, || {
            let (ran, early) = (AtomicU32::new(0), AtomicU32::new(0));
            ecru::scope(|s| {
                s.spawn(|| ran.store(1, SeqCst));
                early.store(ran.load(SeqCst), SeqCst);
            });
            early.into_inner()
        });
        report.unwrap()
    };
    let in_the_run = |seed| {
        let report = simulate(seed, || {
            let ran = Arc::new(AtomicU32::new(0));
            let own = Arc::clone(&ran);
            let task = ecru::spawn(move || own.store(1, SeqCst));
            let early = ran.load(SeqCst);
            task.join().unwrap();
            early
        });
        report.unwrap()
    };
    let at_points = |seed| {
        let report = simulate(seed, || {
            let counter = AtomicU32::new(0);
            let add = || {
                let seen = counter.load(SeqCst);
                sim::point();
                counter.store(seen + 1, SeqCst);
            };
            ecru::scope(|s| {
                s.spawn(add);
                s.spawn(add);
            });
            counter.load(SeqCst)
        });
        report.unwrap() - 1
    };
    let seen = |f: &dyn Fn(u64) -> u32| BTreeSet::from_iter((0..100).map(f)).len();
    assert_eq!((seen(&at_spawn), seen(&in_the_run), seen(&at_points)), (2, 2, 2));
}

/// - given: a task that joins a child which has not begun
/// - when: it is simulated
/// - then: the child does not begin at once in place of the joiner: others may run before
#[test]
fn sim_16_not_in_place() {
    let order = |seed| {
        let report = simulate(seed, || {
            let log = std::sync::Mutex::new(String::new());
            let note = |name| log.lock().unwrap().push(name);
            ecru::scope(|s| {
                s.spawn(|| note('1'));
                s.spawn(|| note('2')).join().unwrap();
            });
            log.into_inner().unwrap()
        });
        report.unwrap()
    };
    let orders: BTreeSet<String> = (0..100).map(order).collect();
    assert_eq!(Vec::from_iter(orders), ["12", "21"]);
}

/// - given: a seed
/// - when: the program draws numbers, and asks for chances
/// - then: the seed determines them
#[test]
fn sim_17_numbers() {
    let draw = || {
        let chances: Vec<_> = (0..64).map(|_| sim::chance(0.5)).collect();
        (sim::random_u64(), chances)
    };
    let (one, again, other) = (simulate(1, draw), simulate(1, draw), simulate(2, draw));
    let one = one.unwrap();
    assert_eq!(one, again.unwrap());
    let other = other.unwrap();
    assert!(one.0 != other.0 && one.1 != other.1);
    assert!(one.1.contains(&true) && one.1.contains(&false));
}
