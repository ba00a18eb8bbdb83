//! Threads that use what belongs to a simulation, while it runs, ends, or has ended.

use super::{MS, SECOND, report, run};
use crate::common::Watchdog;
use ecru::io::EventFd;
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Mutex, Notify};
use ecru::time::Timer;
use ecru::{Source, channel};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, ThreadId};
use std::time::Duration;

#[test]
fn a_thread_wakes_cancels_spawns_and_dumps_while_runs_end() {
    let _watchdog = Watchdog::new();
    let (stop, errors) = (AtomicBool::new(false), AtomicUsize::new(0));
    type Ends = (channel::Sender<u32>, ecru::RuntimeHandle, Arc<Notify>);
    let slot = std::sync::Mutex::new(None::<Ends>);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    let Some((tx, handle, notify)) = slot.lock().unwrap().take() else { continue };
                    for _ in 0..20 {
                        let _ = tx.try_send(1);
                        notify.notify_one();
                        if let Ok(task) = handle.spawn(|| ecru::sleep(SECOND).is_ok()) {
                            task.cancel();
                        }
                        drop(handle.dump().to_string());
                    }
                }
            });
        }
        for seed in 0..100 {
            let report = Simulation::new(seed).run(|| {
                let (tx, rx) = channel::bounded::<u32>(0);
                let notify = Arc::new(Notify::new());
                let handle = ecru::RuntimeHandle::current();
                *slot.lock().unwrap() = Some((tx, handle, Arc::clone(&notify)));
                ecru::scope(|s| {
                    s.spawn(|| drop(ecru::timeout(SECOND, || rx.recv())));
                    s.spawn(|| drop(ecru::timeout(SECOND, || notify.wait())));
                    for _ in 0..seed % 50 {
                        let _ = ecru::yield_now();
                    }
                });
            });
            match report.result {
                Ok(()) => {}
                Err(Failure::Foreign { .. }) => {
                    errors.fetch_add(1, SeqCst);
                }
                Err(other) => {
                    stop.store(true, SeqCst);
                    panic!("seed {seed}: {other}");
                }
            }
        }
        stop.store(true, SeqCst);
    });
}

#[test]
fn a_dump_by_a_thread_that_the_simulation_waits_for() {
    let report = report(1, || {
        let handle = ecru::RuntimeHandle::current();
        ecru::scope(|s| {
            s.builder().name("waits").spawn_daemon(|| Notify::new().wait());
            sim::settle();
            thread::scope(|s| s.spawn(|| handle.dump().to_string()).join().unwrap())
        })
    });
    assert!(report.result.is_ok(), "{report}");
}

#[test]
fn timers_cross_from_world_to_world() {
    let _watchdog = Watchdog::new();
    let watched = |duration| {
        let timer = Timer::new(duration);
        timer.start().unwrap();
        let subscription = timer.clone().on_ready(|_| ());
        (timer, subscription)
    };
    // From outside into a run, and dropped there, in both orders.
    let (timer, subscription) = watched(60 * SECOND);
    let (other, detached) = watched(MS);
    detached.detach();
    let kept = run(1, move || {
        drop(timer);
        drop(subscription);
        other.cancel();
        watched(60 * SECOND)
    });
    // From a run into another one.
    run(2, move || {
        let (timer, subscription) = kept;
        timer.cancel();
        drop((subscription, timer));
        let own = watched(SECOND);
        ecru::sleep(2 * SECOND).unwrap();
        assert_eq!(own.0.state(), ecru::time::TimerState::Rung);
    });
    // From a run to outside, where its time comes by the real clock.
    let (timer, subscription) = run(3, move || watched(20 * MS));
    drop(subscription);
    timer.clone().on_ready(|_| ()).detach();
    thread::sleep(30 * MS);
    drop(timer);
    let many: Vec<_> = run(4, || (0..100).map(|n| watched(MS * n)).collect());
    thread::scope(|s| {
        for pair in many {
            s.spawn(move || drop(pair));
        }
    });
}

