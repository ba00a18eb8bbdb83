//! The waits of threads: who wins, what the winner may touch, and when the frame may go.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use std::time::Instant;

use super::{Mode, TIMED_OUT, WOKEN, Waiter};
use crate::base::sync::SpinLock;

/// A frame with a wait, and the list where others find it.
struct Shared {
    found: SpinLock<*const Waiter>,
    gift: UnsafeCell<u32>,
}

// The list is under its lock, the gift is the winner's.
unsafe impl Sync for Shared {}
unsafe impl Send for Shared {}

fn share(waiter: *const Waiter) -> Arc<Shared> {
    Arc::new(Shared { found: SpinLock::new(waiter), gift: UnsafeCell::new(0) })
}

/// Finds the waiter, claims it under the lock, gives, and lets the owner go on.
fn wake(shared: &Shared, gift: u32) {
    let found = {
        let mut found = shared.found.lock();
        let waiter = *found;
        if waiter.is_null() || !unsafe { &*waiter }.claim(WOKEN + gift) {
            return;
        }
        *found = std::ptr::null();
        waiter
    };
    shared.gift.with_mut(|place| unsafe { *place = gift });
    unsafe { Waiter::unpark(found) };
}

#[test]
fn of_two_rivals_one_wins_and_its_gift_arrives() {
    loom::model(|| {
        let waiter = Box::into_raw(Box::new(Waiter::new()));
        let shared = share(waiter);
        let threads = [1, 2].map(|gift| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wake(&shared, gift))
        });
        let mut waiter = unsafe { Box::from_raw(waiter) };
        let outcome = unsafe { &*(&raw const *waiter) }.park(None, Mode::Uninterruptible);
        waiter.gone();
        shared.gift.with(|gift| assert_eq!(WOKEN + unsafe { *gift }, outcome));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_deadline_against_a_wake_and_the_frame_goes_after_both() {
    loom::model(|| {
        let waiter = Box::into_raw(Box::new(Waiter::new()));
        let shared = share(waiter);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || wake(&other, 1));
        let mut waiter = unsafe { Box::from_raw(waiter) };
        let outcome =
            unsafe { &*(&raw const *waiter) }.park(Some(Instant::now()), Mode::Uninterruptible);
        if outcome == TIMED_OUT {
            *shared.found.lock() = std::ptr::null();
        } else {
            assert_eq!(outcome, WOKEN + 1);
            shared.gift.with(|gift| assert_eq!(unsafe { *gift }, 1));
        }
        waiter.gone();
        thread.join().unwrap();
    });
}
