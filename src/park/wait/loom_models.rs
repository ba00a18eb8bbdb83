//! Models of whole waits of threads: no claim is lost, and no frame is left while it is registered.
//! The end of a frame is checked by loom, because the claim is an atomic in it.

use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::{Mode, Outcome, Single, Wait};
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicPtr, Ordering};
use crate::park::{Queue, What, Woken};

static WHAT: What = What::new("a model");

/// A line, and the number of permits that were given to its waiters or are free.
struct Line {
    queue: Queue,
    free: u32,
}

type Shared = Arc<SpinLock<Line>>;

fn new_line() -> Shared {
    Arc::new(SpinLock::new(Line { queue: Queue::new(), free: 0 }))
}

/// Gives a permit to the first waiter, or leaves it free.
fn give(line: &Shared) {
    let mut woken = Woken::none();
    let mut locked = line.lock();
    if !locked.queue.claim_first(&mut woken) {
        locked.free += 1;
    }
    drop(locked);
}

#[test]
fn a_wait_in_line_ends_by_a_claim_or_by_its_deadline() {
    loom::model(|| {
        let line = new_line();
        let other = Arc::clone(&line);
        let giver = thread::spawn(move || give(&other));
        let mut locked = line.lock();
        let got = if locked.free > 0 {
            locked.free -= 1;
            drop(locked);
            true
        } else {
            let wait =
                Wait { deadline: Some(Instant::now()), ..Wait::new(&WHAT, Mode::Uninterruptible) };
            match wait.in_line(locked, |line| &line.queue, || (), || line.lock()) {
                Outcome::Woken(arm) => arm == 0,
                Outcome::TimedOut(_) => false,
                Outcome::Again(_) | Outcome::Cancelled(_) => unreachable!("no other end"),
            }
        };
        giver.join().unwrap();
        let locked = line.lock();
        assert!(locked.queue.is_empty());
        assert_eq!(locked.free, u32::from(!got), "the permit is free or given");
    });
}

/// The function that registers panics after it has put the node into the line.
#[test]
fn a_registration_that_panics_is_withdrawn() {
    loom::model(|| {
        let line = new_line();
        let other = Arc::clone(&line);
        let giver = thread::spawn(move || give(&other));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Wait::new(&WHAT, Mode::Uninterruptible).in_line(
                line.lock(),
                |line| &line.queue,
                || resume_unwind(Box::new("on purpose")),
                || line.lock(),
            )
        }));
        assert!(panicked.is_err());
        assert!(line.lock().queue.is_empty());
        giver.join().unwrap();
    });
}

#[test]
fn a_single_claimer_ends_the_wait_and_what_it_wrote_is_seen() {
    loom::model(|| {
        let place = Arc::new(AtomicPtr::new(std::ptr::null_mut::<Single<std::cell::Cell<u32>>>()));
        let other = Arc::clone(&place);
        let waker = thread::spawn(move || {
            let wait = other.swap(std::ptr::dangling_mut(), Ordering::AcqRel);
            if !wait.is_null() {
                unsafe { &*wait }.shared.set(7);
                unsafe { Single::wake(wait) };
            }
        });
        let waited = Wait::new(&WHAT, Mode::Uninterruptible).single_unless(
            std::cell::Cell::new(0),
            |wait| {
                let wait = std::ptr::from_ref(wait).cast_mut();
                let empty = std::ptr::null_mut();
                place.compare_exchange(empty, wait, Ordering::AcqRel, Ordering::Acquire).map(drop)
            },
        );
        if let Ok(shared) = waited {
            assert_eq!(shared.get(), 7);
        }
        waker.join().unwrap();
    });
}
