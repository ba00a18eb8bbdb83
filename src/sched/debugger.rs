//! The table by which a debugger finds the tasks of a program: `crates/cli/src/debugger/`.
//!
//! A release build has no description of types that a debugger could read. So the program carries
//! the offsets of the fields that lead from one static to the saved stack pointer of each task, by
//! name, in a section of its own. A debugger needs neither symbols nor debug information to find
//! that section. If several versions of ecru are in a program, the tables lie in it one after the
//! other.
//!
//! `doc/debugging.md` describes the table. It has a version, which changes when the meaning of a
//! name changes. A new name does not change it.
//!
//! The table costs nothing while the program runs. A worker stores two addresses when its thread
//! begins. What the compiler does not tell, such as the layout of a string, is found out once, when
//! the first worker begins.
#![expect(unsafe_code, reason = "places the table, and reads layouts that are not specified")]

use std::mem::offset_of;
use std::panic::Location;
use std::ptr;
use std::sync::Once;

use super::deque::Deque;
use super::ready::ReadyQueue;
use super::shared::{NEWEST, WorkerShared};
use super::worker::Worker;
use crate::base::list::{Link, Pile};
use crate::base::local::Local;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{StaticPtr, StaticU64};
use crate::coroutine::switch::Fiber;
use crate::park::{Parker, Waiter, What};
use crate::task::{Board, Extra, Header, PendingEntry, Running, StartedEntry, TaskFiber};

/// The value of a field that is not known.
const UNKNOWN: u64 = u64::MAX;
/// The longest name.
const NAME_MAX: usize = 24;
/// The number of fields.
const FIELDS: usize = 43;

/// A name, padded with zeros, and an offset in bytes or another number.
#[derive(Debug)]
#[repr(C)]
struct Field {
    name: [u8; NAME_MAX],
    value: StaticU64,
}

#[derive(Debug)]
#[repr(C)]
struct Table {
    magic: [u8; 8],
    version: u32,
    fields_len: u32,
    /// Points to the pointer to the newest [`WorkerShared`].
    newest: &'static StaticPtr<WorkerShared>,
    fields: [Field; FIELDS],
}

const fn field(name: &str, value: usize) -> Field {
    let mut padded = [0; NAME_MAX];
    let mut at = 0;
    while at < name.len() {
        padded[at] = name.as_bytes()[at];
        at += 1;
    }
    Field { name: padded, value: StaticU64::new(value as u64) }
}

/// A field that [`prepare`] fills in.
const fn unknown(name: &str) -> Field {
    Field { value: StaticU64::new(UNKNOWN), ..field(name, 0) }
}

const fn optional(name: &str, value: Option<usize>) -> Field {
    match value {
        Some(value) => field(name, value),
        None => unknown(name),
    }
}

// The attribute is unsafe because a section may have a meaning to other code. This name has none.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".ecru_debugger"))]
#[used]
static TABLE: Table = Table {
    magic: *b"ecru-gdb",
    version: 1,
    fields_len: FIELDS as u32,
    newest: &NEWEST,
    fields: [
        field("shared.next", WorkerShared::NEXT),
        field("shared.worker", offset_of!(WorkerShared, worker)),
        field("shared.local", offset_of!(WorkerShared, local)),
        field("shared.thread", offset_of!(WorkerShared, board) + Board::THREAD),
        field("shared.inbound", WorkerShared::INBOUND),
        field("shared.unstarted", offset_of!(WorkerShared, unstarted)),
        field("deque.top", Deque::<Header>::TOP),
        field("deque.bottom", Deque::<Header>::BOTTOM),
        field("deque.buffer", Deque::<Header>::BUFFER),
        field("buffer.slots", Deque::<Header>::SLOTS),
        field("local.task", offset_of!(Local, task)),
        field("worker.index", offset_of!(Worker, index)),
        field("worker.root", offset_of!(Worker, root)),
        field("worker.scheduler", offset_of!(Worker, scheduler)),
        field("worker.started", offset_of!(Worker, started) + Pile::FIRST),
        field("worker.pending", offset_of!(Worker, pending) + Pile::FIRST),
        field("worker.ready", offset_of!(Worker, ready) + ReadyQueue::FIRST),
        field("worker.preempted", offset_of!(Worker, preempted) + ReadyQueue::FIRST),
        field("link.next", Link::NEXT),
        field("started.task", offset_of!(StartedEntry, task)),
        field("pending.task", offset_of!(PendingEntry, task)),
        field("task.running", offset_of!(Header, running)),
        field("task.next", offset_of!(Header, next)),
        field("task.started", offset_of!(Header, started)),
        field("task.has_fiber", offset_of!(Header, has_fiber)),
        field("task.id", Header::ID),
        field("task.note", Header::NOTE),
        field("task.extra", offset_of!(Header, extra)),
        field("extra.name", offset_of!(Extra, name)),
        field("note.root", Board::ROOT),
        field("note.label", Board::LABEL),
        field("label.place", Board::LABEL_PLACE),
        field("running.parked_on", offset_of!(Running, parker) + Parker::PARKED_ON),
        field("running.fiber", Running::FIBER),
        field("wait.what", Waiter::WHAT),
        field("wait.object", Waiter::OBJECT),
        field("wait.at", Waiter::AT),
        field("wait.claim", Waiter::CLAIM),
        field("what.text", What::TEXT),
        optional("scheduler.top", Fiber::<(), (), ()>::TOP),
        unknown("fiber.stack_pointer"),
        unknown("fiber.first"),
        unknown("layouts"),
    ],
};

