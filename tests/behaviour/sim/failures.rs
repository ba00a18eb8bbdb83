//! How simulations fail.

use super::{first_failure, simulate};
use crate::support::{alone_with, ms};
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Latch, Mutex, Notify};
use ecru::{Source, channel};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// - given: two tasks that take two locks in different orders
/// - when: a seed lets each have one
/// - then: the run fails at once; the text names both tasks, what they wait for, and who holds it, and
///   says that a slow thread may be what is missing
#[test]
fn sim_18_deadlock() {
    let failed = first_failure(|| {
        let (a, b) = (Mutex::new(1), Mutex::new(2));
        ecru::scope(|s| {
            s.builder().name("forward").spawn(|| {
                let from = a.lock();
                drop((b.lock(), from));
            });
            s.builder().name("backward").spawn(|| {
                let from = b.lock();
                drop((a.lock(), from));
            });
        });
    });
    let Err(Failure::Deadlock(tree)) = &failed.result else { panic!("{failed}") };
    let named = |name: &str| tree.tasks().find(|task| task.name() == Some(name)).unwrap();
    let (forward, backward) = (named("forward"), named("backward"));
    let text = failed.to_string();
    for (task, other) in [(forward, backward), (backward, forward)] {
        let wait = task.waits_on().unwrap();
        assert!(text.contains(&format!("task {} '{}'", task.id(), task.name().unwrap())), "{text}");
        let held =
            format!("held by task {} '{}' since {}", other.id(), other.name().unwrap(), file!());
        assert!(wait.object().unwrap().contains(&held), "{text}");
    }
    assert!(text.contains("unless a thread outside of the simulation is slow"), "{text}");
    // The numbers are those of this run.
    assert!(text.contains("task #1 'forward'") && text.contains("task #2 'backward'"), "{text}");
    assert_eq!(failed.elapsed, Duration::ZERO);
}

/// - given: a deadlock of tasks that own values
/// - when: the run has failed
/// - then: its tasks have been cancelled, and their destructors have run
#[test]
fn sim_19_ends_in_order() {
    let owned = Arc::new(());
    let (own, parked) = (Arc::clone(&owned), Notify::new());
    let report = simulate(1, move || {
        ecru::scope(|s| {
            s.spawn(|| {
                let _kept = Arc::clone(&own);
                parked.wait().unwrap();
            });
        });
    });
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
    assert_eq!(Arc::strong_count(&owned), 1);
}

/// - given: a deadlock in a wait that cannot be cancelled
/// - when: the run has failed
/// - then: `run` returns the failure all the same
#[test]
fn sim_20_ends_by_force() {
    let report = simulate(1, || {
        ecru::scope(|s| {
            s.builder().name("deaf").spawn(|| ecru::shield(|| Notify::new().wait()));
        });
    });
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
    assert!(report.to_string().contains("'deaf'"), "{report}");
}

/// - given: an invariant
/// - when: a step makes it false
/// - then: the run fails after that step, with its name
#[test]
fn sim_21_invariant() {
    let report = simulate(1, || {
        let balance = Arc::new(AtomicI32::new(10));
        let seen = Arc::clone(&balance);
        sim::invariant("it is never negative", move || seen.load(SeqCst) >= 0);
        ecru::sleep(Duration::from_secs(5)).unwrap();
        balance.store(-1, SeqCst);
        ecru::sleep(Duration::from_secs(5)).unwrap();
    });
    assert_eq!(report.elapsed, Duration::from_secs(5));
    let Err(Failure::Invariant { name }) = &report.result else { panic!("{report}") };
    assert_eq!(name, "it is never negative");
    let last = simulate(1, || sim::invariant("not even once", || false));
    assert!(matches!(last.result, Err(Failure::Invariant { .. })), "{last}");
    let panics = simulate(1, || sim::invariant("panics", || panic!("while it looks")));
    assert!(matches!(panics.result, Err(Failure::Panicked(_))), "{panics}");
}

