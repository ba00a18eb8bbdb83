//! Requests to cancel, and closed channels, against tasks that wait for their items.
#![expect(clippy::mem_forget, reason = "a handle that is forgotten is one of the attacks")]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use ecru::Source;
use ecru::channel::{self, RecvError};

use super::is_cancelled;
use crate::common::{OnDrop, each_run, run_on};

/// Cancel requests from a hook, a timer, a callback, and a plain thread.
#[test]
fn requests_from_everywhere() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(4);
        // A hook that cancels another task.
        ecru::scope(|s| {
            let task = s.spawn_when(&rx, |_| unreachable!());
            ecru::cancel_scope(|c| ecru::on_cancel(|| task.cancel(), || c.cancel()));
            assert!(is_cancelled(&task.join()));
        });
        // A callback, and a plain thread.
        ecru::scope(|s| {
            let (go, gone) = channel::oneshot::<u8>();
            let handle = s.spawn_when(&rx, |_| unreachable!()).shared();
            let (first, second) = (handle.clone(), s.spawn_when(&rx, |_| -> u8 { unreachable!() }));
            s.spawn_when(gone, move |_| first.cancel());
            thread::scope(|threads| {
                threads.spawn(|| second.cancel());
                go.send(1).unwrap();
            });
            let _: Result<u8, _> = handle.join();
            assert!(is_cancelled(&second.join()));
        });
        // A limit that has passed before it begins.
        let _ = ecru::timeout(Duration::ZERO, || {
            ecru::scope(|s| s.spawn_when(&rx, |_| ()).join().unwrap_err());
        });
        // A shield blocks the request, and the task gets its item.
        let kept = ecru::cancel_scope(|c| {
            ecru::shield(|| {
                ecru::scope(|s| {
                    let task = s.spawn_when(&rx, |n| n.unwrap());
                    c.cancel();
                    tx.try_send(9).unwrap();
                    task.join().unwrap()
                })
            })
        });
        assert_eq!(kept, 9);
    });
}

/// Three threads cancel at once, by handle, by scope, and from an outer scope, while a fourth
/// sends. Source and function are dropped once each, and the item is either the task's or still in
/// the channel.
#[test]
fn requests_from_three_threads_against_an_item_slow() {
    for workers in [2, 8] {
        run_on(workers, || {
            for round in 0..200 {
                let (tx, rx) = channel::bounded::<u8>(1);
                let drops = AtomicUsize::new(0);
                let begun = AtomicBool::new(false);
                ecru::cancel_scope(|c| {
                    ecru::scope(|s| {
                        let counted = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                        let counted_too = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                        let source = (&rx).map(move |n| {
                            let _counted = &counted;
                            n
                        });
                        let begun = &begun;
                        let task = s.spawn_when(source, move |n| {
                            let _counted = counted_too;
                            assert_eq!(n, Ok(7));
                            begun.store(true, SeqCst);
                        });
                        thread::scope(|threads| {
                            threads.spawn(|| task.cancel());
                            threads.spawn(|| tx.try_send(7).unwrap());
                            if round % 2 == 0 {
                                threads.spawn(|| s.cancel());
                            }
                            c.cancel();
                        });
                        drop(task);
                    });
                });
                assert_eq!(drops.load(SeqCst), 2);
                assert_eq!(rx.try_recv().is_err(), begun.load(SeqCst));
            }
        });
    }
}

/// Handles that are forgotten, joined by two tasks, shared, and sent to a plain thread.
#[test]
fn handles_of_tasks_that_wait() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<u8>();
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let count = |n: Result<u8, RecvError>| {
                ran.fetch_add(1, SeqCst);
                n.unwrap()
            };
            std::mem::forget(s.spawn_when(&rx, count));
            drop(s.spawn_when(&rx, count));
            let twice = s.spawn_when(&rx, count);
            let shared = s.spawn_when(&rx, count).shared();
            let sent = s.spawn_when(&rx, count);
            ecru::scope(|inner| {
                let joins = [(); 2].map(|()| inner.spawn(|| twice.join().is_ok()));
                let copies = [(); 2].map(|()| inner.spawn(|| shared.join().unwrap()));
                let _ = ecru::yield_now();
                (1..=5).for_each(|n| tx.send(n).unwrap());
                // A plain thread joins too, while the worker continues.
                ecru::unblock(|| {
                    thread::scope(|threads| _ = threads.spawn(|| sent.join().unwrap()).join());
                });
                assert_eq!(joins.iter().filter(|join| join.join().unwrap()).count(), 1);
                assert_eq!(copies[0].join().unwrap(), copies[1].join().unwrap());
            });
        });
        assert_eq!(ran.load(SeqCst), 5);
    });
}

/// Many tasks wait on one channel, which is closed while they are cancelled.
#[test]
fn a_channel_is_closed_against_a_request() {
    run_on(2, || {
        for _ in 0..10 {
            let (tx, rx) = channel::bounded::<u8>(1);
            let (ended, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                for _ in 0..200 {
                    let counted = OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
                    let ended = &ended;
                    s.spawn_when(&rx, move |end| {
                        let _counted = counted;
                        assert_eq!(end, Err(RecvError::Disconnected));
                        ended.fetch_add(1, SeqCst);
                    });
                }
                thread::scope(|threads| {
                    threads.spawn(|| tx.close());
                    s.cancel();
                });
            });
            assert_eq!(dropped.load(SeqCst), 200);
            assert!(ended.load(SeqCst) <= 200);
        }
    });
}
