//! The text of an overflow report, composed without allocating.

use crate::base::simulated;
use std::ptr;
// Not from `base::sync`: this is read in a signal handler, and takes part in no protocol.
use std::sync::atomic::{AtomicPtr, Ordering};

/// The maximal length of the text. Longer texts are cut off.
const ROOM: usize = 1024;

/// A function that names the task that overflowed. It runs in a signal handler: it must not lock,
/// allocate or panic.
pub(crate) type Describe = fn(&mut Report);

/// A text of bounded length, which a signal handler fills.
#[derive(Debug)]
pub(crate) struct Report {
    text: [u8; ROOM],
    len: usize,
    stack: (usize, usize),
}

static DESCRIBE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets the function by which the task layer names the task that overflowed. It adds a text like
/// `task 'name' #3, spawned at file:1:2`, or nothing if the stack is not a task's.
pub(crate) fn set_describe(describe: Describe) {
    DESCRIBE.store(describe as *mut (), Ordering::Release);
}

impl Report {
    /// Creates an empty report about a stack.
    #[cfg(any(test, not(any(ecru_baton, miri, loom))))]
    pub(super) fn new(limit: usize, size: usize) -> Report {
        Report { text: [0; ROOM], len: 0, stack: (limit, size) }
    }

    /// Adds text.
    pub(crate) fn push(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            if let Some(place) = self.text.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    /// Adds a number in decimal.
    pub(crate) fn push_number(&mut self, number: u64) {
        let mut digits = [0_u8; 20];
        let (mut rest, mut first) = (number, digits.len());
        loop {
            first -= 1;
            // A remainder of a division by ten is one digit.
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(str::from_utf8(&digits[first..]).unwrap_or("?"));
    }

    /// Returns whether an address lies on the stack that overflowed. With this, the task layer
    /// distinguishes a task's own stack from that of a coroutine that the task has resumed.
    pub(crate) fn is_about(&self, address: usize) -> bool {
        let (limit, size) = self.stack;
        address.wrapping_sub(limit) < size
    }

    /// Composes the whole message.
    #[cfg(any(test, not(any(ecru_baton, miri, loom))))]
    pub(super) fn compose(&mut self) -> &[u8] {
        self.push("\nstack overflow in ");
        let before = self.len;
        let describe = DESCRIBE.load(Ordering::Acquire);
        if !describe.is_null() {
            // SAFETY: C8: only `set_describe` stores here, and it stores a `Describe`.
            let describe = unsafe { std::mem::transmute::<*mut (), Describe>(describe) };
            describe(self);
        }
        if self.len == before {
            self.push("a coroutine");
        }
        self.push(": its stack of ");
        self.push_number(self.stack.1 as u64);
        self.push(" bytes was too small\nnote: give it more by ");
        self.push(if simulated::is_simulated() {
            "`Simulation::stack_size(..)`"
        } else {
            "`Runtime::builder().stack_size(..)`"
        });
        self.push(
            " for all tasks, `s.builder().stack_size(..)` for one task, `Coroutine::with_stack(..)` for a coroutine\n",
        );
        &self.text[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and texts are added unchanged, and a text that is too long is cut off.
    #[test]
    fn a_report_is_bounded() {
        let mut report = Report::new(0x1000, 0x2000);
        report.push_number(0);
        report.push_number(u64::MAX);
        assert_eq!(&report.text[..report.len], b"018446744073709551615");
        assert!(report.is_about(0x1000) && report.is_about(0x2fff) && !report.is_about(0x3000));
        report.push(&"x".repeat(2 * ROOM));
        assert_eq!(report.compose().len(), ROOM);
    }
}