#[test]
fn intervals_and_ticking_channels_cross_from_world_to_world() {
    let _watchdog = Watchdog::new();
    let kept = run(1, || {
        let (after, tick) = (channel::after(10 * MS), channel::tick(10 * MS));
        let interval = ecru::time::interval(10 * MS);
        after.clone().on_ready(|_| ()).detach();
        tick.clone().on_ready(|_| ()).detach();
        (after, tick, interval)
    });
    let kept = run(2, move || {
        let (after, tick, interval) = kept;
        let _ = ecru::timeout(SECOND, || after.recv());
        let _ = ecru::timeout(SECOND, || tick.recv());
        let _ = ecru::timeout(SECOND, || interval.tick());
        (after, tick, interval)
    });
    let (after, tick, interval) = kept;
    let _ = after.recv_timeout(MS);
    let _ = tick.recv_timeout(MS);
    let _ = ecru::run(|| ecru::timeout(MS, || interval.tick()));
}

#[test]
fn timers_of_a_run_are_dropped_on_a_thread_while_the_run_sets_others() {
    let _watchdog = Watchdog::new();
    let report = report(1, || {
        let (to, from) = std::sync::mpsc::channel();
        thread::scope(|s| {
            s.spawn(move || from.into_iter().for_each(drop));
            for n in 0..2000_u32 {
                let timer = Timer::new(MS * (n % 50));
                timer.start().unwrap();
                let subscription = timer.clone().on_ready(|_| ());
                to.send((timer, subscription)).unwrap();
                if n % 20 == 0 {
                    ecru::sleep(MS).unwrap();
                }
            }
            drop(to);
        });
    });
    assert!(matches!(report.result, Ok(()) | Err(Failure::Foreign { .. })), "{report}");
}

/// A value that must stay on its thread.
struct Pinned {
    thread: ThreadId,
    dropped: Arc<AtomicUsize>,
    _not_send: Rc<()>,
}

impl Pinned {
    fn new(dropped: &Arc<AtomicUsize>) -> Pinned {
        let dropped = Arc::clone(dropped);
        Pinned { thread: thread::current().id(), dropped, _not_send: Rc::new(()) }
    }

    fn check(&self) {
        assert_eq!(thread::current().id(), self.thread);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if thread::current().id() == self.thread {
            self.dropped.fetch_add(1, SeqCst);
        } else {
            eprintln!("a value that is not `Send` is dropped on another thread");
            std::process::abort();
        }
    }
}

/// Closures of hosts and of invariants need not be `Send`.
#[test]
fn closures_of_hosts_and_invariants_are_dropped_on_their_thread() {
    let _watchdog = Watchdog::new();
    type Program = fn(Arc<Mutex<Vec<Box<dyn std::any::Any + Send>>>>);
    let programs: [Program; 6] = [
        |_| (),
        |_| crate::common::quiet_panic("root"),
        |_| drop(Notify::new().wait()),
        |_| while ecru::sleep(60 * SECOND).is_ok() {},
        |_| while ecru::yield_now().is_ok() {},
        |kept| {
            // What belongs to the run, and outlives it.
            let mut kept = kept.lock();
            kept.push(Box::new(ecru::net::UdpSocket::bind("0.0.0.0:0").unwrap()));
            kept.push(Box::new(ecru::fs::File::create("f").unwrap()));
            kept.push(Box::new(EventFd::new().unwrap()));
            kept.push(Box::new(ecru::RuntimeHandle::current()));
            kept.push(Box::new(ecru::spawn(|| 7)));
            kept.push(Box::new(sim::host("kept", || Ok(()))));
        },
    ];
    for (n, program) in programs.into_iter().enumerate() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let report = Simulation::new(1).max_steps(2000).max_time(600 * SECOND).run(|| {
            let of_host = Pinned::new(&dropped);
            let of_invariant = Pinned::new(&dropped);
            let host = sim::host("host", move || {
                of_host.check();
                let _ = ecru::sleep(SECOND);
                of_host.check();
                Ok(())
            });
            sim::invariant("pinned", move || {
                of_invariant.check();
                true
            });
            sim::settle();
            host.restart();
            program(Arc::clone(&kept));
        });
        let outcome = report.to_string();
        drop(report);
        drop(kept);
        assert_eq!(dropped.load(SeqCst), 2, "program {n}: {outcome}");
    }
}

