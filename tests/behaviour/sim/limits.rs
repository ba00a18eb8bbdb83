//! Runs that do not end.

use super::simulate;
use crate::support::{is_child, start_again};
use ecru::sim::{self, Failure, Simulation};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// - given: a loop that yields for ever, and ignores all errors
/// - when: it has used up the steps
/// - then: the run fails, and shows the task; `run` returns although the task does not end
#[test]
fn sim_24_out_of_steps() {
    let report = Simulation::new(1).max_steps(1_000).run(|| {
        ecru::scope(|s| {
            s.builder().name("busy").spawn(|| {
                loop {
                    let _ = ecru::yield_now();
                }
            });
        });
    });
    assert_eq!(report.steps, 1_000);
    let Err(Failure::OutOfSteps(tree)) = &report.result else { panic!("{report}") };
    assert!(tree.tasks().any(|task| task.name() == Some("busy")), "{tree}");
}

/// - given: a task that beats every minute, and another one that waits for ever
/// - when: the virtual time is used up
/// - then: the run fails at that time, and shows both
#[test]
fn sim_25_out_of_time() {
    let report = Simulation::new(1).max_time(Duration::from_secs(600)).run(|| {
        ecru::scope(|s| {
            s.builder().name("waiting").spawn(|| ecru::sync::Notify::new().wait());
            s.builder()
                .name("beating")
                .spawn(|| while ecru::sleep(Duration::from_secs(60)).is_ok() {});
        });
    });
    assert_eq!(report.elapsed, Duration::from_secs(600));
    let Err(Failure::OutOfTime(tree)) = &report.result else { panic!("{report}") };
    assert_eq!(tree.tasks().filter(|task| task.name().is_some()).count(), 2, "{tree}");
    let hour = simulate(1, || ecru::sleep(Duration::from_secs(3601)));
    assert!(matches!(hour.result, Err(Failure::OutOfTime(_))), "{hour}");
    let hour = simulate(1, || ecru::sleep(Duration::from_secs(3600)));
    hour.unwrap().unwrap();
}

/// - given: a task that computes for longer than the time for a step
/// - when: it gives the thread back after all
/// - then: the run fails, and names the task
#[test]
fn sim_26_stuck_slow() {
    let computed = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    // Time in which the thread waits for a processor does not count, so the task computes for some
    // processor time. A busy machine may not run the watcher meanwhile. Then nothing is shown, and
    // the next round takes longer.
    for round in 0..8 {
        let step = Duration::from_millis(100 << round);
        let report = Simulation::new(1).max_step_time(step).run(|| {
            ecru::scope(|s| {
                s.builder().name("slow").spawn(|| {
                    let begun = computed();
                    while computed() - begun < 3 * step {
                        std::hint::spin_loop();
                    }
                });
            });
        });
        match &report.result {
            Err(Failure::Stuck { task, .. }) if task.contains("'slow'") => {
                assert!(task.contains(file!()), "{task}");
                return;
            }
            Ok(_) | Err(Failure::Stuck { .. }) => {}
            Err(_) => panic!("{report}"),
        }
    }
    panic!("no round has found the task");
}

/// - given: a program that borrows from its caller, and two tasks of it in a deadlock of locks
/// - when: the run has failed
/// - then: the tasks have ended: the locks are free, and so is what was borrowed
#[test]
fn sim_30_borrows_from_its_caller() {
    let mut deadlocks = 0;
    for seed in 0..20 {
        let names = [String::from("a")];
        let (a, b) = (ecru::sync::Mutex::new(1), ecru::sync::Mutex::new(2));
        let ended = AtomicUsize::new(0);
        let report = Simulation::new(seed).run(|| {
            let take = |first: &ecru::sync::Mutex<i32>, second: &ecru::sync::Mutex<i32>| {
                let _end = Count(&ended);
                let held = first.lock();
                ecru::yield_now().unwrap();
                *second.lock() += *held;
            };
            ecru::scope(|s| {
                s.spawn(|| take(&a, &b));
                s.spawn(|| take(&b, &a));
            });
            &names
        });
        match &report.result {
            Ok(lent) => assert_eq!(lent[0], "a"),
            Err(failure) => {
                assert!(matches!(failure, Failure::Deadlock(_)), "{report}");
                assert!(report.to_string().contains(&format!("run at {}", file!())), "{report}");
                deadlocks += 1;
            }
        }
        assert!(a.try_lock().is_ok() && b.try_lock().is_ok());
        assert_eq!(ended.into_inner(), 2);
    }
    assert!(deadlocks > 0);
}

