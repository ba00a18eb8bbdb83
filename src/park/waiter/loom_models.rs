//! Models of the waits of threads and of listeners: which claim wins, what the winner may touch,
//! and when the frame may be left.

use loom::thread::{self, JoinHandle};
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use super::{CANCELLED, WOKEN, Waiter, What};
use crate::base::local;
use crate::base::sync::{Checked, Signal, SpinLock};
use crate::park::host::{Host, enter_host};
use crate::park::{Mode, Outcome};

/// A frame with a wait, and the list in which other threads find it.
struct Shared {
    found: SpinLock<*const Waiter>,
    gift: Checked,
}

// The list is accessed under its lock, the gift by the winner.
unsafe impl Sync for Shared {}
unsafe impl Send for Shared {}

fn share(waiter: *const Waiter) -> Arc<Shared> {
    Arc::new(Shared { found: SpinLock::new(waiter), gift: Checked::new(0) })
}

fn new_waiter() -> Waiter {
    static WHAT: What = What::new("a model");
    Waiter::new(&WHAT, std::ptr::null(), 0, Location::caller(), None)
}

/// Finds the waiter, claims it under the lock, gives, and unparks it.
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
    shared.gift.set(gift);
    unsafe { Waiter::unpark(found) };
}

#[test]
fn of_two_rivals_one_wins_and_its_gift_arrives() {
    loom::model(|| {
        let waiter = Box::into_raw(Box::new(new_waiter()));
        let shared = share(waiter);
        let threads = [1, 2].map(|gift| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wake(&shared, gift))
        });
        let waiter = unsafe { Box::from_raw(waiter) };
        let outcome = unsafe { &*(&raw const *waiter) }.park(None, Mode::Uninterruptible);
        drop(waiter);
        let Outcome::Woken(arm) = outcome else { unreachable!("there is no other end") };
        assert_eq!(shared.gift.get(), arm);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_deadline_against_a_wake_and_the_frame_goes_after_both() {
    loom::model(|| {
        let waiter = Box::into_raw(Box::new(new_waiter()));
        let shared = share(waiter);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || wake(&other, 1));
        let waiter = unsafe { Box::from_raw(waiter) };
        let outcome =
            unsafe { &*(&raw const *waiter) }.park(Some(Instant::now()), Mode::Uninterruptible);
        if let Outcome::TimedOut(()) = outcome {
            *shared.found.lock() = std::ptr::null();
        } else {
            assert!(matches!(outcome, Outcome::Woken(1)));
            assert_eq!(shared.gift.get(), 1);
        }
        drop(waiter);
        thread.join().unwrap();
    });
}

/// Runs `model` with a waiter of this thread, which counts as a worker for that time.
fn at_home(model: impl FnOnce(*mut Waiter, Arc<Shared>)) {
    let worker = 0_u8;
    local::with(|local| local.worker.set((&raw const worker).cast()));
    let waiter = Box::into_raw(Box::new(new_waiter()));
    model(waiter, share(waiter));
    drop(unsafe { Box::from_raw(waiter) });
    local::with(|local| local.worker.set(std::ptr::null()));
}

fn claim_in_line(shared: &Shared, outcome: u32) -> bool {
    let found = shared.found.lock();
    unsafe { &**found }.claim_in_line(outcome)
}

#[test]
fn in_line_its_own_worker_needs_no_exchange() {
    loom::model(|| {
        at_home(|waiter, shared| {
            let other = Arc::clone(&shared);
            let elsewhere = thread::spawn(move || claim_in_line(&other, WOKEN + 1));
            let here = claim_in_line(&shared, WOKEN + 2);
            let cancelled = unsafe { &*waiter }.claim(CANCELLED);
            let elsewhere = elsewhere.join().unwrap();
            assert_eq!([elsewhere, here, cancelled].into_iter().filter(|won| *won).count(), 1);
            let outcome = if elsewhere { WOKEN + 1 } else { WOKEN + 2 };
            assert_eq!(unsafe { &*waiter }.outcome(), outcome);
        });
    });
}

#[test]
fn in_line_a_cancellation_by_its_own_worker_may_come_first() {
    loom::model(|| {
        at_home(|waiter, shared| {
            let other = Arc::clone(&shared);
            let elsewhere = thread::spawn(move || claim_in_line(&other, WOKEN));
            let cancelled = unsafe { &*waiter }.claim(CANCELLED);
            assert!(!claim_in_line(&shared, WOKEN + 1), "it is decided by then");
            assert!(cancelled != elsewhere.join().unwrap());
        });
    });
}

/// A host whose tasks are signals, which are raised when the task is runnable.
static HOST: Host = Host {
    unpark: |task| unsafe { &*task.cast::<Signal>() }.raise(),
    is_cancelled: || false,
    park_until: |_, _, _| {},
    hold: |_, _| {},
    may_listen: || false,
    listen: |_| {},
    leave: || {},
    yield_now: || {},
    out_of_budget: || {},
    blocks: |_| {},
};

/// Runs a model of a task that listens. The model gets the signal that is raised when the task is
/// runnable. It returns its other thread, which may end after the frame.
fn listening(model: impl FnOnce(&Waiter, &Signal, Arc<Shared>) -> JoinHandle<()>) {
    let _host = enter_host(&HOST);
    let task = Box::new(Signal::new());
    local::with(|local| {
        local.task.set((&raw const *task).cast());
        local.listens.set(true);
    });
    let mut waiter = Box::new(new_waiter());
    assert!(waiter.become_listener());
    let waiter = Box::into_raw(waiter);
    let other = model(unsafe { &*waiter }, &task, share(waiter));
    let waiter = unsafe { Box::from_raw(waiter) };
    drop(waiter);
    other.join().unwrap();
    local::with(|local| {
        local.task.set(std::ptr::null());
        local.listens.set(false);
    });
}

#[test]
fn a_listener_hears_or_parks_and_then_is_made_runnable() {
    loom::model(|| {
        listening(|waiter, task, shared| {
            let other = Arc::clone(&shared);
            let other = thread::spawn(move || wake(&other, 1));
            assert!(waiter.listen() || task.wait(None));
            assert_eq!(waiter.outcome(), WOKEN + 1);
            assert_eq!(shared.gift.get(), 1);
            other
        });
    });
}

#[test]
fn a_listener_that_has_parked_may_be_cancelled() {
    loom::model(|| {
        listening(|waiter, task, shared| {
            let other = Arc::clone(&shared);
            let other = thread::spawn(move || wake(&other, 1));
            // A cancellation is a claim by the task's own worker, which needs no message.
            let parked = !waiter.listen();
            if parked && waiter.claim(CANCELLED) {
                *shared.found.lock() = std::ptr::null();
                return other;
            }
            assert!(!parked || task.wait(None));
            assert_eq!(waiter.outcome(), WOKEN + 1);
            assert_eq!(shared.gift.get(), 1);
            other
        });
    });
}
