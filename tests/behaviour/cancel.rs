//! Cancellation, timeouts, shields and hooks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ecru::net::{TcpListener, TcpStream};
use ecru::{CancelHandle, CancelReason, Cancelled, Elapsed, JoinError};

use crate::support::{
    Counted, HOUR, OnDrop, Watchdog, each_run, forever, ms, panic_text, quiet_panic, run_on,
    settle, until,
};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Calls `body` in a section that is cancelled already.
fn cancelled<T>(body: impl FnOnce() -> T) -> T {
    ecru::cancel_scope(|c| {
        c.cancel();
        body()
    })
}

/// Uses up time without waiting.
fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Who was not asked to stop sees nothing.
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

/// Once cancelled, every wait is, at once.
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

/// A wait in progress ends.
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

/// A cancelled read leaves the bytes where they are.
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

/// Who has been handed a value gets it, though he was cancelled before he could look.
#[test]
fn cancel_05_what_was_handed_over_stays() {
    // One worker: nothing runs between the hand-over and the cancel.
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

/// A handle's `cancel` is explicit.
#[test]
fn cancel_06_reason_explicit() {
    each_run(|| {
        let started = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                started.store(true, SeqCst);
                (forever(), ecru::checkpoint().unwrap_err())
            });
            until(|| started.load(SeqCst));
            child.cancel();
            let (first, second) = child.join().unwrap();
            assert_eq!(first.reason(), CancelReason::Explicit);
            assert_eq!(first, second);
        });
    });
}

/// A timeout's reason is the deadline.
#[test]
fn cancel_07_reason_deadline() {
    each_run(|| {
        let mut reason = None;
        let result = ecru::timeout(ms(1), || reason = Some(forever().reason()));
        assert!(result.is_err());
        assert_eq!(reason, Some(CancelReason::Deadline));
    });
}

/// The first reason is the one that counts.
#[test]
fn cancel_08_first_reason_stays() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            let result = ecru::timeout(ms(1), || {
                c.cancel();
                assert_eq!(forever().reason(), CancelReason::Explicit);
                spin(ms(2));
                settle();
                forever().reason()
            });
            // Nothing was interrupted by the deadline.
            assert_eq!(result, Ok(CancelReason::Explicit));
        });
    });
}

/// As an `io::Error` it is of kind `Other`, and is found again.
#[test]
fn cancel_09_as_io_error() {
    each_run(|| {
        let error = cancelled(forever);
        let io_error = io::Error::from(error);
        assert_eq!(io_error.kind(), io::ErrorKind::Other);
        assert_eq!(Cancelled::find(&io_error), Some(error));
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, io_error);
        assert_eq!(Cancelled::find(&wrapped).unwrap().reason(), CancelReason::Explicit);
        assert!(error.to_string().contains("cancelled"), "{error}");
    });
}

/// Other errors are not mistaken for it, even when the task is cancelled.
#[test]
fn cancel_10_find_in_other_errors() {
    each_run(|| {
        cancelled(|| {
            let errors = [
                io::Error::from_raw_os_error(2),
                io::Error::other("cancelled"),
                io::ErrorKind::TimedOut.into(),
            ];
            for error in errors {
                assert_eq!(Cancelled::find(&error), None);
            }
        });
    });
}

/// `BufReader` and `io::copy` neither retry nor swallow it.
#[test]
fn cancel_11_passes_through_std() {
    each_run(|| {
        let (client, server) = pair();
        (&server).write_all(b"half a line").unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(&client);
        ecru::scope(|s| {
            let result = ecru::cancel_scope(|c| {
                let reading = s.spawn(move || {
                    settle();
                    c.cancel();
                });
                let result = reader.read_line(&mut line);
                ecru::shield(|| reading.join()).unwrap();
                result
            });
            assert!(Cancelled::find(&result.unwrap_err()).is_some());
        });
        let error = cancelled(|| io::copy(&mut &client, &mut io::sink())).unwrap_err();
        assert_eq!(Cancelled::find(&error).unwrap().reason(), CancelReason::Explicit);
        // What was read is not lost.
        assert_eq!(line, "half a line");
    });
}

