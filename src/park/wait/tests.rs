//! Waits of plain threads.

use super::{Mode, Outcome, Single, Wait};
use crate::base::clock;
use crate::park::What;
use std::cell::Cell;
use std::ptr;
use std::thread;
use std::time::Duration;

static WHAT: What = What::new("a test");

#[test]
fn a_thread_is_woken_by_the_single_claimer() {
    thread::scope(|scope| {
        let wait = Wait::new(&WHAT, Mode::Uninterruptible);
        let given = wait.single(Cell::new(0), |single| {
            let address = ptr::from_ref(single).expose_provenance();
            scope.spawn(move || {
                let single: *const Single<Cell<u32>> = ptr::with_exposed_provenance(address);
                // SAFETY: S4: the owner waits for this thread, and does not use the cell meanwhile.
                unsafe { &*single }.shared.set(7);
                // SAFETY: S4: this is the only claimer, and its last access.
                unsafe { Single::wake(single) };
            });
        });
        assert_eq!(given.get(), 7);
    });
}

#[test]
fn a_deadline_ends_the_wait_of_a_thread_and_never_early() {
    let deadline = clock::now() + Duration::from_millis(3);
    let wait = Wait { deadline: Some(deadline), ..Wait::new(&WHAT, Mode::Uninterruptible) };
    assert!(matches!(wait.alone(), Outcome::TimedOut(())));
    assert!(clock::now() >= deadline);
}