/// - given: a task that panics, joined or not
/// - when: it is simulated
/// - then: a join reports the panic as in any run; otherwise the run fails with its message
#[test]
fn sim_22_panics() {
    let joined = simulate(1, || {
        ecru::scope(|s| s.spawn(|| panic!("on purpose")).join().unwrap_err().to_string())
    });
    assert_eq!(joined.unwrap(), "the task panicked: on purpose");
    let report = simulate(1, || ecru::scope(|s| drop(s.spawn(|| panic!("on purpose")))));
    let Err(Failure::Panicked(payload)) = &report.result else { panic!("{report}") };
    assert!(payload.message().unwrap().contains("on purpose"));
    let root = simulate(1, || panic!("in the root"));
    let Err::<(), _>(Failure::Panicked(payload)) = root.result else { panic!("{root}") };
    assert_eq!(payload.message(), Some("in the root"));
}

/// - given: a thread that does not belong to the simulation
/// - when: it ends a wait of a task, cancels a task, or spawns one
/// - then: the run fails, and the text says what the thread did
#[test]
fn sim_23_foreign() {
    /// Has another thread do this, while the simulation waits for it.
    fn elsewhere(f: impl FnOnce() + Send) {
        std::thread::scope(|s| {
            let thread = std::thread::Builder::new().name(String::from("elsewhere"));
            thread.spawn_scoped(s, f).unwrap().join().unwrap();
        });
    }
    let call = |report: &ecru::sim::Report<()>| match &report.result {
        Err(Failure::Foreign { call }) => call.clone(),
        _ => panic!("{report}"),
    };
    let woken = simulate(1, || {
        let (tx, rx) = channel::bounded(0);
        ecru::scope(|s| {
            s.builder().name("waiting").spawn(|| rx.recv().unwrap());
            sim::settle();
            elsewhere(|| tx.try_send(7).unwrap());
        });
    });
    let text = call(&woken);
    assert!(text.contains("the thread 'elsewhere' ended the wait of task #1 'waiting'"), "{text}");
    let cancelled = simulate(1, || {
        ecru::scope(|s| {
            let task = s.builder().name("waiting").spawn(|| Notify::new().wait());
            sim::settle();
            elsewhere(|| task.cancel());
        });
    });
    assert!(call(&cancelled).contains("another thread cancelled task #1 'waiting'"));
    let spawned = simulate(1, || {
        let handle = ecru::RuntimeHandle::current();
        elsewhere(|| drop(handle.spawn(|| ()).unwrap()));
    });
    assert!(call(&spawned).contains("another thread spawned task #1"), "{}", call(&spawned));
}

/// - given: a thread that has ended the wait of a task, and then runs other code before it says so
/// - when: no task can run meanwhile
/// - then: the run fails with `Foreign`, and not as a deadlock
#[test]
fn sim_367_a_foreign_wake_up_under_way() {
    /// The waker of a future that waits beside the task. It is called before the task is woken.
    struct Slow(mpsc::Sender<()>);
    impl std::task::Wake for Slow {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            std::thread::sleep(ms(100));
        }
    }
    let latch = Latch::new(1);
    let ((registered, is_registered), (go, may_go)) = (mpsc::channel(), mpsc::channel());
    let (woken, is_woken) = mpsc::channel();
    let report = std::thread::scope(|threads| {
        let latch = &latch;
        threads.spawn(move || {
            let waker = std::task::Waker::from(Arc::new(Slow(woken)));
            let mut future = std::pin::pin!(latch.to_future());
            let polled = future.as_mut().poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            registered.send(()).unwrap();
            may_go.recv().unwrap();
            latch.count_down();
        });
        Simulation::new(1).run(move || {
            is_registered.recv().unwrap();
            ecru::scope(|s| {
                s.builder().name("waiting").spawn(|| latch.wait().unwrap());
                sim::settle();
                go.send(()).unwrap();
                is_woken.recv().unwrap();
            });
        })
    });
    let Err(Failure::Foreign { call }) = &report.result else { panic!("{report}") };
    assert!(call.contains("ended the wait of task #1 'waiting'"), "{call}");
}

