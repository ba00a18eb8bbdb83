//! The layer that observes which spans are entered.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ecru::task::{SwitchHookTaken, set_switch_hook};
use tracing_core::span::Id;
use tracing_core::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::entered;
use crate::hook::Hook;

/// A layer that keeps each task's entered spans with the task, made by [`layer`].
pub struct TaskSpans {
    number: u64,
    /// Whether another such layer in the same subscriber does all the work.
    idle: AtomicBool,
}

impl TaskSpans {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for TaskSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSpans").finish_non_exhaustive()
    }
}

/// Creates the layer for a subscriber, and installs the hook at ecru's switches if [`install`] has
/// not been called before.
///
/// Each subscriber of a process needs its own layer. Do not put a filter on this layer: spans that
/// a filter hides from it are visible to other tasks.
///
/// # Panics
/// Panics if another [`SwitchHook`](ecru::task::SwitchHook) has been installed in this process.
///
/// # Examples
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry()
///     .with(ecru_tracing::layer())
///     .with(tracing_subscriber::fmt::layer())
///     .init();
/// ```
#[must_use]
pub fn layer() -> TaskSpans {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if let Err(error) = install() {
        panic!("`ecru_tracing::layer` could not install its hook: {error}");
    }
    TaskSpans { number: NEXT.fetch_add(1, Ordering::Relaxed), idle: AtomicBool::new(false) }
}

/// Installs the hook at ecru's switches. [`layer`] does this as well, and panics where this returns
/// an error.
///
/// Further calls do nothing. The hook stays for the rest of the process.
///
/// # Errors
/// Returns [`SwitchHookTaken`] if another hook has been installed in this process.
///
/// # Examples
/// ```
/// ecru_tracing::install()?;
/// # Ok::<(), ecru::task::SwitchHookTaken>(())
/// ```
pub fn install() -> Result<(), SwitchHookTaken> {
    static OURS: OnceLock<bool> = OnceLock::new();
    if *OURS.get_or_init(|| set_switch_hook(&Hook).is_ok()) {
        return Ok(());
    }
    // This call fails again, and returns the reason.
    set_switch_hook(&Hook)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TaskSpans {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        match subscriber.downcast_ref::<TaskSpans>() {
            Some(first) if first.number != self.number => self.idle.store(true, Ordering::Relaxed),
            _ => entered::register(self.number, subscriber),
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if !self.is_idle() {
            entered::note_enter(self.number, id);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if !self.is_idle() {
            entered::note_exit(self.number, id);
        }
    }
}