/// Completes the table. Does so once in a process.
pub(super) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        if let Some((now, first)) = TaskFiber::stack_pointers() {
            set("fiber.stack_pointer", now as u64);
            set("fiber.first", first as u64);
        }
        set("layouts", layouts().unwrap_or(UNKNOWN));
    });
}

fn set(name: &str, value: u64) {
    let field = TABLE.fields.iter().find(|field| {
        let name_len = field.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_MAX);
        field.name[..name_len] == *name.as_bytes()
    });
    field.expect("the field is in the table").value.store(value, Ordering::Relaxed);
}

/// Returns the offsets of the address, the length and the capacity of a `String`, and of the file's
/// address and length, the line and the column in a `Location`: one byte for each, the first one
/// lowest. Both types have no specified layout. Returns `None` if they are not as expected.
#[cold]
fn layouts() -> Option<u64> {
    const WORD: usize = size_of::<u64>();
    let mut text = String::with_capacity(40);
    text.push_str("text");
    let place = Location::caller();
    if size_of::<String>() != 3 * WORD || size_of::<Location<'_>>() != 3 * WORD {
        return None;
    }
    // SAFETY: a string is an address, a length and a capacity. With this size there is no padding.
    let in_text = unsafe { ptr::from_ref(&text).cast::<[u64; 3]>().read() };
    // SAFETY: a place is the address and the length of a name, a line and a column. With this size
    // there is no padding.
    let in_place = unsafe { ptr::from_ref(place).cast::<[u64; 3]>().read() };
    let find = |words: &[u64], wanted: usize| words.iter().position(|&word| word == wanted as u64);
    let file = place.file();
    let file_len = find(&in_place, file.len()).or_else(|| find(&in_place, file.len() + 1))?;
    let file_at = find(&in_place, file.as_ptr().addr())?;
    let numbers = (0..3).find(|&word| word != file_len && word != file_at)?;
    let is_line_first = in_place[numbers].to_ne_bytes()[..4] == place.line().to_ne_bytes();
    let (line, column) = if is_line_first { (0, 4) } else { (4, 0) };
    let offsets = [
        find(&in_text, text.as_ptr().addr())? * WORD,
        find(&in_text, text.len())? * WORD,
        find(&in_text, text.capacity())? * WORD,
        file_at * WORD,
        file_len * WORD,
        numbers * WORD + line,
        numbers * WORD + column,
        0,
    ];
    Some(u64::from_le_bytes(offsets.map(|offset| offset as u8)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{TABLE, UNKNOWN, prepare};
    use crate::base::sync::atomic::Ordering;

    /// On the backend that switches stacks, nothing remains unknown.
    #[test]
    fn the_table_is_complete() {
        prepare();
        for field in &TABLE.fields {
            let name = str::from_utf8(&field.name).unwrap().trim_end_matches('\0');
            let is_unknown = field.value.load(Ordering::Relaxed) == UNKNOWN;
            let has_no_stack = cfg!(any(ecru_baton, miri));
            assert_eq!(
                is_unknown,
                has_no_stack && (name.starts_with("fiber.") || name == "scheduler.top"),
                "{name}"
            );
        }
    }
}