/// A loop that ignores all errors cannot hang its worker.
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

/// A request reaches children and grandchildren.
#[test]
fn cancel_13_goes_down() {
    each_run(|| {
        let (waiting, cancelled) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait = || {
            waiting.fetch_add(1, SeqCst);
            assert_eq!(forever().reason(), CancelReason::Explicit);
            cancelled.fetch_add(1, SeqCst);
        };
        let wait = &wait;
        ecru::scope(|s| {
            let top = s.spawn(|| {
                ecru::scope(|children| {
                    for _ in 0..2 {
                        children.spawn(|| {
                            ecru::scope(|grandchildren| {
                                grandchildren.spawn(wait);
                                grandchildren.spawn(|| ecru::timeout(HOUR, wait));
                                wait();
                            });
                        });
                    }
                    wait();
                });
            });
            until(|| waiting.load(SeqCst) == 7);
            top.cancel();
            top.join().unwrap();
        });
        assert_eq!(cancelled.load(SeqCst), 7);
    });
}

/// To a task that has ended nothing happens.
#[test]
fn cancel_14_of_what_has_ended() {
    each_run(|| {
        ecru::scope(|s| {
            let child = s.spawn(|| 5);
            until(|| child.is_finished());
            child.cancel();
            child.cancel();
            assert_eq!(child.join().unwrap(), 5);
            child.cancel();
        });
    });
}

/// What a cancelled task spawns never begins.
#[test]
fn cancel_15_child_of_a_cancelled_task() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        cancelled(|| {
            ecru::scope(|s| {
                let counted = Counted(&dropped);
                let child = s.spawn(move || {
                    let _counted = counted;
                    unreachable!()
                });
                let other = s.builder().name("bound").spawn(|| ());
                let joined = ecru::shield(|| child.join());
                assert!(matches!(joined, Err::<(), _>(JoinError::Cancelled)));
                assert!(matches!(other.join(), Err(JoinError::CallerCancelled)));
            });
        });
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

/// What never waits does not care.
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
                let running = ecru::Handle::current();
                drop(running);
            });
            assert_eq!(child.join().unwrap(), 5);
        });
    });
}

/// A shield keeps a request out, and it is seen afterwards.
#[test]
fn cancel_17_shield() {
    each_run(|| {
        let (shielded, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                ecru::shield(|| {
                    shielded.store(true, SeqCst);
                    until(|| cancelled.load(SeqCst));
                    assert!(!ecru::is_cancelled());
                    assert!(ecru::sleep(ms(1)).is_ok());
                    assert!(ecru::uninterruptible(|| ecru::checkpoint()).is_ok());
                });
                assert!(ecru::is_cancelled());
                ecru::sleep(HOUR).unwrap_err().reason()
            });
            until(|| shielded.load(SeqCst));
            child.cancel();
            cancelled.store(true, SeqCst);
            assert_eq!(child.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// A shield works for who has been cancelled already.
#[test]
fn cancel_18_shield_entered_late() {
    each_run(|| {
        cancelled(|| {
            assert!(ecru::checkpoint().is_err());
            assert!(ecru::shield(|| ecru::sleep(ms(1))).is_ok());
            assert_eq!(ecru::shield(|| ecru::scope(|s| s.spawn(|| 5).join())).unwrap(), 5);
            assert!(ecru::checkpoint().is_err());
        });
    });
}

/// The children of a scope that was opened in a shield are shielded.
#[test]
fn cancel_19_shield_covers_children() {
    each_run(|| {
        let (sleeping, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::shield(|| {
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            sleeping.store(true, SeqCst);
                            until(|| cancelled.load(SeqCst));
                            assert!(!ecru::is_cancelled());
                            ecru::sleep(ms(1)).unwrap();
                            inner.spawn(|| 5).join().unwrap()
                        });
                    });
                });
                ecru::is_cancelled()
            });
            until(|| sleeping.load(SeqCst));
            task.cancel();
            cancelled.store(true, SeqCst);
            assert!(task.join().unwrap());
        });
    });
}

