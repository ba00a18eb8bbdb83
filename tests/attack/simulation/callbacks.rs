//! Calls from destructors, invariants, closures of hosts, hooks and predicates.

use super::{SECOND, report, run};
use crate::common::{OnDrop, quiet_panic};
use ecru::net::TcpListener;
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Mutex, Notify};
use ecru::{Source, channel};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Runs a program with an invariant that does this, catches its panic, and says that all is well.
fn in_an_invariant(act: impl Fn() + Send + 'static) -> (bool, ecru::sim::Report<()>) {
    let panicked = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&panicked);
    let report = report(1, move || {
        sim::invariant("acts", move || {
            if catch_unwind(AssertUnwindSafe(&act)).is_err() {
                note.store(true, SeqCst);
            }
            true
        });
        ecru::scope(|s| {
            s.spawn(|| ecru::sleep(SECOND));
            s.spawn(|| ecru::yield_now());
        });
    });
    (panicked.load(SeqCst), report)
}

#[test]
fn an_invariant_that_waits_panics() {
    for wait in [
        || drop(ecru::yield_now()),
        || drop(ecru::sleep(SECOND)),
        || sim::settle(),
        || drop(Mutex::new(()).lock()),
        || {
            drop(
                std::net::TcpStream::connect("127.0.0.1:1").is_ok()
                    || ecru::net::TcpStream::connect("127.0.0.1:1").is_ok(),
            )
        },
        || ecru::scope(|_| ()),
        || drop(ecru::unblock(|| 1)),
    ] as [fn(); 7]
    {
        let (_panicked, report) = in_an_invariant(wait);
        assert!(report.result.is_ok(), "{report}");
    }
}

#[test]
fn an_invariant_that_spawns() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let begun = AtomicBool::new(false);
    let (panicked, report) = in_an_invariant(move || {
        if !begun.swap(true, SeqCst) {
            let count = Arc::clone(&count);
            drop(ecru::spawn(move || count.fetch_add(1, SeqCst)));
        }
    });
    // Either it is refused, or it is a task as any other.
    assert!(report.result.is_ok(), "{report}");
    assert!(panicked || ran.load(SeqCst) == 1);
}

#[test]
fn an_invariant_that_begins_a_run() {
    let (panicked, report) = in_an_invariant(|| drop(Simulation::new(1).run(|| ())));
    assert!(panicked && report.result.is_ok(), "{report}");
    let (panicked, report) = in_an_invariant(|| ecru::run(|| ()));
    assert!(panicked && report.result.is_ok(), "{report}");
}

#[test]
fn an_invariant_that_adds_invariants() {
    let (panicked, report) = in_an_invariant(|| sim::invariant("nested", || true));
    assert!(!panicked && report.result.is_ok(), "{report}");
    let failed = super::report(1, || {
        sim::invariant("adds one that fails", || {
            sim::invariant("fails", || false);
            true
        });
        ecru::sleep(SECOND)
    });
    assert!(
        matches!(&failed.result, Err(Failure::Invariant { name }) if name == "fails"),
        "{failed}"
    );
}

#[test]
fn an_invariant_that_makes_crashes_and_restarts_hosts() {
    let (_, report) = in_an_invariant(|| {
        let _ = catch_unwind(|| drop(sim::host("from an invariant", || Ok(()))));
        sim::heal();
        let _ = (sim::random_u64(), sim::chance(0.5), sim::elapsed());
        sim::point();
        sim::calm();
    });
    assert!(report.result.is_ok(), "{report}");
    let report = super::report(1, || {
        let count = Arc::new(AtomicUsize::new(0));
        let starts = Arc::clone(&count);
        let host = sim::host("host", move || {
            starts.fetch_add(1, SeqCst);
            TcpListener::bind("0.0.0.0:80")?.accept()?;
            Ok(())
        });
        let (crashed, of) = (AtomicUsize::new(0), host.clone());
        sim::invariant("crashes", move || {
            if crashed.fetch_add(1, SeqCst) == 20 {
                of.crash();
                of.restart();
                of.power_fail();
                of.restart();
            }
            true
        });
        for _ in 0..40 {
            ecru::sleep(SECOND).unwrap();
        }
        count.load(SeqCst)
    });
    assert!(matches!(&report.result, Ok(starts) if *starts >= 2), "{report}");
}

#[test]
fn an_invariant_that_wakes_sends_and_uses_files() {
    let (tx, rx) = channel::unbounded::<u32>();
    let report = report(1, move || {
        let notify = Arc::new(Notify::new());
        let wake = Arc::clone(&notify);
        sim::invariant("sends", move || {
            let _ = tx.try_send(1);
            wake.notify_one();
            let _ = ecru::net::UdpSocket::bind("0.0.0.0:0");
            true
        });
        for _ in 0..9 {
            rx.recv().unwrap();
            notify.wait().unwrap();
        }
    });
    assert!(report.result.is_ok(), "{report}");
}

#[test]
fn an_invariant_looks_at_a_lock_that_is_held() {
    let report = report(3, || {
        let lock = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&lock);
        let looked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&looked);
        sim::invariant("is even when free", move || match seen.try_lock() {
            Ok(value) => *value % 2 == 0,
            Err(_) => count.fetch_add(1, SeqCst) < usize::MAX,
        });
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..9 {
                        let mut value = lock.lock();
                        *value += 1;
                        ecru::yield_now().unwrap();
                        *value += 1;
                    }
                });
            }
        });
        looked.load(SeqCst)
    });
    assert!(report.unwrap() >= 18);
}