/// - given: a thread that begins to wake a task only after all tasks have begun to wait
/// - when: nothing else would wake one
/// - then: the run fails with `Foreign`, and not as a deadlock
#[test]
fn sim_378_a_foreign_wake_up_that_comes_late() {
    // The run looks for such a thread for a while. On a busy machine, the thread may come too late.
    for _ in 0..50 {
        let (tx, rx) = channel::bounded(0);
        let (go, may_go) = mpsc::channel();
        let report = std::thread::scope(|threads| {
            threads.spawn(move || {
                may_go.recv().unwrap();
                // All tasks have begun to wait by now, on most machines.
                std::thread::sleep(ms(4));
                // Without a receiver that waits, there is no room.
                while matches!(tx.try_send(7), Err(channel::TrySendError::Full(_))) {
                    std::thread::yield_now();
                }
            });
            Simulation::new(1).run(move || {
                go.send(()).unwrap();
                rx.recv().map(drop)
            })
        });
        match &report.result {
            Err(Failure::Foreign { call }) => {
                assert!(call.contains("ended the wait of task #0"), "{call}");
                return;
            }
            Err(Failure::Deadlock(_)) => {}
            _ => panic!("{report}"),
        }
    }
    panic!("no round has noticed the thread");
}

/// - given: a task that starts a thread, and waits for what the thread sends much later
/// - when: nothing else would wake it
/// - then: the run fails with `Foreign`, and not as a deadlock, if the thread comes within half a
///   second; without the message it is a deadlock when the thread has ended
#[test]
fn sim_402_a_thread_that_a_task_has_started_is_waited_for_slow() {
    let run = |sends: bool| {
        Simulation::new(1).run(move || {
            let (tx, rx) = channel::bounded(1);
            std::thread::spawn(move || {
                std::thread::sleep(ms(50));
                if sends {
                    let _ = tx.send(7);
                } else {
                    let _kept = std::mem::ManuallyDrop::new(tx);
                }
            });
            rx.recv().map(drop)
        })
    };
    for _ in 0..3 {
        let report = run(true);
        let Err(Failure::Foreign { call }) = &report.result else { panic!("{report}") };
        assert!(call.contains("ended the wait of task #0"), "{call}");
    }
    let report = run(false);
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
}

/// - given: a run that has failed, and whose tasks are therefore cancelled
/// - when: they panic because of that, or ignore it
/// - then: nothing is printed; the report is the failure
#[test]
fn sim_32_ends_quietly() {
    let output = alone_with(
        "sim::failures::sim_32_ends_quietly",
        |_| {},
        || {
            let report = Simulation::new(1).max_steps(100).run(|| {
                ecru::scope(|s| {
                    s.spawn(|| Notify::new().wait().unwrap());
                    s.spawn(|| (0..20_000).filter(|_| ecru::yield_now().is_err()).count());
                });
            });
            assert!(matches!(report.result, Err(Failure::OutOfSteps(_))), "{report}");
        },
    );
    if let Some(output) = output {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("ecru:") && !text.contains("panicked"), "{text}");
    }
}

/// - given: a simulation with `record_on_failure`, and seeds that fail and that do not
/// - when: they run
/// - then: the page of a failed run is there, with its tasks and its timeline, and its report names
///   the file; a run that does not fail writes nothing
#[test]
fn sim_409_a_failing_seed_writes_its_page() {
    let path = std::env::temp_dir().join(format!("ecru-sim-409-{}.html", std::process::id()));
    let _removed = crate::support::OnDrop(|| drop(std::fs::remove_file(&path)));
    let run = |fails: bool| {
        Simulation::new(3).record_on_failure(&path).run(move || {
            let (sender, receiver) = channel::bounded::<u32>(1);
            sim::note("before the wait");
            ecru::scope(|s| {
                s.builder().name("waits in vain").spawn(|| receiver.recv().is_ok());
                if !fails {
                    sender.send(1).unwrap();
                }
            });
        })
    };
    let passed = run(false);
    assert!(passed.result.is_ok() && !path.exists());
    // The recorder has the timeline of a run that has not failed, too.
    let mut page = Vec::new();
    passed.recorder().unwrap().write_page(&mut page).unwrap();
    assert!(String::from_utf8(page).unwrap().contains("note: before the wait"));
    let failed = run(true);
    let text = failed.to_string();
    assert!(text.contains(&format!("the last events are in {}", path.display())), "{text}");
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("waits in vain"));
    assert!(page.contains("note: before the wait") && page.contains("the run fails"));
}