/// A shield with a limit opens when its time is up.
#[test]
fn cancel_20_shield_for() {
    each_run(|| {
        cancelled(|| {
            let before = Instant::now();
            let (short, long) = ecru::shield_for(ms(3), || (ecru::sleep(ms(1)), ecru::sleep(HOUR)));
            assert!(short.is_ok());
            assert_eq!(long.unwrap_err().reason(), CancelReason::Explicit);
            assert!(before.elapsed() >= ms(3));
            assert!(ecru::shield_for(Duration::MAX, || ecru::sleep(ms(1))).is_ok());
        });
        // A request that comes after the time is up gets through as well, also to children.
        let ready = AtomicBool::new(false);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::shield_for(ms(1), || {
                    ecru::scope(|inner| {
                        let child = inner.spawn(|| {
                            ecru::sleep(ms(2)).unwrap();
                            ready.store(true, SeqCst);
                            forever().reason()
                        });
                        ecru::shield(|| child.join()).unwrap()
                    })
                })
            });
            until(|| ready.load(SeqCst));
            task.cancel();
            assert_eq!(task.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// A shield keeps out what comes from outside, not what is inside.
#[test]
fn cancel_21_timeout_inside_a_shield() {
    each_run(|| {
        cancelled(|| {
            ecru::shield(|| {
                let mut reason = None;
                let result = ecru::timeout(ms(1), || reason = Some(forever().reason()));
                assert!(result.is_err());
                assert_eq!(reason, Some(CancelReason::Deadline));
                assert!(ecru::checkpoint().is_ok());
            });
        });
    });
}

/// In time is in time, for good.
#[test]
fn cancel_22_timeout_in_time() {
    each_run(|| {
        assert_eq!(ecru::timeout(ms(1), || 7), Ok(7));
        assert_eq!(ecru::timeout_at(Instant::now() + HOUR, || ecru::sleep(ms(1))), Ok(Ok(())));
        ecru::sleep(ms(3)).unwrap();
        assert!(!ecru::is_cancelled());
    });
}

/// A timeout awaits its body.
#[test]
fn cancel_23_timeout_awaits() {
    each_run(|| {
        let mut cleaned = false;
        let result = ecru::timeout(ms(1), || {
            forever();
            ecru::shield(|| ecru::sleep(ms(2))).unwrap();
            cleaned = true;
        });
        assert!(result.is_err() && cleaned);
    });
}

/// Where nothing was interrupted the value counts.
#[test]
fn cancel_24_timeout_not_noticed() {
    each_run(|| {
        let late = ecru::timeout(ms(1), || {
            spin(ms(3));
            7
        });
        assert_eq!(late, Ok(7));
        assert!(ecru::checkpoint().is_ok());
    });
}

/// Who swallows the interruption does not hide it.
#[test]
fn cancel_25_timeout_swallowed() {
    each_run(|| {
        let result = ecru::timeout(ms(1), || {
            forever();
            7
        });
        assert!(result.is_err());
    });
}

/// The interruption of a child counts as well.
#[test]
fn cancel_26_timeout_through_a_child() {
    each_run(|| {
        let result = ecru::timeout(ms(2), || {
            ecru::scope(|s| {
                s.spawn(|| assert_eq!(forever().reason(), CancelReason::Deadline));
            });
            7
        });
        assert!(result.is_err());
        // So does that of a child that has not begun.
        let result = ecru::timeout(Duration::ZERO, || {
            spin(ms(1));
            ecru::scope(|s| drop(s.spawn(forever)));
        });
        assert!(result.is_err());
        assert!(ecru::checkpoint().is_ok());
    });
}

/// An outer expiry is the outer call's.
#[test]
fn cancel_27_outer_deadline_first() {
    each_run(|| {
        let mut inner = None;
        let outer = ecru::timeout(ms(1), || {
            inner = Some(ecru::timeout(HOUR, || forever().reason()));
            assert!(ecru::checkpoint().is_err());
        });
        assert!(outer.is_err());
        assert_eq!(inner, Some(Ok(CancelReason::Deadline)));
    });
}

/// An inner expiry is the inner call's.
#[test]
fn cancel_28_inner_deadline_first() {
    each_run(|| {
        let outer = ecru::timeout(HOUR, || {
            let inner = ecru::timeout(ms(1), forever);
            assert!(inner.is_err());
            ecru::sleep(ms(1)).unwrap();
            7
        });
        assert_eq!(outer, Ok(7));
    });
}

/// No time at all is enough for who does not wait.
#[test]
fn cancel_29_timeout_of_nothing() {
    each_run(|| {
        let past = Instant::now().checked_sub(ms(5)).unwrap_or_else(Instant::now);
        assert!(ecru::timeout(Duration::ZERO, forever).is_err());
        assert!(ecru::timeout_at(past, forever).is_err());
        assert_eq!(ecru::timeout(Duration::ZERO, || 7), Ok(7));
        assert_eq!(ecru::timeout_at(past, || 7), Ok(7));
    });
}

/// The longest of durations is no limit.
#[test]
fn cancel_30_timeout_for_ever() {
    each_run(|| {
        assert_eq!(ecru::timeout(Duration::MAX, || ecru::sleep(ms(1))), Ok(Ok(())));
        assert_eq!(ecru::timeout(Duration::MAX / 2, || 7), Ok(7));
        let soon = ecru::timeout(ms(1), || ecru::sleep(Duration::MAX));
        assert!(soon.is_err());
    });
}

#[derive(Debug, PartialEq)]
enum Trouble {
    Late,
    Own,
}

impl From<Elapsed> for Trouble {
    fn from(_: Elapsed) -> Trouble {
        Trouble::Late
    }
}

/// `try_timeout` has one error type.
#[test]
fn cancel_31_try_timeout() {
    each_run(|| {
        let late: Result<(), Trouble> = ecru::try_timeout(ms(1), || {
            forever();
            Err(Trouble::Own)
        });
        assert_eq!(late, Err(Trouble::Late));
        assert_eq!(ecru::try_timeout(HOUR, || Err::<(), _>(Trouble::Own)), Err(Trouble::Own));
        assert_eq!(ecru::try_timeout(HOUR, || Ok::<_, Trouble>(7)), Ok(7));
        let io: io::Result<()> = ecru::try_timeout(ms(1), || Ok(ecru::sleep(HOUR)?));
        assert_eq!(io.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

/// A section in place is cancelled from another task, and only it.
#[test]
fn cancel_32_in_place() {
    each_run(|| {
        ecru::scope(|s| {
            let reason = ecru::cancel_scope(|c| {
                s.spawn(move || {
                    settle();
                    c.cancel();
                });
                forever().reason()
            });
            assert_eq!(reason, CancelReason::Explicit);
            assert!(ecru::sleep(ms(1)).is_ok());
        });
    });
}

/// A section may cancel itself.
#[test]
fn cancel_33_in_place_by_itself() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            assert!(!c.is_cancelled());
            c.clone().cancel();
            assert!(c.is_cancelled() && ecru::is_cancelled());
            assert_eq!(forever().reason(), CancelReason::Explicit);
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// A section's scopes are below it.
#[test]
fn cancel_34_in_place_with_children() {
    each_run(|| {
        let waiting = AtomicU32::new(0);
        ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                let children: Vec<_> = (0..3)
                    .map(|_| {
                        s.spawn(|| {
                            waiting.fetch_add(1, SeqCst);
                            forever().reason()
                        })
                    })
                    .collect();
                until(|| waiting.load(SeqCst) == 3);
                c.cancel();
                for child in children {
                    assert_eq!(ecru::shield(|| child.join()).unwrap(), CancelReason::Explicit);
                }
            });
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// A handle that outlives its section does nothing, wherever it is.
#[test]
fn cancel_35_handle_outlives() {
    let mut kept: Vec<CancelHandle> = Vec::new();
    let kept = Mutex::new(&mut kept);
    each_run(|| {
        let handle = ecru::cancel_scope(|c| c);
        handle.cancel();
        assert!(ecru::sleep(ms(1)).is_ok());
        ecru::scope(|s| {
            let from_child = s.spawn(|| ecru::cancel_scope(|c| c)).join().unwrap();
            let still_running = ecru::cancel_scope(|c| c);
            thread::scope(|threads| drop(threads.spawn(|| from_child.cancel())));
            s.spawn(move || still_running.cancel());
            assert!(ecru::sleep(ms(1)).is_ok());
        });
        kept.lock().unwrap().push(ecru::cancel_scope(|c| c));
    });
    for handle in kept.into_inner().unwrap() {
        handle.cancel();
    }
}

/// However many cancel at once, a hook runs once.
#[test]
fn cancel_36_hook_runs_once() {
    each_run(|| {
        for _ in 0..20 {
            let calls = AtomicU32::new(0);
            ecru::cancel_scope(|c| {
                let go = Barrier::new(4);
                ecru::on_cancel(
                    || _ = calls.fetch_add(1, SeqCst),
                    || {
                        thread::scope(|threads| {
                            for _ in 0..4 {
                                threads.spawn(|| {
                                    go.wait();
                                    c.cancel();
                                });
                            }
                        });
                    },
                );
            });
            assert_eq!(calls.load(SeqCst), 1);
        }
        // A request that came first counts as well.
        let calls = AtomicU32::new(0);
        cancelled(|| ecru::on_cancel(|| _ = calls.fetch_add(1, SeqCst), || ()));
        assert_eq!(calls.load(SeqCst), 1);
    });
}

/// After its body a hook does not run any more.
#[test]
fn cancel_37_hook_not_after() {
    each_run(|| {
        let calls = AtomicUsize::new(0);
        ecru::cancel_scope(|c| {
            let counted = Counted(&calls);
            let hook = move || {
                let _counted = counted;
                unreachable!("too late");
            };
            // It is dropped unrun.
            let value = ecru::on_cancel(hook, || 7);
            assert_eq!((value, calls.load(SeqCst)), (7, 1));
            c.cancel();
        });
        assert_eq!(calls.load(SeqCst), 1);
    });
}

/// Leaving the body waits for a hook that is at work.
#[test]
fn cancel_38_hook_is_awaited() {
    each_run(|| {
        let (began, release) = (AtomicBool::new(false), AtomicBool::new(false));
        let ended = AtomicBool::new(false);
        let hook = || {
            began.store(true, SeqCst);
            while !release.load(SeqCst) {
                thread::yield_now();
            }
            ended.store(true, SeqCst);
        };
        thread::scope(|threads| {
            ecru::cancel_scope(|c| {
                ecru::on_cancel(hook, || {
                    threads.spawn(move || c.cancel());
                    until(|| began.load(SeqCst));
                    threads.spawn(|| {
                        thread::sleep(ms(1));
                        release.store(true, SeqCst);
                    });
                });
                assert!(ended.load(SeqCst));
            });
        });
    });
}

/// What a hook does wrong harms nobody.
#[test]
fn cancel_39_hook_panics() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            let value = ecru::on_cancel(
                || quiet_panic("in the hook"),
                || {
                    c.cancel();
                    7
                },
            );
            assert_eq!(value, 7);
        });
        let refused = Mutex::new(String::new());
        ecru::cancel_scope(|c| {
            let hook = || *refused.lock().unwrap() = panic_text(|| ecru::sleep(ms(1)));
            ecru::on_cancel(hook, || c.cancel());
        });
        assert!(refused.lock().unwrap().contains("no_suspend"));
    });
}

/// A hook runs in time though the task's only worker is held up by foreign code.
#[test]
fn cancel_40_hook_despite_foreign_code() {
    each_run(|| {
        let stop = AtomicBool::new(false);
        let before = Instant::now();
        let result = ecru::timeout(ms(5), || {
            ecru::on_cancel(
                || stop.store(true, SeqCst),
                || {
                    // Blocks the thread: no timer of this worker can ring.
                    while !stop.load(SeqCst) {
                        thread::yield_now();
                        assert!(before.elapsed() < Duration::from_secs(10), "the hook has not run");
                    }
                },
            );
            ecru::checkpoint()
        });
        assert!(result.is_err());
        assert!(before.elapsed() >= ms(5));
    });
}

/// While a task unwinds its waits fail at once.
#[test]
fn cancel_41_unwinding() {
    each_run(|| {
        let waits = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let other = s.spawn(forever);
            let unstarted = s.spawn(|| ecru::sleep(ms(1)).is_ok());
            ecru::scope(|inner| {
                let panicking = inner.spawn(|| {
                    let _waits = OnDrop(|| {
                        let mut waits = waits.lock().unwrap();
                        waits.push(ecru::sleep(HOUR).is_err());
                        waits.push(ecru::sleep(ms(1)).is_err());
                        waits.push(ecru::checkpoint().is_err());
                        waits.push(ecru::yield_now().is_err());
                        waits.push(matches!(other.join(), Err(JoinError::CallerCancelled)));
                        waits.push(matches!(unstarted.join(), Err(JoinError::CallerCancelled)));
                    });
                    quiet_panic("unwinding");
                });
                assert!(matches!(panicking.join(), Err::<(), _>(JoinError::Panicked(_))));
            });
            // Nobody else has been disturbed.
            assert!(unstarted.join().unwrap());
            assert!(ecru::sleep(ms(1)).is_ok());
            other.cancel();
        });
        assert_eq!(*waits.lock().unwrap(), [true; 6]);
    });
}