#[test]
fn an_invariant_with_a_payload_that_panics_when_dropped() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                quiet_panic("from the payload's destructor");
            }
        }
    }
    let failed = report(1, || {
        sim::invariant("panics", || std::panic::resume_unwind(Box::new(Bad)));
        ecru::sleep(SECOND)
    });
    assert!(matches!(failed.result, Err(Failure::Panicked(_))), "{failed}");
    let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
    let failed = report(1, || panic_any(Bad));
    assert!(matches!(failed.result, Err(Failure::Panicked(_))));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
    let failed = report(1, || {
        sim::host("host", || std::panic::resume_unwind(Box::new(Bad)));
        ecru::sleep(SECOND)
    });
    assert!(matches!(failed.result, Err(Failure::Panicked(_))));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
}

#[test]
fn invariants_and_hosts_own_values_with_destructors_that_act() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (one, other) = (Arc::clone(&dropped), Arc::clone(&dropped));
    run(1, move || {
        let bomb = |count: Arc<AtomicUsize>| {
            OnDrop(move || {
                count.fetch_add(1, SeqCst);
                // A destructor, after the program has ended.
                let _ = catch_unwind(|| drop(ecru::yield_now()));
                let _ = catch_unwind(|| drop(ecru::sleep(SECOND)));
                let _ = catch_unwind(|| drop(ecru::spawn(|| ())));
                let _ = catch_unwind(|| sim::invariant("late", || false));
                let _ = catch_unwind(|| drop(sim::host("late", || Ok(()))));
                let _ = catch_unwind(sim::settle);
                let _ = catch_unwind(sim::calm);
                let _ = catch_unwind(|| ecru::scope(|s| drop(s.spawn(|| ()))));
                let _ = ecru::fs::write("x", "y");
                sim::point();
            })
        };
        let (one, other) = (bomb(one), bomb(other));
        sim::invariant("owns", move || {
            let _ = &one;
            true
        });
        sim::host("owner", move || {
            let _ = &other;
            Ok(())
        });
    });
    assert_eq!(dropped.load(SeqCst), 2);
}

#[test]
fn the_closure_of_a_host_owns_a_value_that_panics_when_dropped() {
    let report = report(1, || {
        let bad = OnDrop(|| quiet_panic("in a destructor of the closure"));
        sim::host("host", move || {
            let _ = &bad;
            Ok(())
        });
        ecru::sleep(SECOND).unwrap();
        7
    });
    // The docs say nothing. A result is a result: `run` returns it, or a failure, and no abort.
    let _ = report.to_string();
    let report = super::report(1, || {
        let bad = OnDrop(|| quiet_panic("in a destructor of an invariant"));
        sim::invariant("bad", move || {
            let _ = &bad;
            true
        });
        7
    });
    let _ = report.to_string();
}

#[test]
fn the_result_waits_and_acts_in_its_destructor() {
    let report = report(1, || {
        OnDrop(|| {
            assert!(!sim::is_simulated());
            ecru::sleep(std::time::Duration::from_millis(1)).unwrap();
            let nested = Simulation::new(2).run(|| 7);
            assert_eq!(nested.unwrap(), 7);
        })
    });
    drop(report.unwrap());
}

#[test]
fn destructors_of_the_root_act_while_it_unwinds() {
    let failed = report(1, || {
        let _acts = OnDrop(|| {
            let _ = ecru::sleep(SECOND);
            ecru::scope(|s| drop(s.spawn(|| ecru::sleep(SECOND))));
            sim::host("late", || Ok(()));
            sim::settle();
            let _ = ecru::fs::write("f", "x");
        });
        quiet_panic("the root");
    });
    assert!(
        matches!(&failed.result, Err(Failure::Panicked(p)) if p.message() == Some("the root")),
        "{failed}"
    );
}

#[test]
fn a_callback_and_a_predicate_use_the_simulation() {
    run(1, || {
        let (tx, rx) = channel::unbounded::<u32>();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        rx.clone()
            .on_ready(move |_| {
                count.fetch_add(1, SeqCst);
                sim::host("from a callback", || Ok(()));
                sim::invariant("from a callback", || true);
                sim::point();
            })
            .detach();
        tx.send(1).unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                let odd = (&rx).filter(|n| {
                    sim::point();
                    let _ = sim::random_u64();
                    n % 2 == 1
                });
                assert_eq!(odd.wait().unwrap(), Ok(3));
            });
            s.spawn(|| {
                for n in [3, 2, 4] {
                    tx.send(n).unwrap();
                }
            });
        });
        assert_eq!(seen.load(SeqCst), 1);
    });
}
#[test]
fn settle_from_many_tasks_and_from_a_task_that_is_cancelled() {
    run(1, || {
        ecru::scope(|s| {
            for _ in 0..50 {
                s.spawn(sim::settle);
            }
            let task = s.spawn(|| {
                let _ = ecru::sleep(SECOND);
                sim::settle();
                sim::settle();
                ecru::is_cancelled()
            });
            sim::settle();
            task.cancel();
            sim::settle();
            assert!(task.join().unwrap());
        });
        assert_eq!(sim::elapsed(), std::time::Duration::ZERO);
    });
}

#[test]
fn settle_from_a_coroutine_and_in_unblock() {
    run(1, || {
        let mut generator = ecru::coroutine::Generator::new(|yielder| {
            for n in 0..3 {
                sim::settle();
                sim::point();
                ecru::sleep(SECOND).unwrap();
                yielder.suspend(n);
            }
        });
        assert_eq!(generator.next(), Some(0));
        ecru::unblock(|| {
            sim::settle();
            sim::host("from unblock", || Ok(()));
            sim::settle();
        });
        assert_eq!(generator.next(), Some(1));
        assert_eq!(sim::elapsed(), 2 * SECOND);
    });
}
