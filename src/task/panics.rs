//! Reports of panics in tasks.
//!
//! A panic hook is installed at the first run. It prints a line that names the task, and calls the
//! previous hook, except in a simulation that is silent. It also notes where the panic happened.
//! The payload does not contain the place, but a task's scope reports it when it passes the panic
//! on.
//!
//! ```text
//!   in the task, as it panics        where the unwinding ends            where the payload is read
//!   -------------------------        ------------------------            -------------------------
//!   hook: note(task, text, place) -> located(payload): if the task's  -> split(payload): the
//!                                    note has the payload's text,        payload as it was thrown
//!                                    Box<Located> in its place           and the place
//! ```
//! A note may be left over from a panic that the task caught itself. The texts are compared, so
//! that the payload of another panic does not get its place. A payload thrown by `resume_unwind`
//! has not called the hook. It has a place only if its original panic was the task's last.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::thread;

use super::current::{TaskId, current_header};
use crate::base::{report, simulated};
use crate::coroutine::panics;

/// The beginning of a scope's message when it passes on a task's panic. The hook then does not name
/// the scope's own task.
pub(crate) const PASSED_ON: &str = "a task of this scope panicked: ";

/// The number of notes that a thread keeps. The oldest is discarded first.
const NOTES_MAX: usize = 16;

/// A panic of a task on this thread.
struct PanicNote {
    task: TaskId,
    text: Option<String>,
    place: String,
}

thread_local! {
    static NOTES: RefCell<Vec<PanicNote>> = const { RefCell::new(Vec::new()) };
}

/// Where a payload was thrown, and by which task.
pub(crate) struct Thrown {
    pub(crate) place: String,
    task: String,
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}, in {}", self.place, self.task)
    }
}

/// A payload, together with what is known of its panic.
struct Located {
    payload: Box<dyn Any + Send>,
    thrown: Thrown,
}

/// Installs the hook, once for the process.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    if thread::panicking() {
        // The hook cannot be changed during a panic. The next run installs it.
        return;
    }
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if panics::is_lesson() {
                return;
            }
            note(info);
            if simulated::is_silent() {
                // The run has failed already, and this is only how its tasks end, or it is
                // repeated.
                return;
            }
            announce(info);
            previous(info);
        }));
        panics::learn();
    });
}

/// Notes where the code panics, if it runs in a task.
fn note(info: &PanicHookInfo<'_>) {
    let Some(header) = current_header() else { return };
    if let Some(place) = info.location() {
        let (text, place) = (info.payload_as_str().map(String::from), place.to_string());
        let note = PanicNote { task: TaskId::of(header), text, place };
        // Nothing is noted while the thread's locals are being destroyed, nor in a panic inside
        // this function.
        let _ = NOTES.try_with(|notes| {
            let Ok(mut notes) = notes.try_borrow_mut() else { return };
            notes.retain(|other| other.task != note.task);
            if notes.len() == NOTES_MAX {
                notes.remove(0);
            }
            notes.push(note);
        });
    }
}

/// Names the panicking task, if the code runs in one.
fn announce(info: &PanicHookInfo<'_>) {
    let Some(header) = current_header() else { return };
    if !info.payload_as_str().is_some_and(|text| text.starts_with(PASSED_ON)) {
        report::say(format!("ecru: {} panics:", header.description()));
    }
}

/// Returns the payload of the current task's panic, together with the place that the hook has
/// noted, if any.
#[cold]
pub(crate) fn located(payload: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let Some(header) = current_header() else { return payload };
    let task = TaskId::of(header);
    let note = NOTES.try_with(|notes| {
        let mut notes = notes.try_borrow_mut().ok()?;
        let place = notes.iter().position(|note| note.task == task)?;
        Some(notes.swap_remove(place))
    });
    match note {
        Ok(Some(PanicNote { text, place, .. })) if text.as_deref() == text_of(&*payload) => {
            Box::new(Located { payload, thrown: Thrown { place, task: header.description() } })
        }
        _ => payload,
    }
}

/// Returns the payload as it was thrown, and where that was, if known.
#[cold]
pub(crate) fn split(payload: Box<dyn Any + Send>) -> (Box<dyn Any + Send>, Option<Thrown>) {
    match payload.downcast::<Located>() {
        Ok(located) => (located.payload, Some(located.thrown)),
        Err(payload) => (payload, None),
    }
}

/// Undoes [`split`].
#[cold]
pub(crate) fn unsplit(payload: Box<dyn Any + Send>, thrown: Thrown) -> Box<dyn Any + Send> {
    Box::new(Located { payload, thrown })
}

/// Returns the text of a panic, if it has one.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
