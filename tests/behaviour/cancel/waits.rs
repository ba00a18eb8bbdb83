//! The effect of a request on waits: it ends the current one and every later one, and they take
//! nothing.

use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::Duration;

use ecru::sync::Latch;
use ecru::{CancelReason, Cancelled, JoinError};

use super::{cancelled, pair};
use crate::support::{HOUR, each_run, forever, ms, run_on, settle, until};

/// - given: a task that was not cancelled
/// - when: it calls `is_cancelled` and `checkpoint`
/// - then: they return `false` and `Ok`
#[test]
fn cancel_01_not_asked() {
    each_run(|| {
        assert!(!ecru::is_cancelled());
        assert_eq!(ecru::checkpoint(), Ok(()));
        let seen = ecru::scope(|s| {
            s.spawn(|| (ecru::is_cancelled(), ecru::checkpoint(), ecru::yield_now())).join()
        });
        assert_eq!(seen.unwrap(), (false, Ok(()), Ok(())));
    });
    assert!(!ecru::is_cancelled());
    assert_eq!(ecru::checkpoint(), Ok(()));
}

/// - given: a cancelled task
/// - when: it waits several times
/// - then: each wait returns `Cancelled` at once
#[test]
fn cancel_02_every_wait_from_then_on() {
    each_run(|| {
        let started = AtomicBool::new(false);
        ecru::scope(|s| {
            let other = s.spawn(forever);
            ecru::scope(|inner| {
                let child = inner.spawn(|| {
                    started.store(true, SeqCst);
                    forever();
                    let mut stream = ecru::shield(pair).0;
                    for _ in 0..3 {
                        assert!(ecru::sleep(HOUR).is_err());
                        assert!(ecru::sleep(Duration::ZERO).is_err());
                        assert!(ecru::yield_now().is_err());
                        assert!(ecru::checkpoint().is_err());
                        assert!(matches!(other.join(), Err(JoinError::CallerCancelled)));
                        assert!(Cancelled::find(&stream.read(&mut [0]).unwrap_err()).is_some());
                        assert!(ecru::is_cancelled());
                    }
                });
                until(|| started.load(SeqCst));
                child.cancel();
                child.join().unwrap();
            });
            other.cancel();
        });
    });
}

/// - given: a task parked in a wait
/// - when: it is cancelled
/// - then: the wait ends with `Cancelled`
#[test]
fn cancel_03_wakes() {
    each_run(|| {
        let waiting = AtomicU32::new(0);
        ecru::scope(|s| {
            let other = s.spawn(forever);
            ecru::scope(|inner| {
                let sleeper = inner.spawn(|| {
                    waiting.fetch_add(1, SeqCst);
                    ecru::sleep(HOUR).is_err()
                });
                let joiner = inner.spawn(|| {
                    waiting.fetch_add(1, SeqCst);
                    matches!(other.join(), Err(JoinError::CallerCancelled))
                });
                let reader = inner.spawn(|| {
                    let mut stream = pair();
                    waiting.fetch_add(1, SeqCst);
                    Cancelled::find(&stream.0.read(&mut [0]).unwrap_err()).is_some()
                });
                until(|| waiting.load(SeqCst) == 3);
                ecru::sleep(ms(1)).unwrap();
                inner.cancel();
                for child in [sleeper, joiner, reader] {
                    assert!(child.join().unwrap());
                }
            });
            other.cancel();
        });
    });
}

/// - given: a cancelled task and a socket with bytes in it
/// - when: it reads
/// - then: it gets `Cancelled`, and the next reader gets the bytes
#[test]
fn cancel_04_consumes_nothing() {
    each_run(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"ecru").unwrap();
        let mut buffer = [0; 4];
        let error = cancelled(|| client.read(&mut buffer)).unwrap_err();
        assert_eq!(Cancelled::find(&error).unwrap().reason(), CancelReason::Explicit);
        assert_eq!(buffer, [0; 4]);
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"ecru");
    });
}

/// - given: a parked wait whose value is handed over
/// - when: a cancellation comes right after that
/// - then: the wait returns the value, and the next wait returns `Cancelled`
#[test]
fn cancel_05_what_was_handed_over_stays() {
    // There is one worker, so nothing runs between the hand-over and the cancellation.
    run_on(1, || {
        let (joining, release) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let giver = s.spawn(|| {
                until(|| release.load(SeqCst));
                "value"
            });
            ecru::scope(|inner| {
                let taker = inner.spawn(|| {
                    joining.store(true, SeqCst);
                    (giver.join(), ecru::checkpoint().is_err())
                });
                until(|| joining.load(SeqCst));
                settle();
                release.store(true, SeqCst);
                until(|| giver.is_finished());
                taker.cancel();
                let (value, cancelled) = taker.join().unwrap();
                assert_eq!((value.unwrap(), cancelled), ("value", true));
            });
        });
    });
}

