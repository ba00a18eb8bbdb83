//! `cancel_scope`: limits that move, and waiting for its cancellation.

use std::io::Read as _;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ecru::net::UnixStream;
use ecru::sync::Latch;
use ecru::{CancelHandle, CancelReason, Source, channel, source, task};

use crate::simulated;
use crate::support::{HOUR, Side, each_run, everywhere, forever, ms, now, run_on, settle, since};

/// Waits for an hour in a section. Returns the reason for the end of the wait, and its duration.
fn waits(prepare: impl FnOnce(&CancelHandle)) -> (CancelReason, Duration) {
    let start = now();
    let reason = ecru::cancel_scope(|c| {
        prepare(&c);
        let reason = forever().reason();
        assert!(c.is_cancelled());
        reason
    });
    assert!(ecru::checkpoint().is_ok());
    (reason, since(start))
}

/// - given: a `cancel_scope`
/// - when: its limit is set, to a time that comes, or to one that has passed
/// - then: its waits are cancelled at that time, or at once, with the reason `Deadline`; those of
///   tasks inside, too; the section returns what its body returns
#[test]
fn cancel_65_a_section_with_a_limit() {
    everywhere(|side| {
        let (reason, took) = waits(|c| {
            c.set_deadline(now() + ms(4));
            assert!(c.deadline() == task::deadline() && c.deadline().is_some());
        });
        assert!(reason == CancelReason::Deadline && took >= ms(4), "{reason} {took:?}");
        waits(|c| c.set_deadline(now()));
        let value = ecru::cancel_scope(|c| {
            c.set_deadline(Some(now()));
            assert!(c.is_cancelled() && ecru::is_cancelled() && ecru::checkpoint().is_err());
            c.set_deadline(None);
            assert!(c.is_cancelled() && ecru::checkpoint().is_err());
            7
        });
        assert_eq!(value, 7);
        let in_time = ecru::cancel_scope(|c| {
            c.set_deadline(now() + HOUR);
            ecru::sleep(ms(1)).is_ok()
        });
        assert!(in_time);
        if side == Side::Task {
            let reason = ecru::cancel_scope(|c| {
                ecru::scope(|s| {
                    let child = s.spawn(|| forever().reason());
                    settle();
                    c.set_deadline(now() + ms(1));
                    child.join().unwrap_or(CancelReason::Deadline)
                })
            });
            assert_eq!(reason, CancelReason::Deadline);
        }
    });
}

/// - given: a section that waits, and a limit
/// - when: another task moves the limit to an earlier time, to a later one, or takes it away and
///   cancels the section
/// - then: the wait ends at the new time; not before the new time; by that cancellation
#[test]
fn cancel_66_a_limit_moves() {
    each_run(|| {
        let moved = |mover: &(dyn Fn(&CancelHandle) + Sync)| {
            let (tell, told) = channel::bounded(1);
            ecru::scope(|s| {
                let waiting = s.spawn(move || waits(|c| tell.send(c.clone()).unwrap()));
                let handle = told.recv().unwrap();
                mover(&handle);
                waiting.join().unwrap()
            })
        };
        let (reason, took) = moved(&|c| {
            c.set_deadline(now() + HOUR);
            settle();
            c.set_deadline(now() + ms(2));
        });
        assert!(reason == CancelReason::Deadline && took < HOUR, "{reason} {took:?}");
        let (reason, took) = moved(&|c| {
            let start = now();
            for later in [HOUR, ms(50), ms(20), HOUR, ms(40), ms(30)] {
                c.set_deadline(start + later);
                ecru::yield_now().unwrap();
            }
        });
        assert!(reason == CancelReason::Deadline && took >= ms(20), "{reason} {took:?}");
        let (reason, _) = moved(&|c| {
            c.set_deadline(now() + HOUR);
            c.set_deadline(None);
            assert_eq!(c.deadline(), None);
            c.cancel();
        });
        assert_eq!(reason, CancelReason::Explicit);
    });
}

/// - given: a plain thread that waits in a section, for a time, for a value, or for bytes
/// - when: another thread moves the section's limit to a later time
/// - then: the wait is cancelled at the later time, and not before
#[test]
fn cancel_67_a_limit_moves_on_a_thread() {
    let (_sender, receiver) = channel::unbounded::<u32>();
    let (silent, _peer) = StdStream::pair().unwrap();
    let silent = UnixStream::try_from(silent).unwrap();
    let waits: [&(dyn Fn() -> bool + Sync); 3] =
        [&|| ecru::sleep(HOUR).is_err(), &|| receiver.recv().is_err(), &|| {
            (&silent).read(&mut [0]).is_err()
        }];
    for wait in waits {
        thread::scope(|t| {
            let start = now();
            let (took, moved) = ecru::cancel_scope(|c| {
                c.set_deadline(start + ms(20));
                let mover = c.clone();
                let moves = t.spawn(move || {
                    mover.set_deadline(start + ms(60));
                    since(start)
                });
                assert!(wait());
                (since(start), moves.join().unwrap())
            });
            // The other thread may have come too late.
            assert!(took >= if moved < ms(20) { ms(60) } else { ms(20) }, "{took:?} {moved:?}");
        });
        let start = now();
        ecru::cancel_scope(|c| {
            c.set_deadline(start + ms(5));
            c.set_deadline(start + ms(10));
            let least = if since(start) < ms(5) { ms(10) } else { ms(5) };
            assert!(wait() && since(start) >= least);
        });
    }
}

