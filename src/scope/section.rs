//! What a `cancel_scope` and its handles share: a cancel node, and a time limit that can be moved.
//!
//! # The limit
//! Waits and `checkpoint` read the limit from the node: see `task::limits`. Parked tasks are woken
//! by an alarm of the [service](crate::base::service), because any thread may move the limit, and a
//! worker's timers belong to its thread. A limit that moves to a later time leaves the alarm where it
//! is. When that rings, it is set again. So moving a limit away again and again, as idle limits do,
//! takes no lock but the section's own.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

#[cfg(all(test, loom))]
use self::loom_models::{Alarm, clock};
#[cfg(not(all(test, loom)))]
use crate::base::alarm::Alarm;
use crate::base::alarm::Ring;
#[cfg(not(all(test, loom)))]
use crate::base::clock;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Mutex, MutexGuard};
use crate::task::CancelReason;
use crate::task::cancel::{self, CancelNode, SectionNode};

#[derive(Debug)]
pub(super) struct Section {
    node: SectionNode,
    /// Set once there has been a limit, for its time or an earlier one, until it has rung.
    alarm: Mutex<Option<LimitAlarm>>,
    has_ended: AtomicBool,
}

#[derive(Debug)]
struct LimitAlarm {
    alarm: Alarm,
    ringer: Arc<Ringer>,
}

/// What the alarm calls.
#[derive(Debug)]
struct Ringer(Weak<Section>);

impl Section {
    pub(super) fn new(node: SectionNode) -> Section {
        Section { node, alarm: Mutex::new(None), has_ended: AtomicBool::new(false) }
    }

    pub(super) fn node(&self) -> &CancelNode {
        &self.node.node
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.node.deadline()
    }

    pub(super) fn set_deadline(self: &Arc<Self>, deadline: Option<Instant>) {
        let mut alarm = self.alarm();
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        // A limit that has passed stays, although the alarm may not have rung yet.
        let has_passed = |at: Option<Instant>| at.is_some_and(|at| at <= clock::now());
        if has_passed(self.node.deadline()) || has_passed(deadline) {
            drop(alarm);
            cancel::cancel(self.node(), CancelReason::Deadline);
            return;
        }
        self.node.set_deadline(deadline);
        let Some(at) = deadline else { return };
        match &*alarm {
            Some(set) if set.alarm.due() <= at => {}
            Some(set) => *alarm = Some(LimitAlarm::set(at, Arc::clone(&set.ringer))),
            None => {
                let ringer = Arc::new(Ringer(Arc::downgrade(self)));
                *alarm = Some(LimitAlarm::set(at, ringer));
            }
        }
    }

    /// Called when the alarm rings.
    fn check_limit(&self) {
        let mut alarm = self.alarm();
        let Some(rung) = alarm.take() else { return };
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        match self.node.deadline() {
            // An earlier alarm may have rung, which has been replaced meanwhile. The time of the
            // later one has then passed, too.
            Some(at) if at <= rung.alarm.due() => {
                drop(alarm);
                cancel::cancel(self.node(), CancelReason::Deadline);
            }
            Some(at) => *alarm = Some(LimitAlarm::set(at, rung.ringer)),
            None => {}
        }
    }

    /// Ends the section. Handles may outlive it.
    pub(super) fn end(&self) {
        self.node().orphan();
        self.has_ended.store(true, Ordering::Relaxed);
        if self.node.deadline().is_some() {
            *self.alarm() = None;
        }
    }

    fn alarm(&self) -> MutexGuard<'_, Option<LimitAlarm>> {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimitAlarm {
    fn set(at: Instant, ringer: Arc<Ringer>) -> LimitAlarm {
        let what: Weak<Ringer> = Arc::downgrade(&ringer);
        LimitAlarm { alarm: Alarm::set(at, what), ringer }
    }
}

impl Ring for Ringer {
    fn ring(&self) {
        if let Some(section) = self.0.upgrade() {
            section.check_limit();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models;
