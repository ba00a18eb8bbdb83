//! The search, for x86-64.

use std::arch::asm;
use std::env;
use std::hint;
use std::iter;
use std::ops::Range;
use std::sync::OnceLock;
// Not from `base::sync`: this is a static that never changes once it has been set.
use std::sync::atomic::{AtomicU8, Ordering};

use super::table::Table;
use super::{Bound, Kind};
use crate::base::report;
use crate::coroutine::remaining_stack;
use crate::coroutine::stack::{own_stack, registry};
use crate::coroutine::unwinder;

const OFF: u8 = 1;
const ON: u8 = 2;

/// 0 until it is decided whether initializers are searched for.
static STATE: AtomicU8 = AtomicU8::new(0);
static TABLE: OnceLock<Option<Table>> = OnceLock::new();

/// The distance of the link to the resumer's stack from the beginning of a stack: see the layout in
/// `corosensei`'s `arch/x86_64.rs`.
const LINK: usize = 16;
/// What a walk of the unwinder needs of the stack.
const ROOM: usize = 8 * 1024;

/// Returns whether initializers that wait are searched for.
#[inline]
pub(crate) fn are_checked() -> bool {
    match STATE.load(Ordering::Relaxed) {
        0 => decide(),
        state => state == ON,
    }
}

#[cold]
fn decide() -> bool {
    let wanted = match env::var_os("ECRU_CHECK") {
        // It reads words of stacks that nothing has written, which valgrind reports.
        None => cfg!(any(debug_assertions, test)) && !cfg!(feature = "valgrind"),
        Some(_) => report::is_set("ECRU_CHECK"),
    };
    let table = TABLE.get_or_init(|| {
        let read = wanted.then(Table::read)?;
        match read {
            Ok(table) => Some(table),
            Err(error) => {
                report::say(format!(
                    "ecru: cannot look for initializers of thread-locals that wait: {error} (the program: {}). Build it without `strip`, \
                     or with `strip = \"debuginfo\"`, or set ECRU_CHECK=0; see SOUNDNESS.md.",
                    env::args().next().unwrap_or_default()
                ));
                None
            }
        }
    });
    let on = table.as_ref().is_some_and(|table| table.length != 0);
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
    on
}

/// Returns the kind of the innermost initializer that is open around the caller.
#[inline(never)]
pub(crate) fn find(bound: Bound) -> Option<Kind> {
    let here = hint::black_box(0_u8);
    let at = (&raw const here).addr();
    let table = TABLE.get()?.as_ref()?;
    for (index, stack) in stacks(at, bound).enumerate() {
        let mut from = stack.start.next_multiple_of(size_of::<usize>());
        while let Some((next, word)) = next_word(from, stack.end, table) {
            from = next;
            // A return address is the address of the instruction after the call.
            if counts(table.kind_of(word.wrapping_sub(1)), bound, index).is_some() {
                return confirm(table, at, bound);
            }
        }
    }
    None
}

/// Returns the kind if an initializer of this kind must not be open on the stack with this number,
/// counted from the innermost one.
fn counts(kind: Option<Kind>, bound: Bound, stack: usize) -> Option<Kind> {
    kind.filter(|&kind| kind == Kind::ThreadLocal || bound != Bound::Thread || stack == 0)
}

/// Asks the unwinder for the innermost initializer. A word may be a leftover.
#[cold]
#[inline(never)]
fn confirm(table: &Table, at: usize, bound: Bound) -> Option<Kind> {
    if remaining_stack() < ROOM {
        return None;
    }
    let mut found = None;
    unwinder::walk(|frame| {
        if let Some(kind) = table.kind_of(frame.call()) {
            let address = frame.address();
            let stack = stacks(at, bound).position(|stack| stack.contains(&address));
            found = stack.and_then(|stack| counts(Some(kind), bound, stack));
        }
        found.is_none()
    });
    found
}