/// What cannot fail waits while a task unwinds, too.
#[test]
fn cancel_42_unwinding_shield() {
    each_run(|| {
        let (shielded, child) = (Mutex::new(None), Mutex::new(None));
        ecru::scope(|s| {
            let panicking = s.spawn(|| {
                let _waits = OnDrop(|| {
                    *shielded.lock().unwrap() = Some(ecru::shield(|| ecru::sleep(ms(2))));
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            *child.lock().unwrap() = Some(ecru::sleep(ms(2)));
                        });
                    });
                });
                quiet_panic("unwinding");
            });
            // Meanwhile the worker's other tasks are not unwinding.
            let sibling = s.spawn(|| (0..4).all(|_| ecru::sleep(ms(1)).is_ok()));
            assert!(matches!(panicking.join(), Err::<(), _>(JoinError::Panicked(_))));
            assert!(sibling.join().unwrap());
        });
        assert_eq!(*shielded.lock().unwrap(), Some(Ok(())));
        assert_eq!(*child.lock().unwrap(), Some(Ok(())));
    });
}

/// A plain thread's waits take the nearest deadline.
#[test]
fn cancel_43_thread_deadline() {
    let _watchdog = Watchdog::new();
    let before = Instant::now();
    assert!(ecru::timeout(ms(2), || forever().reason()).is_err());
    assert!(before.elapsed() >= ms(2));
    let (mut client, _server) = pair();
    let read = ecru::timeout(ms(2), || client.read(&mut [0]));
    assert!(read.is_err());
    assert!(ecru::timeout(HOUR, || ecru::timeout(ms(1), forever)).unwrap().is_err());
    assert!(ecru::timeout(ms(1), || ecru::timeout(HOUR, forever).unwrap()).is_err());
    assert_eq!(ecru::timeout(HOUR, || ecru::sleep(ms(1))), Ok(Ok(())));
    assert!(ecru::checkpoint().is_ok());
    run_on(1, || {
        ecru::scope(|s| {
            let child = s.spawn(forever);
            thread::scope(|threads| {
                let joined = threads.spawn(|| ecru::timeout(ms(2), || child.join().map(drop)));
                assert!(joined.join().unwrap().is_err());
            });
            child.cancel();
        });
    });
}

/// Whenever the request comes, the task ends, and what is handed over arrives once.
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
