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
use super::header::Header;
use super::result::drop_quietly;
use crate::base::simulated::{Moment, Untaken};
use crate::base::{report, simulated};
use crate::coroutine::hook;

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
    moment: Moment,
}

thread_local! {
    static NOTES: RefCell<Vec<PanicNote>> = const { RefCell::new(Vec::new()) };
}

/// Where a payload was thrown, and by which task.
pub(crate) struct Thrown {
    /// `None` if the hook has not noted it.
    pub(crate) place: Option<String>,
    task: String,
    /// Held until the payload is taken.
    _untaken: Untaken,
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&origin(self.place.as_deref(), &self.task))
    }
}

/// Says where a panic was thrown, and by which task.
fn origin(place: Option<&str>, task: &str) -> String {
    place.map_or_else(|| format!("in {task}"), |place| format!("at {place}, in {task}"))
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
            if hook::is_lesson() {
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
            simulated::note_reported(text_of(info.payload()));
        }));
        hook::learn();
    });
}

/// Notes where the code panics, if it runs in a task.
fn note(info: &PanicHookInfo<'_>) {
    let Some(header) = current_header() else { return };
    if let Some(place) = info.location() {
        let (text, place) = (text_of(info.payload()).map(String::from), place.to_string());
        let moment = Moment::now();
        let note = PanicNote { task: TaskId::of(header), text, place, moment };
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
    if !text_of(info.payload()).is_some_and(|text| text.starts_with(PASSED_ON)) {
        report::say(format!("ecru: {} panics:", header.description()));
    }
}

/// Returns the payload of the current task's panic, together with the place that the hook has
/// noted, if any.
#[cold]
pub(crate) fn located(payload: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let Some(header) = current_header() else { return payload };
    let untaken = hold(&*payload);
    let task = TaskId::of(header);
    let note = NOTES.try_with(|notes| {
        let mut notes = notes.try_borrow_mut().ok()?;
        let place = notes.iter().position(|note| note.task == task)?;
        Some(notes.swap_remove(place))
    });
    let place = match note {
        Ok(Some(PanicNote { text, place, .. })) if text.as_deref() == text_of(&*payload) => {
            Some(place)
        }
        _ if untaken.is_held() => None,
        _ => return payload,
    };
    let thrown = Thrown { place, task: header.description(), _untaken: untaken };
    Box::new(Located { payload, thrown })
}

/// Returns when and where the panic of the running task was thrown, as far as the hook has noted
/// it.
fn moment_and_place(header: &Header, text: Option<&str>) -> (Moment, Option<String>) {
    let task = TaskId::of(header);
    let noted = NOTES.try_with(|notes| {
        let notes = notes.try_borrow().ok()?;
        let is_it = |note: &&PanicNote| note.task == task && note.text.as_deref() == text;
        notes.iter().find(is_it).map(|note| (note.moment, note.place.clone()))
    });
    match noted {
        Ok(Some((moment, place))) => (moment, Some(place)),
        _ => (Moment::now(), None),
    }
}

/// Notes in a simulation that a scope or a task holds the payload of the running task's panic, and
/// that the program has not taken it yet. See [`simulated::hold`].
#[cold]
pub(crate) fn hold(payload: &(dyn Any + Send)) -> Untaken {
    let header = current_header().filter(|_| simulated::is_simulated());
    let Some(header) = header else { return Untaken::default() };
    let text = text_of(payload);
    let (moment, place) = moment_and_place(header, text);
    simulated::hold(moment, header.id(), text, || origin(place.as_deref(), &header.description()))
}

/// Drops the payload of the running task's panic, which no code of the program handles. In a
/// simulation that fails the run.
#[cold]
pub(crate) fn lose(payload: Box<dyn Any + Send>) {
    if let Some(header) = current_header().filter(|_| simulated::is_simulated()) {
        let text = text_of(&*payload);
        let (moment, place) = moment_and_place(header, text);
        simulated::lose(moment, text, || origin(place.as_deref(), &header.description()));
    }
    drop_quietly(payload);
}

/// Returns the payload as it was thrown, and where that was, if known.
#[cold]
pub(crate) fn split(payload: Box<dyn Any + Send>) -> (Box<dyn Any + Send>, Option<Thrown>) {
    match payload.downcast::<Located>() {
        Ok(located) => (located.payload, Some(located.thrown)),
        Err(payload) => (payload, None),
    }
}

/// Returns whether a payload is that of a scope that has passed on another panic. Its text says
/// where that one was thrown.
#[cfg(feature = "sim")]
pub(crate) fn is_passed_on(payload: &(dyn Any + Send)) -> bool {
    text_of(payload).is_some_and(|text| text.starts_with(PASSED_ON))
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