/// Returns the used parts of the running stack, of its resumer's, and so on up to the bound.
fn stacks(at: usize, bound: Bound) -> impl Iterator<Item = Range<usize>> {
    let mut next = Some(at);
    iter::from_fn(move || {
        let at = next.take()?;
        let (limit, end) = match registry::find(at) {
            Some(slot) => {
                // SAFETY: C11: code runs on this stack, so its link has been written.
                next = Some(unsafe { read_word(slot.top - LINK) });
                // A task's bound lies in the head, above the top.
                (slot.limit, slot.limit + slot.usable)
            }
            None => own_stack(),
        };
        if !(limit..end).contains(&at) {
            next = None;
            return None;
        }
        match bound {
            Bound::Task(bound) if (at..end).contains(&bound) => {
                next = None;
                Some(at..bound)
            }
            _ => Some(at..end),
        }
    })
}

/// Reads a word of a stack. Checkers do not see this read: the word may belong to no variable.
///
/// # Safety
/// C11: the address lies in a used part of a stack.
unsafe fn read_word(at: usize) -> usize {
    let word;
    // SAFETY: C11, the caller's promise.
    unsafe {
        asm!("mov {word}, [{at}]", at = in(reg) at, word = lateout(reg) word, options(nostack, readonly, preserves_flags));
    }
    word
}

/// Returns the next word of a used part of a stack that may lie in a function of the table, and the
/// address behind it.
fn next_word(from: usize, end: usize, table: &Table) -> Option<(usize, usize)> {
    let (mut at, end, mut distance) = (from, end & !(size_of::<usize>() - 1), usize::MAX);
    // It is assembly because a debug build would execute many more instructions for each word.
    // SAFETY: C11: both are addresses of a used part of a stack. The map has a bit for each
    // distance that is less than the length.
    unsafe {
        asm!(
            "2:",
            "cmp {at}, {end}",
            "jae 3f",
            "mov {distance}, [{at}]",
            "add {at}, 8",
            "sub {distance}, {first}",
            "cmp {distance}, {length}",
            "jae 2b",
            "mov {granule}, {distance}",
            "shr {granule}, 4",
            "bt [{map}], {granule}",
            "jnc 2b",
            "jmp 4f",
            "3:",
            "mov {distance}, -1",
            "4:",
            at = inout(reg) at,
            end = in(reg) end,
            first = in(reg) table.first,
            length = in(reg) table.length,
            map = in(reg) table.map.as_ptr(),
            granule = out(reg) _,
            distance = inout(reg) distance,
            options(nostack, readonly),
        );
    }
    (distance != usize::MAX).then(|| (at, distance + table.first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coroutine::{Coroutine, Yielder};
    use std::sync::LazyLock;

    /// The stacks of nested coroutines lead to the end of the thread's own stack. This fails if
    /// `corosensei` changes where it keeps the link.
    #[test]
    fn stacks_lead_to_the_thread() {
        let ends = || {
            let here = hint::black_box(0_u8);
            stacks((&raw const here).addr(), Bound::Thread)
                .map(|stack| stack.end)
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(), [own_stack().1]);
        let outer = Coroutine::new(move |yielder: &Yielder<(), Vec<usize>>, ()| {
            let inner = Coroutine::new(move |yielder: &Yielder<(), Vec<usize>>, ()| {
                yielder.suspend(ends())
            });
            let crate::coroutine::CoroutineState::Yielded(found) = inner.resume(()) else { return };
            yielder.suspend(found);
        });
        let crate::coroutine::CoroutineState::Yielded(found) = outer.resume(()) else { panic!() };
        assert_eq!((found.len(), found[2]), (3, own_stack().1));
    }

    /// An initializer is found while it is open, and not afterwards, although its frame's words may
    /// still lie on the stack.
    #[test]
    fn open_initializers_are_found() {
        thread_local! {
            static LOCAL: Option<Kind> = find(Bound::Thread);
        }
        static LAZY: LazyLock<Option<Kind>> = LazyLock::new(|| find(Bound::Thread));
        assert!(are_checked());
        assert_eq!(find(Bound::Thread), None);
        assert_eq!(LOCAL.with(|found| *found), Some(Kind::ThreadLocal));
        assert_eq!(find(Bound::Thread), None);
        assert_eq!(*LAZY, Some(Kind::Once));
        assert_eq!(find(Bound::Thread), None);
    }
}
