//! Misused guards of entered spans: dropped in other tasks, held in generators that other tasks
//! resume, forgotten, and over a dropped subscriber.
#![expect(clippy::mem_forget, reason = "a guard that is forgotten is one of the attacks")]

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::cell::RefCell;
use std::io::{self, Write};
use std::mem;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use common::{run_on, settle};
use ecru::coroutine::{Generator, Yielder};
use tracing::{info, info_span};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// The output of a subscriber.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that are written while `body` runs on one worker.
fn traced(body: impl FnOnce()) -> Vec<String> {
    let written = Written::default();
    let out = written.clone();
    let format = fmt::format().without_time().with_level(false).with_target(false);
    let layer = fmt::layer().with_ansi(false).event_format(format).with_writer(move || out.clone());
    let subscriber = tracing_subscriber::registry().with(ecru_tracing::layer()).with(layer);
    tracing::subscriber::with_default(subscriber, || run_on(1, body));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_guard_is_dropped_by_another_task() {
    let lines = traced(|| {
        let kept = RefCell::new(None);
        ecru::scope(|s| {
            let first = s.spawn_local(|| {
                kept.replace(Some(info_span!("first").entered()));
                settle();
            });
            let second = s.spawn_local(|| {
                let _span = info_span!("second").entered();
                ecru::yield_now().unwrap();
                drop(kept.take().expect("the first task has begun"));
                info!("in the second");
            });
            first.join().unwrap();
            second.join().unwrap();
        });
        info!("outside");
    });
    assert!(lines.contains(&"second: in the second".to_owned()), "{lines:?}");
    assert!(lines.contains(&"outside".to_owned()), "{lines:?}");
}

#[test]
fn a_generator_that_has_entered_a_span_is_dropped_in_another_task() {
    let lines = traced(|| {
        let kept: Rc<RefCell<Option<Generator<u32>>>> = Rc::default();
        let theirs = Rc::clone(&kept);
        ecru::scope(|s| {
            let makes = s.spawn_local(move || {
                let mut items = Generator::new(|y: &Yielder<(), u32>| {
                    let _span = info_span!("generator").entered();
                    y.suspend(1);
                });
                assert_eq!(items.next(), Some(1));
                theirs.replace(Some(items));
                settle();
            });
            s.spawn_local(move || {
                ecru::yield_now().unwrap();
                drop(kept.take().expect("the generator has been made"));
                info!("in the dropper");
            });
            makes.join().unwrap();
        });
        info!("outside");
        mem::forget(info_span!("forgotten").entered());
    });
    assert!(lines.contains(&"in the dropper".to_owned()), "{lines:?}");
    assert!(lines.contains(&"outside".to_owned()), "{lines:?}");
}

#[test]
fn a_subscriber_goes_while_its_span_is_entered() {
    let lines = traced(|| {
        ecru::scope(|s| {
            s.spawn_local(|| {
                let inner = tracing_subscriber::registry().with(ecru_tracing::layer());
                let guard = tracing::subscriber::with_default(inner, || {
                    let guard = info_span!("inner").entered();
                    info!("unseen");
                    guard
                });
                ecru::yield_now().unwrap();
                drop(guard);
                settle();
                info!("at the end");
            });
            s.spawn_local(|| {
                let _span = info_span!("sibling").entered();
                settle();
                info!("in the sibling");
            });
        });
    });
    assert!(lines.contains(&"at the end".to_owned()), "{lines:?}");
    assert!(lines.contains(&"sibling: in the sibling".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("unseen")), "{lines:?}");
}
