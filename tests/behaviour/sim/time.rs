//! Virtual time.

use super::simulate;
use ecru::schedule::{Delay, Jitter};
use ecru::sim::{self, Simulation, Strategy};
use ecru::time::{Timer, TimerState, interval};
use ecru::{CancelHandle, CancelReason, Retry, Schedule, Source, channel};
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// - given: a simulation
/// - when: a task sleeps for a year
/// - then: it takes no real time, and a year of virtual time to the nanosecond
#[test]
fn sim_01_a_year() {
    let year = secs(365 * 24 * 3600);
    let report = Simulation::new(1).max_time(year * 2).run(move || {
        let begun = ecru::time::now();
        ecru::sleep(year).unwrap();
        assert_eq!(sim::elapsed(), year);
        ecru::time::now() - begun
    });
    assert_eq!(report.elapsed, year);
    assert_eq!(report.unwrap(), year);
}

/// - given: tasks that sleep for different times, down to a nanosecond
/// - when: they wake up
/// - then: they do so in the order of their deadlines, each at its own
#[test]
fn sim_02_in_order() {
    for seed in 0..20 {
        let report = simulate(seed, || {
            let log = Mutex::new(Vec::new());
            ecru::scope(|s| {
                for nanos in [7, 1_000_000, 1, 999_999, 3] {
                    let log = &log;
                    s.spawn(move || {
                        ecru::sleep(Duration::from_nanos(nanos)).unwrap();
                        log.lock().unwrap().push((nanos, sim::elapsed()));
                    });
                }
            });
            log.into_inner().unwrap()
        });
        let expected = [1, 3, 7, 999_999, 1_000_000].map(|n| (n, Duration::from_nanos(n)));
        assert_eq!(report.unwrap(), expected);
    }
}

/// - given: a `timeout` around a wait that is longer
/// - when: its time comes
/// - then: it fires at its deadline to the nanosecond, also if it is around another one
#[test]
fn sim_03_timeouts() {
    let report = simulate(1, || {
        let answer = ecru::timeout(Duration::from_nanos(1_234_567), || ecru::sleep(secs(9)));
        assert!(answer.is_err());
        assert_eq!(sim::elapsed(), Duration::from_nanos(1_234_567));
        let answer = ecru::timeout(secs(60), || {
            ecru::timeout(secs(90), || ecru::sleep(secs(600)).is_err()).is_err()
        });
        assert!(answer.is_err());
        sim::elapsed()
    });
    assert_eq!(report.unwrap(), secs(60) + Duration::from_nanos(1_234_567));
}

/// - given: ticks, intervals and timers
/// - when: they are received from, selected, called back, or awaited as futures
/// - then: all of that happens in virtual time
#[test]
fn sim_04_sources() {
    let report = simulate(1, || {
        let ticks = channel::tick(secs(10));
        ticks.recv().unwrap();
        ticks.recv().unwrap();
        assert_eq!(sim::elapsed(), secs(20));

        let beats = interval(secs(5));
        for _ in 0..3 {
            beats.wait().unwrap();
        }
        let begun = sim::elapsed();
        beats.wait().unwrap();
        assert_eq!(sim::elapsed() - begun, secs(5));

        let (begun, timer) = (sim::elapsed(), Timer::new(secs(100)));
        timer.start().unwrap();
        let (tell, told) = channel::bounded(1);
        timer.clone().on_ready(move |rang| tell.try_send((rang, sim::elapsed())).unwrap()).detach();
        assert_eq!(ecru::block_on(timer.clone().to_future()), Ok(true));
        assert_eq!(told.recv().unwrap(), (true, begun + secs(100)));
        assert_eq!((timer.state(), sim::elapsed()), (TimerState::Rung, begun + secs(100)));
    });
    report.unwrap();
}

/// - given: tasks that can run
/// - when: they run, for thousands of steps
/// - then: time stands still
#[test]
fn sim_05_stands_still() {
    let report = simulate(1, || {
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1_000).for_each(|_| ecru::yield_now().unwrap()));
            }
        });
        sim::elapsed()
    });
    assert!(report.steps > 4_000);
    assert_eq!(report.unwrap(), Duration::ZERO);
}

