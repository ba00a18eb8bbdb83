//! `Daemons` in wrong places: other threads, scopes that end, and destructors.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use ecru::Daemons;

use crate::common::{OnDrop, each_run, forever, panic_text};

fn start<'scope>(s: &'scope impl Daemons<'scope>, body: impl FnOnce() + Send + 'scope) {
    s.spawn_boxed_daemon("daemon", Box::new(body));
}

/// A thread that runs no tasks is refused, and what the body owns is dropped.
#[test]
fn a_daemon_from_another_thread() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            let note = OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
            let text = thread::scope(|threads| {
                let body = move || drop(note);
                threads.spawn(|| panic_text(|| start(s, body))).join().unwrap()
            });
            assert!(text.contains("thread"), "{text}");
        });
        assert_eq!(dropped.into_inner(), 1);
    });
}

/// Scopes that have been cancelled or have failed, and scopes that are about to end: each body has
/// run or been dropped when the scope returns.
#[test]
fn a_daemon_of_a_scope_that_ends() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        let note = || OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
        ecru::scope(|s| {
            s.cancel();
            let note = note();
            start(s, move || {
                let _note = note;
                forever();
            });
        });
        assert_eq!(dropped.load(SeqCst), 1);
        let failed: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn(|| Err::<(), _>("failed"));
            ecru::yield_now().map_err(|_| "cancelled")?;
            let note = note();
            start(s, move || drop(note));
            Ok(())
        });
        assert_eq!((failed, dropped.load(SeqCst)), (Err("failed"), 2));
        // Each daemon starts another one when it ends, and a value of the scope does so, too.
        ecru::scope(|s| {
            let last = OnDrop(|| {
                let note = note();
                start(s, move || {
                    let _note = note;
                    forever();
                });
            });
            let note = note();
            start(s, move || {
                let _note = note;
                forever();
                drop(last);
            });
        });
        assert_eq!(dropped.load(SeqCst), 4);
    });
}

/// A name of any size and content, and a thousand daemons.
#[test]
fn many_daemons_with_strange_names() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            for number in 0..1000 {
                let name = ["", "\u{1b}[2J", "\0", &"x".repeat(10_000)][number % 4].to_owned();
                s.spawn_boxed_daemon(
                    &name,
                    Box::new(|| {
                        forever();
                        ended.fetch_add(1, SeqCst);
                    }),
                );
            }
            crate::common::settle();
            drop(ecru::RuntimeHandle::current().dump().to_string());
        });
        // Some may have been cancelled before they began.
        assert!(ended.into_inner() <= 1000);
    });
}
