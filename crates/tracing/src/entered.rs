//! The entered spans of a thread and of a suspended task.
//!
//! The running code's spans are in the thread-local `RUNNING`. Those of a suspended task are in its
//! slot of the hook. The registry's own stack of spans is a thread-local, too. Spans are pushed
//! there when their task is entered and popped when it is left, by the subscriber's own `enter` and
//! `exit`, so every layer sees both.
//!
//! No foreign code runs while `RUNNING` is borrowed.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError};

use tracing_core::Subscriber as _;
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};
use tracing_core::span::Id;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

use crate::layer::TaskSpans;

/// An entered span, and the number of the layer that saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entered {
    layer: u64,
    id: Id,
}

/// The entered spans of a task or of a plain thread, outermost first.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    entered: Vec<Entered>,
    /// The span in which the task began, if there was one. It stays open until the task has ended.
    inherited: Option<Held>,
}

thread_local! {
    static RUNNING: RefCell<Spans> = const { RefCell::new(Spans { entered: vec![], inherited: None }) };
    /// Whether a switch is entering or leaving spans that are already listed.
    static SWITCHING: Cell<bool> = const { Cell::new(false) };
}

/// The subscribers with a layer of this crate, by the layer's number.
static SUBSCRIBERS: Mutex<Vec<(u64, WeakDispatch)>> = Mutex::new(vec![]);

/// Registers the subscriber that a layer is a part of.
pub(crate) fn register(layer: u64, subscriber: &Dispatch) {
    let mut subscribers = SUBSCRIBERS.lock().unwrap_or_else(PoisonError::into_inner);
    subscribers.retain(|(_, subscriber)| subscriber.upgrade().is_some());
    subscribers.push((layer, subscriber.downgrade()));
}

fn registered(layer: u64) -> Option<Dispatch> {
    let subscribers = SUBSCRIBERS.lock().unwrap_or_else(PoisonError::into_inner);
    subscribers.iter().find(|(number, _)| *number == layer)?.1.upgrade()
}

/// Returns whether the layer is a part of this subscriber.
fn has(subscriber: &Dispatch, layer: u64) -> bool {
    subscriber.downcast_ref::<TaskSpans>().is_some_and(|found| found.number() == layer)
}

/// Calls `f` with the layer's subscriber as the thread's default, because a registry closes a
/// span's parent through the default. Does nothing if the subscriber has been dropped.
fn with_subscriber<R>(layer: u64, f: impl FnOnce(&Dispatch) -> R) -> Option<R> {
    // This is not done within `get_default`, because the default is another one there.
    let default = dispatcher::get_default(Dispatch::clone);
    if has(&default, layer) {
        return Some(f(&default));
    }
    let other = registered(layer)?;
    Some(dispatcher::with_default(&other, || f(&other)))
}

/// Returns whether the span is still open. A forgotten guard leaves a span entered that may close.
fn is_open(subscriber: &Dispatch, id: &Id) -> bool {
    subscriber.downcast_ref::<Registry>().is_none_or(|registry| registry.span_data(id).is_some())
}

/// A reference to a span, which keeps it open.
#[derive(Debug)]
struct Held(Entered);

impl Held {
    fn new(span: Entered) -> Option<Held> {
        let open = with_subscriber(span.layer, |subscriber| {
            let open = is_open(subscriber, &span.id);
            if open {
                subscriber.clone_span(&span.id);
            }
            open
        });
        (open == Some(true)).then_some(Held(span))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Entered { layer, id } = &self.0;
        with_subscriber(*layer, |subscriber| subscriber.try_close(id.clone()));
    }
}

/// Called when a layer sees that a span is entered.
pub(crate) fn note_enter(layer: u64, id: &Id) {
    let note = |spans: &RefCell<Spans>| {
        spans.borrow_mut().entered.push(Entered { layer, id: id.clone() });
    };
    if !SWITCHING.get() {
        // Destructors of thread-locals may enter spans after the list has been destroyed. They do
        // not wait, so nothing is lost.
        let _ = RUNNING.try_with(note);
    }
}

/// Called when a layer sees that a span is exited, which may not be the span entered last.
pub(crate) fn note_exit(layer: u64, id: &Id) {
    let note = |spans: &RefCell<Spans>| {
        let mut spans = spans.borrow_mut();
        let last = spans.entered.iter().rposition(|span| span.layer == layer && span.id == *id);
        if let Some(last) = last {
            spans.entered.remove(last);
        }
    };
    if !SWITCHING.get() {
        let _ = RUNNING.try_with(note);
    }
}

/// Returns the spans with which a child of the running code begins: the current span, if there is
/// one.
pub(crate) fn for_child() -> Option<Box<Spans>> {
    let current = |spans: &RefCell<Spans>| {
        let entered = &spans.borrow().entered;
        // This follows the registry: a span that is entered again keeps its first position.
        let first = |at: usize| !entered[..at].contains(&entered[at]);
        (0..entered.len()).rev().find(|&at| first(at)).map(|at| entered[at].clone())
    };
    let current = RUNNING.try_with(current).ok()??;
    let held = Held::new(current)?;
    Some(Box::new(Spans { entered: vec![held.0.clone()], inherited: Some(held) }))
}

/// Runs `body` with `SWITCHING` set.
fn switching(body: impl FnOnce()) {
    struct Done(bool);
    impl Drop for Done {
        fn drop(&mut self) {
            SWITCHING.set(self.0);
        }
    }
    let _done = Done(SWITCHING.replace(true));
    body();
}

/// Called when a task is entered. Its spans become those of the thread.
pub(crate) fn enter(kept: Spans) {
    // Between two tasks there are no spans, unless a callback on the scheduler has forgotten a
    // guard.
    if !RUNNING.with_borrow(Spans::is_empty) {
        drop(leave());
    }
    RUNNING.set(kept);
    let mut at = 0;
    switching(|| {
        while let Some(span) = RUNNING.with_borrow(|spans| spans.entered.get(at).cloned()) {
            let entered = with_subscriber(span.layer, |subscriber| {
                let open = is_open(subscriber, &span.id);
                if open {
                    subscriber.enter(&span.id);
                }
                open
            });
            if entered == Some(true) {
                at += 1;
            } else {
                _ = RUNNING.with_borrow_mut(|spans| spans.entered.remove(at));
            }
        }
    });
}

/// Called when a task is left. Returns its spans, which are no longer those of the thread.
pub(crate) fn leave() -> Spans {
    let spans = RUNNING.take();
    switching(|| {
        for span in spans.entered.iter().rev() {
            with_subscriber(span.layer, |subscriber| {
                if is_open(subscriber, &span.id) {
                    subscriber.exit(&span.id);
                } else if let Some(registry) = subscriber.downcast_ref::<Registry>() {
                    // Other layers would not find the span.
                    registry.exit(&span.id);
                }
            });
        }
    });
    spans
}

impl Spans {
    /// Returns whether there are no spans.
    pub(crate) fn is_empty(&self) -> bool {
        self.entered.is_empty() && self.inherited.is_none()
    }
}