/// - given: tasks that work, and tasks that sleep
/// - when: another one calls `settle`
/// - then: it returns when all work is done that needs no time, and before time advances
#[test]
fn sim_06_settle() {
    for seed in 0..50 {
        let report = simulate(seed, || {
            let log = Arc::new(Mutex::new(Vec::new()));
            let said = || std::mem::take(&mut *log.lock().unwrap());
            ecru::scope(|s| {
                let (tx, rx) = channel::bounded(0);
                let own = Arc::clone(&log);
                s.spawn(move || {
                    while let Ok(number) = rx.recv() {
                        own.lock().unwrap().push(number);
                        ecru::sleep(secs(1)).unwrap();
                    }
                });
                s.spawn(move || (0..3).for_each(|number| tx.send(number).unwrap()));
                sim::settle();
                assert_eq!((said(), sim::elapsed()), (vec![0], Duration::ZERO));
                sim::settle();
                assert!(said().is_empty());
                ecru::sleep(secs(1)).unwrap();
                sim::settle();
                assert_eq!((said(), sim::elapsed()), (vec![1], secs(1)));
            });
            assert_eq!(said(), [2]);
        });
        report.unwrap();
    }
}

/// - given: code outside of a simulation
/// - when: it calls the functions of `sim`
/// - then: `settle` panics and says why; the others do what they do without a simulation
#[test]
fn sim_07_outside() {
    assert!(!sim::is_simulated() && !sim::chance(1.0));
    assert_eq!(sim::elapsed(), Duration::ZERO);
    sim::point();
    sim::invariant("never checked", || false);
    assert_ne!(sim::random_u64(), sim::random_u64());
    let panic = std::panic::catch_unwind(sim::settle).unwrap_err();
    let text = panic
        .downcast_ref::<String>()
        .map_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned(), String::clone);
    assert!(text.contains("outside of a simulation"), "{text}");
}

/// - given: schedules and retries, with pauses that jitter
/// - when: they run for hours
/// - then: the pauses take virtual time, and the seed determines their lengths
#[test]
fn sim_27_schedules() {
    let report = simulate(1, || {
        let runs = Schedule::every(secs(60)).max_runs(31).run(sim::elapsed);
        assert_eq!(runs, Ok(secs(30 * 60)));
    });
    report.unwrap();
    let retried = |seed| {
        let report = simulate(seed, || {
            let retry = Retry::new().max_failures(9).delay(Delay::Constant(secs(60)));
            let refused = || Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused));
            assert!(retry.jitter(Jitter::Full).until_ok(refused).is_err());
            sim::elapsed()
        });
        report.unwrap()
    };
    assert_eq!(retried(1), retried(1));
    assert_ne!(retried(1), retried(2));
    assert!(retried(3) < secs(8 * 60));
}

/// - given: a `select!` with a time limit, and locks and channels with limits
/// - when: nothing comes in time
/// - then: each gives up at its deadline to the nanosecond
#[test]
fn sim_28_limits() {
    let report = simulate(1, || {
        let (_tx, rx) = channel::bounded::<u32>(1);
        let late = ecru::select! {
            recv(rx) -> _ => false,
            default(secs(3)) => true,
        };
        assert!(late && sim::elapsed() == secs(3));
        assert!(rx.recv_timeout(Duration::from_nanos(5)).is_err());
        assert_eq!(sim::elapsed(), secs(3) + Duration::from_nanos(5));
        let deadline = ecru::time::now() + secs(7);
        assert!(rx.recv_deadline(deadline).is_err());
        assert_eq!(ecru::time::now(), deadline);
        assert_eq!(channel::after(secs(2)).recv(), Ok(deadline + secs(2)));
    });
    report.unwrap();
}

