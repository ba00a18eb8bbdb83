//! What a simulation makes of the clocks, the random numbers and the waits of other crates.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use ecru::sim::{Failure, Simulation};
use uuid::Uuid;

use super::common::{alone_with, is_child};
use super::simulated;

/// Returns what three runs return: two with one seed, and one with another seed.
fn thrice<T: Send>(program: impl Fn() -> T + Send + Sync) -> [T; 3] {
    [1, 1, 2].map(|seed| simulated(seed, &program))
}

/// Returns a number that depends on the keys of several hashers.
fn hashes<S: BuildHasher>(make: impl Fn() -> S) -> Vec<u64> {
    fn hash<S: BuildHasher>(state: S, value: impl Hash) -> u64 {
        state.hash_one(value)
    }
    (0..8).map(|number| hash(make(), number)).collect()
}

/// - given: a program that hashes with `ahash`
/// - when: it runs twice in one process with one seed
/// - then: the keys differ: `ahash` draws a seed once for the process, and counts its hashers
#[test]
fn libc_80_ahash_is_real() {
    let [one, same, _] = thrice(|| hashes(ahash::RandomState::new));
    assert_ne!(one, same);
}

/// - given: a program that hashes with `foldhash`, or with the hasher of `hashbrown`
/// - when: it runs in fresh processes with one seed
/// - then: the hashes differ, because they come from addresses, which the system chooses at random
#[test]
fn libc_81_foldhash_and_hashbrown_are_real() {
    const WORD: &str = "hashed: ";
    let test = "crates::libc_81_foldhash_and_hashbrown_are_real";
    if is_child(test) {
        let hashed = simulated(1, || {
            let fold = hashes(foldhash::fast::RandomState::default);
            (fold, hashes(hashbrown::DefaultHashBuilder::default))
        });
        // The runner has begun a line.
        println!("\n{WORD}{hashed:?}");
        return;
    }
    if std::fs::read("/proc/sys/kernel/randomize_va_space").is_ok_and(|text| text.starts_with(b"0"))
    {
        return;
    }
    let hashed: Vec<String> = (0..3)
        .map(|_| {
            let output = alone_with(test, |_| {}, || unreachable!("this is the parent")).unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().find(|line| line.starts_with(WORD)).unwrap().into()
        })
        .collect();
    assert!(hashed.iter().any(|other| *other != hashed[0]), "{hashed:?}");
}

/// - given: a program that draws from `fastrand`
/// - when: it runs twice with one seed, without a call of `fastrand::seed`, and with one
/// - then: the numbers differ without it, and are the seed's with it
#[test]
fn libc_82_fastrand_is_real_until_it_is_seeded() {
    let draw = || (0..4).map(|_| fastrand::u64(..)).collect::<Vec<_>>();
    let [one, same, _] = thrice(draw);
    assert_ne!(one, same);
    let [one, same, other] = thrice(|| {
        fastrand::seed(ecru::sim::random_u64());
        draw()
    });
    assert!(one == same && one != other);
}

/// - given: a program that makes a file with `tempfile`
/// - when: it runs in a simulation
/// - then: the file is refused
#[test]
fn libc_83_tempfile_is_refused() {
    let report = Simulation::new(1).run(|| tempfile::tempfile().map(drop));
    assert!(matches!(report.result, Err(Failure::Foreign { .. })), "{report}");
    let report = Simulation::new(1).run(|| tempfile::NamedTempFile::new().map(drop));
    assert!(matches!(report.result, Err(Failure::Foreign { .. })), "{report}");
}

/// - given: a program that makes ids with `uuid`, of version 7
/// - when: it runs in simulations, one after the other
/// - then: their times are those of the virtual clock, but never earlier than one of an id that was
///   made before in the process
#[test]
fn libc_84_the_times_of_uuids_are_virtual() {
    let seconds = |id: Uuid| id.get_timestamp().unwrap().to_unix().0 - 946_684_800;
    let times = thrice(|| {
        let first = Uuid::now_v7();
        ecru::sleep(Duration::from_secs(3600)).unwrap();
        (seconds(first), seconds(Uuid::now_v7()))
    });
    assert_eq!(times, [(0, 3600), (3600, 3600), (3600, 3600)]);
    assert!(seconds(Uuid::now_v7()) > 700_000_000);
}

/// - given: a program that reads the time with `quanta`
/// - when: virtual time passes
/// - then: the time does not follow: it is that of the processor's counter, or, where there is none,
///   the virtual one
#[test]
fn libc_85_quanta_is_real() {
    let hour = Duration::from_secs(3600);
    // The clock is calibrated outside.
    let clock = quanta::Clock::new();
    let passed = simulated(1, || {
        let begun = clock.now();
        ecru::sleep(hour).unwrap();
        clock.now().saturating_duration_since(begun)
    });
    assert!(passed < hour / 60 || passed == hour, "{passed:?}");
}

/// - given: a lock of `parking_lot`, a channel of `crossbeam` or a lock of std for which a task waits
///   although only another thread can end the wait
/// - when: the wait takes longer than a step may
/// - then: the run fails as `Stuck`, and names the task
#[test]
fn libc_86_real_waits_are_stuck_slow() {
    // As in the test of a task that computes: a busy machine may show nothing in a round.
    fn is_found(wait: impl Fn() + Send + Sync, end: impl Fn(Duration) + Sync) {
        for round in 0..8 {
            let step = Duration::from_millis(100 << round);
            let report = std::thread::scope(|threads| {
                threads.spawn(|| end(3 * step));
                Simulation::new(1).max_step_time(step).run(|| {
                    ecru::scope(|s| drop(s.builder().name("waiter").spawn(&wait)));
                })
            });
            match &report.result {
                Err(Failure::Stuck { task, .. }) if task.contains("'waiter'") => return,
                Ok(_) | Err(Failure::Stuck { .. }) => {}
                Err(_) => panic!("{report}"),
            }
        }
        panic!("no round has found the task");
    }
    let (tx, rx) = crossbeam_channel::unbounded();
    is_found(
        || rx.recv().unwrap(),
        |time| {
            std::thread::sleep(time);
            tx.send(()).unwrap();
        },
    );
    let held = Arc::new((parking_lot::Mutex::new(()), std::sync::Barrier::new(2)));
    is_found(
        || {
            held.1.wait();
            drop(held.0.lock());
        },
        |time| {
            let _held = held.0.lock();
            held.1.wait();
            std::thread::sleep(time);
        },
    );
    let held = Arc::new((std::sync::Mutex::new(()), std::sync::Barrier::new(2)));
    is_found(
        || {
            held.1.wait();
            drop(held.0.lock());
        },
        |time| {
            let _held = held.0.lock();
            held.1.wait();
            std::thread::sleep(time);
        },
    );
}