/// - given: limits of several kinds around each other
/// - when: `task::deadline` is called
/// - then: the earliest limit, up to the next shield; of a child, that of its scope
#[test]
fn cancel_68_the_nearest_limit() {
    everywhere(|side| {
        assert_eq!(task::deadline(), None);
        let (soon, later) = (now() + HOUR, now() + 2 * HOUR);
        let nested = ecru::timeout_at(soon, || {
            assert_eq!(task::deadline(), Some(soon));
            let inner = || ecru::timeout_at(later, task::deadline).unwrap();
            assert_eq!(inner(), Some(soon));
            ecru::shield(|| {
                assert_eq!(task::deadline(), None);
                assert_eq!(inner(), Some(later));
            });
            assert_eq!(ecru::shield_for(HOUR, task::deadline), None);
            if side == Side::Task {
                ecru::scope(|s| {
                    assert_eq!(s.spawn(task::deadline).join().unwrap(), Some(soon));
                    assert_eq!(s.spawn(inner).join().unwrap(), Some(soon));
                });
                assert_eq!(ecru::spawn(task::deadline).join().unwrap(), None);
            }
            ecru::cancel_scope(|c| {
                assert_eq!((task::deadline(), c.deadline()), (Some(soon), None));
                c.set_deadline(later);
                assert_eq!((task::deadline(), c.deadline()), (Some(soon), Some(later)));
                let sooner = soon - ms(1_000);
                c.set_deadline(sooner);
                assert_eq!((task::deadline(), inner()), (Some(sooner), Some(sooner)));
                c.set_deadline(None);
                assert_eq!(task::deadline(), Some(soon));
            });
        });
        assert!(nested.is_ok() && task::deadline().is_none());
    });
}

/// - given: limits around each other, of which one is a section's
/// - when: the outer one passes, or the inner one
/// - then: the wait is cancelled; only a `timeout` whose own limit has passed returns `Elapsed`
#[test]
fn cancel_69_limits_of_sections_and_timeouts() {
    everywhere(|_| {
        let outer = ecru::timeout(ms(1), || {
            waits_inside(now() + HOUR);
        });
        assert!(outer.is_err());
        let inner = ecru::timeout(HOUR, || {
            waits_inside(now() + ms(1));
            ecru::checkpoint().is_ok()
        });
        assert_eq!(inner, Ok(true));
        ecru::cancel_scope(|c| {
            c.set_deadline(now() + ms(1));
            assert!(ecru::timeout(HOUR, || forever().reason()) == Ok(CancelReason::Deadline));
        });
    });
}

fn waits_inside(deadline: std::time::Instant) {
    ecru::cancel_scope(|c| {
        c.set_deadline(deadline);
        assert_eq!(forever().reason(), CancelReason::Deadline);
    });
}

/// - given: a section with a limit
/// - when: the limit passes while its task computes; after the section has ended; after all handles
///   have gone
/// - then: `checkpoint` sees it at once; its task is not cancelled
#[test]
fn cancel_70_a_limit_and_the_end_of_its_section() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            let limit = now() + ms(1);
            c.set_deadline(limit);
            if simulated::is_on() {
                // Virtual time does not pass while a task computes.
                assert!(ecru::sleep(HOUR).is_err());
            }
            while now() < limit {
                std::hint::spin_loop();
            }
            assert!(ecru::is_cancelled() && ecru::checkpoint().is_err());
        });
        // A section that has ended before its limit, which it may not do on a busy machine.
        let late = loop {
            let limit = now() + ms(2);
            let section = ecru::cancel_scope(|c| {
                c.set_deadline(limit);
                c
            });
            if now() < limit {
                break section;
            }
        };
        ecru::cancel_scope(|c| c.set_deadline(now() + ms(2)));
        ecru::sleep(ms(5)).unwrap();
        late.set_deadline(now());
        late.set_deadline(now() + ms(1));
        ecru::sleep(ms(3)).unwrap();
        assert!(!late.is_cancelled() && late.cancelled().try_take().is_none());
    });
}

/// - given: a section whose limit has passed while its task computed
/// - when: the limit is moved away or taken away
/// - then: the section is cancelled all the same
#[test]
fn cancel_75_a_limit_that_has_passed_stays() {
    for moved in [None, Some(HOUR)] {
        ecru::cancel_scope(|c| {
            let limit = now() + ms(1);
            c.set_deadline(limit);
            while now() < limit {
                std::hint::spin_loop();
            }
            c.set_deadline(moved.map(|later| now() + later));
            assert!(c.is_cancelled());
            assert_eq!(c.cancelled().try_take(), Some(CancelReason::Deadline));
        });
    }
}

type Cancels = fn(&CancelHandle);