/// - given: one task or several that wait for a time, for a message or for another task in loops of
///   `yield_now`
/// - when: nothing else can run
/// - then: time goes on, by either strategy, and the times are exact
#[test]
fn sim_394_loops_of_yields_let_time_pass() {
    let second = Duration::from_secs(1);
    let poll = |done: &dyn Fn() -> bool| {
        while !done() {
            ecru::yield_now().unwrap();
        }
    };
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
        for seed in 0..4 {
            let report = Simulation::new(seed).strategy(strategy.clone()).run(|| {
                let (tx, rx) = ecru::channel::bounded(1);
                ecru::scope(|s| {
                    s.spawn(|| poll(&|| sim::elapsed() >= 2 * second));
                    s.spawn(|| {
                        ecru::sleep(second).unwrap();
                        tx.send(7).unwrap();
                        ecru::sleep(2 * second).unwrap();
                    });
                    poll(&|| rx.try_recv().is_ok());
                    assert_eq!(sim::elapsed(), second);
                });
                // Two loops that only wait for each other need no time.
                let turn = std::sync::atomic::AtomicU32::new(0);
                ecru::scope(|s| {
                    for own in 0..2 {
                        let turn = &turn;
                        s.spawn(move || {
                            for _ in 0..50 {
                                poll(&|| turn.load(SeqCst) % 2 == own);
                                turn.fetch_add(1, SeqCst);
                            }
                        });
                    }
                });
                sim::elapsed()
            });
            assert_eq!(report.unwrap(), 3 * second);
        }
    }
}

#[test]
fn timer_26_interval_reset_in_virtual_time() {
    sim::test(|| {
        let ticks = interval(secs(20));
        let start = ticks.tick().unwrap();
        ecru::scope(|s| {
            let wrapped = ticks.clone().map(|due| due);
            let waiting = s.spawn(move || [wrapped.wait().unwrap(), wrapped.wait().unwrap()]);
            ecru::sleep(secs(15)).unwrap();
            ticks.reset();
            let dues = [35, 55].map(|after| start + secs(after));
            assert_eq!(waiting.join().unwrap(), dues);
            assert_eq!(ticks.tick(), Ok(start + secs(75)));
        });
    });
}

#[test]
fn timer_27_timer_reset_in_virtual_time() {
    sim::test(|| {
        let timer = Timer::new(secs(20));
        timer.start().unwrap();
        ecru::scope(|s| {
            let waits = || (timer.wait(), sim::elapsed());
            let waiting = s.spawn(waits);
            let (tell, told) = channel::unbounded();
            let subscription = timer.clone().on_ready(move |rung| tell.try_send(rung).unwrap());
            for _ in 0..5 {
                ecru::sleep(secs(15)).unwrap();
                timer.clone().reset();
            }
            assert_eq!(timer.state(), TimerState::Ticking);
            let expected = (Ok(true), secs(95));
            assert_eq!((waiting.join().unwrap(), waits()), (expected, expected));
            assert_eq!(told.recv(), Ok(true));
            drop(subscription);
        });
    });
}

#[test]
fn cancel_66_a_limit_moves_in_virtual_time() {
    sim::test(|| {
        ecru::scope(|s| {
            let (tell, told) = channel::bounded(1);
            let waiting = s.spawn(move || {
                ecru::cancel_scope(|c| {
                    c.set_deadline(ecru::time::now() + secs(20));
                    tell.send(c).unwrap();
                    let cancelled = ecru::sleep(secs(3600)).unwrap_err();
                    (cancelled.reason(), sim::elapsed())
                })
            });
            let handle: CancelHandle = told.recv().unwrap();
            for _ in 0..5 {
                ecru::sleep(secs(15)).unwrap();
                handle.set_deadline(ecru::time::now() + secs(20));
            }
            handle.set_deadline(None);
            ecru::sleep(secs(100)).unwrap();
            handle.set_deadline(ecru::time::now() + secs(20));
            handle.set_deadline(ecru::time::now() + secs(5));
            assert_eq!(waiting.join().unwrap(), (CancelReason::Deadline, secs(180)));
        });
    });
}