struct Count<'a>(&'a AtomicUsize);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// - given: a task that is deadlocked within the closure of `std::thread::scope`, whose thread uses
///   what the caller of `run` has lent to the program
/// - when: the run has failed
/// - then: `run` returns only when that thread has ended
#[test]
fn sim_31_a_thread_that_borrows_slow() {
    let (stop, beats) = (AtomicBool::new(false), AtomicUsize::new(0));
    let report = Simulation::new(1).run(|| {
        let lock = ecru::sync::Mutex::new(());
        let _held = lock.lock();
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    beats.fetch_add(1, SeqCst);
                }
            });
            let _stop = Stop(&stop);
            let _never = lock.lock();
        });
    });
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
    let then = beats.load(SeqCst);
    std::thread::yield_now();
    assert_eq!(beats.load(SeqCst), then);
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// - given: tasks that wait for ever in a lock, a reader-writer lock, a `OnceLock`, std's twins of
///   a condition variable and of a barrier, a shield, and a loop in a shield
/// - when: the run has failed
/// - then: all of them end, and run their destructors
#[test]
fn sim_33_waits_without_errors() {
    use ecru::sync::{Mutex, OnceLock, RwLock, poison};
    let ended = AtomicUsize::new(0);
    let end = || Count(&ended);
    let report = simulate_borrowing(1, || {
        let (mutex, shared, once) = (Mutex::new(()), RwLock::new(()), OnceLock::<u32>::new());
        let (lock, news) = (poison::Mutex::new(()), poison::Condvar::new());
        let barrier = poison::Barrier::new(2);
        let (_mutex, _shared) = (mutex.lock(), shared.write());
        ecru::scope(|s| {
            s.spawn(|| (end(), *mutex.lock()));
            s.spawn(|| (end(), *shared.read()));
            s.spawn(|| (end(), *shared.write()));
            s.spawn(|| (end(), *once.wait()));
            s.spawn(|| (end(), drop(news.wait(lock.lock().unwrap()))));
            s.spawn(|| (end(), barrier.wait().is_leader()));
            s.spawn(|| (end(), ecru::shield(|| ecru::sync::Notify::new().wait())));
            s.spawn(|| {
                let _end = end();
                ecru::shield(|| {
                    loop {
                        let _ = ecru::sync::Notify::new().wait();
                    }
                });
            });
        });
    });
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
    assert_eq!(ended.into_inner(), 8);
}

/// - given: tasks that yield for ever, one of them each time under a shield of its own
/// - when: the run has failed
/// - then: both end, and run their destructors
#[test]
fn sim_370_yields_without_an_end() {
    let ended = AtomicUsize::new(0);
    let end = || Count(&ended);
    let report = Simulation::new(1).max_steps(1_000).run(|| {
        ecru::scope(|s| {
            s.spawn(|| {
                let _end = end();
                loop {
                    let _ = ecru::shield(ecru::yield_now);
                }
            });
            s.spawn(|| {
                let _end = end();
                ecru::shield(|| {
                    loop {
                        let _ = ecru::yield_now();
                    }
                });
            });
        });
    });
    assert!(matches!(report.result, Err(Failure::OutOfSteps(_))), "{report}");
    assert_eq!(ended.into_inner(), 2);
}

/// Runs a program that borrows.
fn simulate_borrowing<T: Send>(seed: u64, f: impl FnOnce() -> T + Send) -> ecru::sim::Report<T> {
    Simulation::new(seed).run(f)
}

/// - given: a lock of `std` that a task of a test holds across a wait, and another task that waits for
///   it
/// - when: the thread does not come back, and the watch over the run aborts the process
/// - then: the task, the seed, the turns so far and the command that repeats the run are printed
#[test]
fn sim_34_stuck_for_ever_slow() {
    const NAME: &str = "sim::limits::sim_34_stuck_for_ever_slow";
    if is_child(NAME) {
        // A busy machine may not run a simulation for a second before the task is stuck. The run
        // fails then, and another one follows.
        loop {
            let _ = std::panic::catch_unwind(|| {
                let runs = AtomicUsize::new(0);
                Simulation::default().max_step_time(Duration::from_secs(1)).test(|| {
                    if runs.fetch_add(1, SeqCst) == 0 {
                        // This run measures the program, with another seed.
                        return;
                    }
                    let kept = std::sync::Mutex::new(());
                    ecru::scope(|s| {
                        s.spawn(|| {
                            let _held = kept.lock().unwrap();
                            ecru::sleep(Duration::from_secs(1)).unwrap();
                        });
                        sim::settle();
                        s.builder().name("stuck").spawn(|| drop(kept.lock().unwrap()));
                    });
                });
            });
        }
    }
    let mut child = start_again(NAME);
    child.env("ECRU_SIM_SEED", "7").env("CARGO_PKG_NAME", "ecru").stderr(Stdio::piped());
    let child = child.output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("'stuck'") && text.contains("is aborted"), "{text}");
    assert!(text.contains("ends in a simulation with seed 7; its turns so far: v1 0"), "{text}");
    let command = "the command that repeats it: ECRU_SIM_SEED=7 cargo test -p ecru";
    assert!(text.contains(&format!("{command} -- --exact {NAME}")), "{text}");
}