#[test]
fn locks_that_two_simulations_share() {
    let _watchdog = Watchdog::new();
    static SHARED: Mutex<u64> = Mutex::new(0);
    let inside = AtomicUsize::new(0);
    let simulate = |seed| {
        let inside = &inside;
        Simulation::new(seed).run(move || {
            ecru::scope(|s| {
                for _ in 0..3 {
                    s.spawn(move || {
                        for _ in 0..30 {
                            let mut number = SHARED.lock();
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            let _leave =
                                crate::common::OnDrop(|| drop(inside.fetch_sub(1, SeqCst)));
                            *number += 1;
                            let _ = ecru::yield_now();
                        }
                    });
                }
            });
        })
    };
    thread::scope(|s| {
        for seed in 0..4 {
            s.spawn(move || {
                for round in 0..10 {
                    // It fails as `Foreign` or as a deadlock, and must not do worse.
                    let report = simulate(seed * 100 + round);
                    let text = report.to_string();
                    assert!(!text.contains("assertion"), "{text}");
                }
            });
        }
    });
    drop(SHARED.lock());
}

#[test]
fn a_notification_of_a_descriptor_by_a_thread() {
    let report = report(1, || {
        let news = EventFd::new().unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        news.clone().on_ready(move |_| drop(count.fetch_add(1, SeqCst))).detach();
        ecru::scope(|s| {
            let other = news.clone();
            s.spawn(move || ecru::timeout(SECOND, || other.wait()).is_ok());
            sim::settle();
            thread::scope(|s| s.spawn(|| news.notify().is_ok()).join().unwrap());
            let _ = ecru::yield_now();
        });
    });
    assert!(matches!(report.result, Ok(()) | Err(Failure::Foreign { .. })), "{report}");
}

#[test]
fn a_future_of_another_library_that_a_thread_wakes() {
    struct Wait(Arc<std::sync::Mutex<(bool, Option<std::task::Waker>)>>);
    impl Future for Wait {
        type Output = ();
        fn poll(
            self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return std::task::Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            std::task::Poll::Pending
        }
    }
    let report = report(1, || {
        let state = Arc::new(std::sync::Mutex::new((false, None)));
        let other = Arc::clone(&state);
        thread::scope(|s| {
            s.spawn(move || {
                thread::sleep(Duration::from_millis(5));
                let waker = {
                    let mut state = other.lock().unwrap();
                    state.0 = true;
                    state.1.take()
                };
                if let Some(waker) = waker {
                    std::task::Waker::wake(waker);
                }
            });
            ecru::block_on(Wait(state)).is_ok()
        })
    });
    // Nothing else can happen, so the run is deadlocked or was woken by a stranger.
    assert!(
        matches!(report.result, Ok(_) | Err(Failure::Foreign { .. } | Failure::Deadlock(_))),
        "{report}"
    );
}

#[test]
fn callbacks_of_descriptors_and_timers_use_the_world() {
    let _watchdog = Watchdog::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let report = report(1, || {
        let count = &ran;
        let host = sim::host("host", || {
            ecru::sleep(60 * SECOND)?;
            Ok(())
        });
        let act = |count: Arc<AtomicUsize>| {
            let host = host.clone();
            move || {
                count.fetch_add(1, SeqCst);
                let _ = (sim::random_u64(), sim::chance(0.5), sim::elapsed(), ecru::time::now());
                let quiet =
                    |f: &dyn Fn()| drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)));
                quiet(&|| host.crash());
                quiet(&|| host.restart());
                quiet(&|| host.pause());
                quiet(&|| host.resume());
                quiet(&sim::heal);
                quiet(&sim::calm);
                quiet(&|| sim::invariant("of a callback", || true));
                quiet(&|| drop(ecru::fs::write("f", "x")));
                quiet(&|| {
                    drop(
                        ecru::net::UdpSocket::bind("0.0.0.0:0")
                            .map(|socket| socket.send_to(b"x", "10.0.0.1:9").is_ok()),
                    )
                });
                quiet(&|| drop(EventFd::new().map(|news| news.notify().is_ok())));
                quiet(&|| drop(ecru::spawn(|| ())));
                let timer = Timer::new(MS);
                let _ = timer.start();
                timer.on_ready(|_| ()).detach();
            }
        };
        let news = EventFd::new().unwrap();
        let on_news = act(Arc::clone(count));
        news.clone().on_ready(move |_| on_news()).detach();
        let timer = Timer::new(SECOND);
        timer.start().unwrap();
        let on_timer = act(Arc::clone(count));
        timer.clone().on_ready(move |_| on_timer()).detach();
        sim::settle();
        news.notify().unwrap();
        ecru::sleep(5 * SECOND).unwrap();
    });
    assert!(report.result.is_ok(), "{report}");
    assert_eq!(ran.load(SeqCst), 2);
}