/// - given: `cancelled()` of a section, waited for by tasks and threads outside of it
/// - when: the section is cancelled by its handle, from further out, or by its limit
/// - then: the waits end with the reason; so do later ones; before that they do not
#[test]
fn cancel_71_waiting_for_a_cancellation() {
    everywhere(|side| {
        let cases: [(CancelReason, Cancels); 2] = [
            (CancelReason::Explicit, CancelHandle::cancel),
            (CancelReason::Deadline, |c| c.set_deadline(now() + ms(1))),
        ];
        for (reason, cancel) in cases {
            let (tell, told) = channel::bounded(1);
            let (waited, ()) = side.both(
                || {
                    let handle: CancelHandle = told.recv().unwrap();
                    let source = handle.cancelled();
                    (source.wait(), source.wait(), handle.cancelled().try_take())
                },
                || {
                    ecru::cancel_scope(|c| {
                        let source = c.cancelled();
                        assert_eq!(source.try_take(), None);
                        assert_eq!(format!("{source:?}"), "WhenCancelled(None)");
                        assert!(ecru::timeout(ms(1), || source.wait()).is_err());
                        tell.send(c.clone()).unwrap();
                        side.pause();
                        cancel(&c);
                        let inside = source.wait().unwrap_or_else(|cancelled| cancelled.reason());
                        assert_eq!(inside, reason);
                        assert_eq!(source.try_take(), Some(reason));
                    });
                },
            );
            assert_eq!(waited, (Ok(reason), Ok(reason), Some(reason)));
        }
    });
    run_on(1, || {
        let (tell, told) = channel::bounded(1);
        ecru::scope(|s| {
            let outer = s.spawn_local(move || {
                ecru::cancel_scope(|c| {
                    tell.send(c.cancelled()).unwrap();
                    forever()
                })
            });
            let inner = told.recv().unwrap();
            outer.cancel();
            assert_eq!(inner.wait(), Ok(CancelReason::Explicit));
            outer.join().unwrap();
        });
    });
}

/// - given: a section that ends without a cancellation
/// - when: its handle is used afterwards
/// - then: waits for its cancellation go on until `cancel` is called, and then end
#[test]
fn cancel_72_the_cancellation_of_a_section_that_has_ended() {
    everywhere(|side| {
        let (handle, source) = ecru::cancel_scope(|c| (c.clone(), c.cancelled()));
        assert!(ecru::timeout(ms(1), || source.wait()).is_err());
        let late = handle.cancelled();
        let (waited, ()) = side.both(
            || (source.wait(), late.wait()),
            || {
                side.pause();
                handle.cancel();
            },
        );
        assert_eq!(waited, (Ok(CancelReason::Explicit), Ok(CancelReason::Explicit)));
        drop(handle);
        assert_eq!(source.try_take(), Some(CancelReason::Explicit));
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: sources of a section's cancellation: in a race, a future, a callback, a task that has not
///   started, dropped ones and forgotten ones
/// - when: the section is cancelled
/// - then: each is notified once; those that were dropped are not; nothing is left of the section
#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn cancel_73_cancellations_as_sources() {
    each_run(|| {
        let (tell, told) = mpsc::channel();
        let done = Latch::new(2);
        ecru::scope(|s| {
            ecru::cancel_scope(|c| {
                drop(c.cancelled());
                std::mem::forget(c.cancelled());
                let unused = c.cancelled();
                let subscription = c.cancelled().on_ready({
                    let tell = tell.clone();
                    move |reason| tell.send(reason).unwrap()
                });
                let withdrawn = c.cancelled().on_ready(|_| unreachable!("it was withdrawn"));
                drop(withdrawn);
                let future = c.cancelled().to_future();
                s.spawn_when(c.cancelled(), |reason| {
                    assert_eq!(reason, CancelReason::Explicit);
                    done.count_down();
                });
                let race = c.cancelled();
                s.spawn(|| {
                    let race = race;
                    let reason = (&race).or(source::never()).wait().unwrap();
                    assert_eq!(reason, CancelReason::Explicit);
                    done.count_down();
                });
                ecru::yield_now().unwrap();
                c.cancel();
                drop(unused);
                assert_eq!(told.recv(), Ok(CancelReason::Explicit));
                let reason = ecru::shield(|| ecru::block_on(future));
                assert_eq!(reason, Ok(CancelReason::Explicit));
                drop(subscription);
            });
            done.wait().unwrap();
        });
        drop(tell);
        assert!(told.try_recv().is_err());
    });
}

/// - given: many sections that are cancelled by another task or thread
/// - when: sources of their cancellation are waited for and dropped at the same time
/// - then: every wait ends
#[test]
fn cancel_74_cancellations_at_the_same_time() {
    everywhere(|side| {
        for _ in 0..50 {
            let handle = ecru::cancel_scope(|c| c);
            let (reasons, ()) = side.many(
                3,
                |number| {
                    let source = handle.cancelled();
                    drop(handle.cancelled());
                    if number == 0 { Ok(CancelReason::Explicit) } else { source.wait() }
                },
                || handle.cancel(),
            );
            assert_eq!(reasons, [Ok(CancelReason::Explicit); 3]);
        }
    });
}
