//! Reports of panics in tasks.
//!
//! A panic hook is installed at the first run. It prints a line that names the task, and calls the
//! previous hook. It also notes where the panic happened. The payload does not contain the place,
//! but a task's scope reports it when it passes the panic on.
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
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::thread;

use super::current::{TaskId, current_header};
use crate::base::report;

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

/// A payload, together with the place where it was thrown.
struct Located {
    payload: Box<dyn Any + Send>,
    place: String,
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
            announce(info);
            previous(info);
        }));
    });
}

/// Names the panicking task, if the code runs in one.
fn announce(info: &PanicHookInfo<'_>) {
    let Some(header) = current_header() else { return };
    let text = info.payload_as_str();
    if let Some(place) = info.location() {
        let (text, place) = (text.map(String::from), place.to_string());
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
    if !text.is_some_and(|text| text.starts_with(PASSED_ON)) {
        report::say(format!("ecru: {} panics:", header.description()));
    }
}

/// Returns the payload of the current task's panic, together with the place that the hook has
/// noted, if any.
#[cold]
pub(crate) fn located(payload: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let Some(task) = current_header().map(TaskId::of) else { return payload };
    let note = NOTES.try_with(|notes| {
        let mut notes = notes.try_borrow_mut().ok()?;
        let place = notes.iter().position(|note| note.task == task)?;
        Some(notes.swap_remove(place))
    });
    match note {
        Ok(Some(PanicNote { text, place, .. })) if text.as_deref() == text_of(&*payload) => {
            Box::new(Located { payload, place })
        }
        _ => payload,
    }
}

/// Returns the payload as it was thrown, and the place where it was thrown, if known.
#[cold]
pub(crate) fn split(payload: Box<dyn Any + Send>) -> (Box<dyn Any + Send>, Option<String>) {
    match payload.downcast::<Located>() {
        Ok(located) => (located.payload, Some(located.place)),
        Err(payload) => (payload, None),
    }
}

/// Returns the text of a panic, if it has one.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
