//! Models of a limit that another thread moves, against its expiry and against a cancellation.
//!
//! The clock and the alarms are the model's. The main thread is the service: it lets time pass, and
//! then rings what is due. As with the real service, an alarm that is being dropped may have begun
//! to ring. A thread outside of the section waits until the section is cancelled. If an expiry is
//! lost, it waits forever, which loom reports.

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::base::alarm::Ring;
use crate::scope::{CancelHandle, cancel_scope};
use crate::source::Source;
use crate::task::CancelReason;

loom::lazy_static! {
    static ref START: Instant = Instant::now();
    /// The hours that have passed.
    static ref HOURS: AtomicU32 = AtomicU32::new(0);
    static ref ALARMS: Mutex<Alarms> = Mutex::new(Alarms { set: Vec::new(), next: 0 });
}

struct Alarms {
    set: Vec<(Instant, u32, Weak<dyn Ring>)>,
    next: u32,
}

/// Returns a time of the model.
fn hour(hours: u32) -> Instant {
    *START + Duration::from_secs(3600) * hours
}

pub(super) mod clock {
    use super::{HOURS, Instant, Ordering, hour};

    pub(in crate::scope::section) fn now() -> Instant {
        hour(HOURS.load(Ordering::Acquire))
    }
}

#[derive(Debug)]
pub(super) struct Alarm {
    due: Instant,
    number: u32,
}

impl Alarm {
    pub(super) fn set(due: Instant, what: Weak<dyn Ring>) -> Alarm {
        let mut alarms = ALARMS.lock().unwrap();
        let number = alarms.next;
        alarms.next += 1;
        alarms.set.push((due, number, what));
        Alarm { due, number }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        ALARMS.lock().unwrap().set.retain(|(_, number, _)| *number != self.number);
    }
}

/// Lets the time become `hours`, and rings what is due, also what a call has set.
fn pass(hours: u32) {
    HOURS.store(hours, Ordering::Release);
    while let Some(due) = take_due() {
        if let Some(due) = due.upgrade() {
            due.ring();
        }
    }
}

fn take_due() -> Option<Weak<dyn Ring>> {
    let mut alarms = ALARMS.lock().unwrap();
    let due = alarms.set.iter().position(|(due, ..)| *due <= clock::now())?;
    Some(alarms.set.swap_remove(due).2)
}

/// Runs `change` on another thread while the first limit, at one hour, expires. Then `last` hours
/// pass. Checks the reason of the cancellation that the waiting thread has seen.
fn check(change: fn(&CancelHandle), last: u32, is_right: fn(CancelReason) -> bool) {
    loom::model(move || {
        let waiting = cancel_scope(|c| {
            c.set_deadline(hour(1));
            let (outside, other) = (c.clone(), c.clone());
            let waiting = thread::spawn(move || outside.cancelled().wait().unwrap());
            let changing = thread::spawn(move || change(&other));
            pass(1);
            changing.join().unwrap();
            pass(last);
            assert!(c.is_cancelled(), "the limit is lost");
            waiting
        });
        assert!(is_right(waiting.join().unwrap()));
    });
}

#[test]
fn a_limit_that_moves_away_as_it_expires_is_kept() {
    check(
        |c| {
            let is_late = clock::now() >= hour(1);
            c.set_deadline(hour(2));
            assert!(c.is_cancelled() || !is_late, "a limit that has passed has been moved");
        },
        2,
        |reason| reason == CancelReason::Deadline,
    );
}

/// The alarm is replaced while it may ring.
#[test]
fn a_limit_that_moves_away_and_back_is_kept() {
    check(
        |c| {
            c.set_deadline(hour(3));
            c.set_deadline(hour(2));
        },
        2,
        |reason| reason == CancelReason::Deadline,
    );
}

#[test]
fn a_limit_is_taken_away_and_the_section_is_cancelled() {
    check(
        |c| {
            c.set_deadline(None);
            c.cancel();
        },
        1,
        |reason| matches!(reason, CancelReason::Deadline | CancelReason::Explicit),
    );
}

/// Two threads move the limit. The one that comes last decides, and its limit expires.
#[test]
fn two_threads_move_a_limit() {
    loom::model(|| {
        cancel_scope(|c| {
            let movers = [1, 2].map(|hours| {
                let mover = c.clone();
                thread::spawn(move || mover.set_deadline(hour(hours)))
            });
            for mover in movers {
                mover.join().unwrap();
            }
            let is_early = c.deadline() == Some(hour(1));
            pass(1);
            assert_eq!(c.is_cancelled(), is_early);
            pass(2);
            assert!(c.is_cancelled());
        });
    });
}

/// The section ends while another thread moves its limit. An alarm that is left cancels nothing.
#[test]
fn a_section_ends_while_its_limit_moves() {
    loom::model(|| {
        let (handle, changing) = cancel_scope(|c| {
            c.set_deadline(hour(2));
            let other = c.clone();
            let changing = thread::spawn(move || other.set_deadline(hour(1)));
            (c, changing)
        });
        changing.join().unwrap();
        pass(2);
        assert!(!handle.is_cancelled());
    });
}
