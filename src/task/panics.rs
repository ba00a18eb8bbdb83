//! What a panic says of its task.
//!
//! A panic hook, installed at the first run, prints a line that names the task, and calls the hook that was there before. It also notes
//! where the panic happened: the payload does not tell, and a task's scope wants to say so when it passes the panic on.
//!
//! ```text
//!   in the task, as it panics        where the task's unwinding ends      whoever takes the payload
//!   ---------------------------      -------------------------------      --------------------------------
//!   hook: note(task, text, place) -> located(payload): if the task's  ->  split(payload): the payload as it
//!                                    note has the payload's text,         was thrown, and the place
//!                                    Box<Located> in its stead
//! ```
//! A note may be left over: of a panic that the task caught itself. The texts are compared, so that the payload of another panic is not
//! given its place. A payload that was thrown by `resume_unwind` has called no hook, and has a place only if the panic that it stems from was
//! the task's last.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::thread;

use super::current::{TaskId, current_header};
use crate::base::report;

/// How a scope's panic begins when it passes on that of a task. The hook does not name the scope's own task then.
pub(crate) const PASSED_ON: &str = "a task of this scope panicked: ";

/// Notes that a thread keeps; the oldest goes first.
const NOTES_MAX: usize = 16;

/// A panic of a task on this thread.
struct Note {
    task: TaskId,
    text: Option<String>,
    place: String,
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// A payload, and where it was thrown.
struct Located {
    payload: Box<dyn Any + Send>,
    place: String,
}

/// Installs the hook, once for the process.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    if thread::panicking() {
        // Hooks cannot be changed meanwhile. The next run does it.
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

/// Names the task that panics, if it is one.
fn announce(info: &PanicHookInfo<'_>) {
    let Some(header) = current_header() else { return };
    let text = info.payload_as_str();
    if let Some(place) = info.location() {
        let (text, place) = (text.map(String::from), place.to_string());
        let note = Note { task: TaskId::of(header), text, place };
        // Not while the thread's locals are being destroyed, nor in a panic from in here.
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

/// The payload of the current task's panic, with the place that the hook has noted, if it has.
#[cold]
pub(crate) fn located(payload: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let Some(task) = current_header().map(TaskId::of) else { return payload };
    let note = NOTES.try_with(|notes| {
        let mut notes = notes.try_borrow_mut().ok()?;
        let place = notes.iter().position(|note| note.task == task)?;
        Some(notes.swap_remove(place))
    });
    match note {
        Ok(Some(Note { text, place, .. })) if text.as_deref() == text_of(&*payload) => {
            Box::new(Located { payload, place })
        }
        _ => payload,
    }
}

/// The payload as it was thrown, and where that was, if it is known.
#[cold]
pub(crate) fn split(payload: Box<dyn Any + Send>) -> (Box<dyn Any + Send>, Option<String>) {
    match payload.downcast::<Located>() {
        Ok(located) => (located.payload, Some(located.place)),
        Err(payload) => (payload, None),
    }
}

/// The text of a panic, if it has one.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