#[test]
fn a_callback_that_panics_and_owns_what_acts() {
    let report = report(1, || {
        let timer = Timer::new(SECOND);
        timer.start().unwrap();
        let acts = crate::common::OnDrop(|| {
            let _ = std::panic::catch_unwind(|| drop(sim::host("late", || Ok(()))));
        });
        timer
            .clone()
            .on_ready(move |_| {
                let _acts = acts;
                crate::common::quiet_panic("in a callback");
            })
            .detach();
        ecru::sleep(2 * SECOND).unwrap();
    });
    assert!(report.result.is_ok(), "{report}");
}

#[test]
fn a_closure_that_never_began_is_dropped_by_a_crash() {
    let _watchdog = Watchdog::new();
    for seed in 0..10 {
        let dropped = Arc::new(AtomicUsize::new(0));
        let report = report(seed, || {
            let own = Arc::new(std::sync::OnceLock::<sim::Host>::new());
            let (kept, count) = (Arc::clone(&own), Arc::clone(&dropped));
            let host = sim::host("host", move || {
                ecru::scope(|s| {
                    for _ in 0..5 {
                        let (kept, count) = (Arc::clone(&kept), Arc::clone(&count));
                        let acts = crate::common::OnDrop(move || {
                            if count.fetch_add(1, SeqCst) < 20 {
                                kept.get().unwrap().restart();
                            }
                        });
                        s.spawn(move || {
                            let _acts = acts;
                            let _ = ecru::sleep(60 * SECOND);
                        });
                    }
                });
                Ok(())
            });
            own.set(host.clone()).unwrap();
            for _ in 0..seed {
                ecru::yield_now().unwrap();
            }
            host.crash();
            ecru::sleep(SECOND).unwrap();
        });
        assert!(report.result.is_ok(), "{report}");
        assert_eq!(dropped.load(SeqCst) % 5, 0);
    }
}

#[test]
fn a_simulation_in_odd_places_of_a_plain_thread() {
    // In a coroutine, in a destructor while unwinding, in the destructor of a thread-local.
    let mut generator = ecru::coroutine::Generator::new(|yielder| {
        yielder.suspend(run(1, || ecru::sleep(SECOND).is_ok()));
    });
    assert_eq!(generator.next(), Some(true));
    let unwound = std::panic::catch_unwind(|| {
        let _runs = crate::common::OnDrop(|| assert_eq!(run(2, || 7), 7));
        crate::common::quiet_panic("on purpose");
    });
    assert!(unwound.is_err());
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            let value = Simulation::new(3).run(|| ecru::sleep(SECOND).is_ok());
            assert!(value.unwrap());
        }
    }
    thread_local!(static AT_EXIT: AtExit = const { AtExit });
    thread::spawn(|| {
        AT_EXIT.with(|_| ());
        ecru::sleep(Duration::ZERO).unwrap();
    })
    .join()
    .unwrap();
    // A panic in a run that was begun while the caller unwinds.
    let unwound = std::panic::catch_unwind(|| {
        let _runs = crate::common::OnDrop(|| {
            let failed = Simulation::new(2).run(|| crate::common::quiet_panic("inner"));
            assert!(failed.result.is_err());
        });
        crate::common::quiet_panic("outer");
    });
    assert_eq!(crate::common::text_of(&*unwound.unwrap_err()), "outer");
}
