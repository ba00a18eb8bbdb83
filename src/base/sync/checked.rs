//! A number for models, whose accesses loom checks.
#![expect(unsafe_code, reason = "accesses a cell of loom's")]

use loom::cell::UnsafeCell;

/// Shared memory of a model. If two accesses are not ordered and one of them writes, loom reports
/// that and ends the model before the second one.
pub(crate) struct Checked(UnsafeCell<u32>);

// SAFETY: loom ends the model before two threads access the cell at the same time.
unsafe impl Send for Checked {}
// SAFETY: loom ends the model before two threads access the cell at the same time.
unsafe impl Sync for Checked {}

impl Checked {
    pub(crate) fn new(value: u32) -> Checked {
        Checked(UnsafeCell::new(value))
    }

    pub(crate) fn set(&self, value: u32) {
        // SAFETY: loom has checked that no other access is in progress.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    pub(crate) fn add_one(&self) {
        // SAFETY: loom has checked that no other access is in progress.
        self.0.with_mut(|place| unsafe { *place += 1 });
    }

    pub(crate) fn get(&self) -> u32 {
        // SAFETY: loom has checked that no write is in progress.
        self.0.with(|place| unsafe { *place })
    }

    /// Returns the value, as an access that must be ordered with reads, too.
    pub(crate) fn get_alone(&self) -> u32 {
        // SAFETY: loom has checked that no other access is in progress.
        self.0.with_mut(|place| unsafe { *place })
    }
}