/// - given: one worker and a cancelled task that loops over waits and ignores their errors
/// - when: a sibling is ready
/// - then: the sibling runs
#[test]
fn cancel_12_deaf_loop_yields() {
    run_on(1, || {
        let stop = AtomicBool::new(false);
        ecru::scope(|s| {
            let other = s.spawn(forever);
            let deaf: [&(dyn Fn() + Sync); 4] = [
                &|| _ = ecru::sleep(HOUR),
                &|| _ = ecru::checkpoint(),
                &|| _ = ecru::yield_now(),
                &|| drop(other.join_timeout(HOUR)),
            ];
            for wait in deaf {
                stop.store(false, SeqCst);
                ecru::scope(|inner| {
                    let (started, stop) = (AtomicBool::new(false), &stop);
                    let started = &started;
                    ecru::scope(|deepest| {
                        let deaf = deepest.spawn(move || {
                            started.store(true, SeqCst);
                            while !stop.load(SeqCst) {
                                wait();
                            }
                        });
                        until(|| started.load(SeqCst));
                        deaf.cancel();
                        inner.spawn(move || stop.store(true, SeqCst));
                    });
                });
            }
            other.cancel();
        });
    });
}

/// - given: a cancelled task
/// - when: it calls a function that never waits
/// - then: it works
#[test]
fn cancel_16_try_calls_are_no_cancel_points() {
    each_run(|| {
        ecru::scope(|s| {
            let child = s.builder().name("child").spawn(|| 5);
            until(|| child.is_finished());
            cancelled(|| {
                assert!(child.is_finished());
                assert_eq!(child.name(), Some("child"));
                let _ = ecru::task::current();
                assert_eq!(ecru::timeout(HOUR, || 7), Ok(7));
                assert_eq!(ecru::shield(|| 8), 8);
                let running = ecru::RuntimeHandle::current();
                drop(running);
            });
            assert_eq!(child.join().unwrap(), 5);
        });
    });
}

/// - given: a task that parks and is woken again and again
/// - when: another thread cancels it at a random moment
/// - then: it always ends, and no value is lost or received twice
#[test]
fn cancel_44_races_with_waking() {
    each_run(|| {
        for round in 0..100_u32 {
            let (given, taken) = (AtomicU32::new(0), AtomicU32::new(0));
            ecru::scope(|s| {
                let taker = s.spawn(|| {
                    ecru::scope(|inner| {
                        loop {
                            let giver = inner.spawn(|| {
                                let _ = ecru::shield(|| ecru::yield_now());
                                given.fetch_add(1, SeqCst);
                            });
                            match giver.join() {
                                Ok(()) => _ = taken.fetch_add(1, SeqCst),
                                Err(JoinError::CallerCancelled) => {
                                    match ecru::shield(|| giver.join()) {
                                        Ok(()) => _ = taken.fetch_add(1, SeqCst),
                                        Err(error) => {
                                            assert!(matches!(error, JoinError::Cancelled));
                                        }
                                    }
                                    break;
                                }
                                Err(error) => {
                                    assert!(matches!(error, JoinError::Cancelled), "{error}");
                                }
                            }
                        }
                    });
                });
                thread::scope(|threads| {
                    let canceller = threads.spawn(|| {
                        for _ in 0..round * 20 {
                            std::hint::spin_loop();
                        }
                        taker.cancel();
                    });
                    until(|| canceller.is_finished());
                });
                taker.join().unwrap_or_else(|error| {
                    assert!(matches!(error, JoinError::Cancelled), "{error}");
                });
            });
            assert_eq!(given.load(SeqCst), taken.load(SeqCst));
        }
    });
}

/// A task whose budget is used up lets others run before its next wait. If one of them cancels it,
/// that wait takes nothing.
#[test]
fn cancel_04_consumes_nothing_when_the_request_comes_during_its_turn_to_wait() {
    run_on(1, || {
        // No strategy of a simulation keeps a task from its turn for so long.
        const VALUES: usize = 5000;
        let (sender, receiver) = ecru::channel::unbounded();
        (0..VALUES).for_each(|value| sender.send(value).unwrap());
        let (started, asked) = (Latch::new(1), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                let mut taken = 0;
                while receiver.recv().is_ok() {
                    assert!(!asked.load(SeqCst), "it took one after it was asked to stop");
                    taken += 1;
                    if taken == 1 {
                        started.count_down();
                    }
                }
                taken
            });
            started.wait().unwrap();
            child.cancel();
            asked.store(true, SeqCst);
            let taken = child.join().unwrap();
            assert!(taken > 0 && taken < VALUES, "{taken}: it was asked in the middle");
            assert_eq!(receiver.len(), VALUES - taken);
        });
    });
}
