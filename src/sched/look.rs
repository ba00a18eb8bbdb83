//! What a worker looks at between two tasks: its inboxes, its timers and its driver.
#![expect(unsafe_code, reason = "receives tasks by pointer")]

use std::time::{Duration, Instant};
use std::{mem, ptr};

use super::interrupt::interrupt;
use super::pace::NextStep;
use super::placement::Moment;
use super::record;
use super::worker::{Outer, Worker};
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, local};
use crate::driver::{self, PollTimeout};
use crate::task::{self, Header, Running};

/// How old a noted time may become. It is compared with limits of a millisecond and more.
const MOMENT: Duration = Duration::from_micros(256);

impl Worker {
    /// Looks at inboxes, timers and the driver, without waiting.
    pub(super) fn look_around(&self, now: Instant) {
        self.leave_task();
        self.poll_io(PollTimeout::Poll);
        self.look_beside_io(now);
    }

    /// Notes that no task runs: the driver and the timers call wakers and hooks on behalf of none.
    pub(super) fn leave_task(&self) {
        task::hear_of_hook();
        local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.set(0);
        });
        task::note_none();
    }

    /// Looks at inboxes and timers, after the driver has been polled and no task runs.
    pub(super) fn look_beside_io(&self, now: Instant) {
        self.receive();
        self.pace.note_look(now);
        if now >= self.moment_due.get() {
            self.note_moment(now);
        }
        if !self.timers.is_empty() {
            self.timers.ring(now);
            self.call_wakers();
        }
    }

    /// Notes the time for the waits that begin from now on, and for other threads.
    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^31, which is 26 days")]
    pub(super) fn note_moment(&self, now: Instant) {
        let nanos = now.saturating_duration_since(self.pool.epoch).as_nanos();
        local::with(|local| local.moment.set((nanos >> 20) as u32 & (u32::MAX >> 1)));
        let moment = Moment::at(now, self.pool.epoch);
        self.shared.looked_at.store(moment.word(), Ordering::Relaxed);
        self.moment_due.set(now + MOMENT);
    }

    /// Queues the tasks that other workers have placed here.
    #[inline]
    pub(super) fn receive_inbound(&self) {
        self.shared.take_inbound(|task| self.queue(task));
    }

    /// Queues an unstarted task here.
    #[inline]
    pub(super) fn queue(&self, task: *const Header) {
        // SAFETY: T1: it was taken out of an inbox just now, with its reference.
        let header = unsafe { &*task };
        header.worker.store(ptr::from_ref(self.shared).cast_mut().cast(), Ordering::Relaxed);
        self.shared.unstarted.push(task);
    }

    /// Empties the inboxes.
    #[inline]
    pub(super) fn receive(&self) {
        self.receive_inbound();
        self.shared.receive_woken(|task| {
            if task::is_hooked() {
                // SAFETY: T1: a task in an inbox lives.
                record::arrives(unsafe { &*task });
            }
            // SAFETY: T1: it came through the inbox of this worker, so it is in no queue.
            unsafe { self.ready.push(task) };
        });
        self.shared.receive_cancelled(|task| {
            // SAFETY: T2: the message's reference.
            let header = unsafe { &*task };
            interrupt(header);
            // SAFETY: T2: the message's reference.
            unsafe { Header::release(task) };
        });
    }

    /// Called when the running task has used up its allowance. Returns whether it has to make room.
    pub(super) fn is_allowance_over(&self, running: &Running) -> bool {
        let (turn, now) = (self.turns.get(), clock::now());
        let allowance = match self.pace.judge(running, turn, now) {
            NextStep::More(more) => more,
            NextStep::MakeRoom if self.is_to_make_room(now) => return true,
            NextStep::MakeRoom => self.pace.go_on(running, turn),
            NextStep::LookAround => {
                self.look_around_in_task(now);
                self.pace.go_on(running, turn)
            }
        };
        local::with(|local| local.budget.set(allowance));
        false
    }

    /// Looks around, and restores what says which task runs.
    fn look_around_in_task(&self, now: Instant) {
        let outer = Outer::leave_for(ptr::null(), 0);
        let noted = task::noted();
        self.look_around(now);
        task::note_again(noted);
        outer.come_back();
    }

    /// Polls the driver, and calls the wakers of code that polls.
    #[inline]
    pub(super) fn poll_io(&self, wait: PollTimeout) {
        self.io.borrow_mut().poll(wait);
        self.call_wakers();
    }

    /// Calls the wakers of code that polls, which the driver and the timers have left.
    #[inline]
    pub(super) fn call_wakers(&self) {
        if !self.io.borrow().wakers.is_empty() {
            self.call_these_wakers();
        }
    }

    /// Calls the wakers. They are user code, so nothing is borrowed meanwhile.
    #[inline(never)]
    fn call_these_wakers(&self) {
        let mut wakers = mem::take(&mut self.io.borrow_mut().wakers);
        wakers.drain(..).for_each(driver::call_waker);
        let mut io = self.io.borrow_mut();
        if io.wakers.is_empty() {
            // The memory is used again.
            io.wakers = wakers;
        }
    }

    /// Looks around. Returns whether the running task, which has used up its budget, has to make
    /// room: a ready task waits, or its slice is over and another task computes.
    ///
    /// Otherwise the task goes on. Switching away from it would also switch away from the joiners
    /// on whose stacks it was started.
    fn is_to_make_room(&self, now: Instant) -> bool {
        self.look_around_in_task(now);
        let (oldest, next) = self.shared.unstarted.span();
        let others_compute = oldest < next || !self.preempted.is_empty();
        // A slice that has not begun begins now.
        let is_slice_over = self.restraint.note_used_up(others_compute);
        if self.root_is_next.get() || !self.ready.is_empty() {
            return true;
        }
        if !is_slice_over {
            return false;
        }
        let is_due = oldest < next && self.restraint.is_over();
        if is_due {
            self.unstarted_first.set(true);
        }
        is_due || !self.preempted.is_empty()
    }
}
