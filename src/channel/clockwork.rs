//! Timed values: what makes the values of `after`, `at` and `tick`.

use std::panic;
use std::sync::Weak;
use std::time::Instant;

use super::core::{Channel, ChannelGuard, call_predicate};
use super::fast_path::{Accepts, TryRecv};
use super::state::{ChannelKind, Clockwork};
use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::park::{Node, Role};

impl<T> Clockwork<T> {
    /// Sets the time of the next value, after one has been taken.
    fn wind(&mut self, due: Instant, now: Instant) {
        // The next period begins now if this value was fetched late, so there is no burst of missed
        // values.
        self.next = self.period.and_then(|period| now.max(due).checked_add(period));
    }
}

impl<T: Send> Ring for Channel<T> {
    fn ring(&self) {
        // All waiters are woken. Each one that finds nothing waits again, and so sets the next
        // alarm.
        self.list().notify_all();
    }
}

impl<T> ChannelGuard<'_, T> {
    /// Receives the timed value that is due, if `accepts` returns true for it.
    #[cold]
    pub(super) fn try_recv_timed(&mut self, accepts: Option<&Accepts<'_, T>>) -> TryRecv<T> {
        match self.take_timed(accepts) {
            Some(value) => TryRecv::Value(value),
            None if self.is_drained() => TryRecv::Disconnected,
            None => TryRecv::Empty,
        }
    }

    fn take_timed(&mut self, accepts: Option<&Accepts<'_, T>>) -> Option<T> {
        let ChannelGuard { receivers, state, woken } = self;
        let ChannelKind::Timed(clockwork) = &mut state.kind else { return None };
        let (due, now) = (clockwork.next?, clock::now());
        if now < due {
            return None;
        }
        let value = (clockwork.make)(due);
        if let Some(accepts) = accepts {
            match call_predicate(receivers, woken, || accepts(&value)) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(payload) => panic::resume_unwind(payload),
            }
        }
        clockwork.wind(due, now);
        // A waiter that refused this value does not know when the next one is due.
        let picky =
            |node: &Node| (node.predicate().is_some() || node.role() == Role::Look).then_some(());
        if receivers.seek(picky).is_some() {
            receivers.look_again(woken);
        }
        Some(value)
    }
}

impl<T> Channel<T> {
    /// Sets an alarm that notifies the list when the next timed value is due. A waiter that
    /// registers through [`Source::waiters`](crate::Source::waiters) does not know that time.
    pub(super) fn set_alarm(&self) {
        let locked = self.lock();
        let ChannelKind::Timed(clockwork) = &locked.state.kind else { return };
        let Some(next) = clockwork.next else { return };
        if locked.state.alarm.as_ref().is_some_and(|alarm| alarm.due() == next)
            || next <= clock::now()
        {
            return;
        }
        let channel = Weak::clone(&clockwork.channel);
        drop(locked);
        let alarm = Alarm::set(next, channel);
        let before = self.lock().state.alarm.replace(alarm);
        drop(before);
    }
}
