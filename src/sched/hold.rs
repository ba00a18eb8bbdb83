//! Waits inside the panic hook. They block the worker, because no stack may be switched away from
//! inside the hook: see [`hook::is_running`](crate::coroutine::hook::is_running).
//!
//! The worker looks at its inboxes, its timers and its driver meanwhile, but runs no task. So a
//! wait ends that the clock, the kernel, another worker or a thread ends. A wait that only a task
//! of this worker can end would last forever. After [`JUDGE_AFTER`] it is reported, and the process
//! is aborted, unless the wait may still end. If it is not known which party can end the wait, it
//! is reported, and the process is aborted after [`ABORT_AFTER`]. A lock that was handed to a ready
//! task of a blocked worker, for example, has a holder that has not noted itself yet.
//!
//! | the wait | may end |
//! |---|---|
//! | has a deadline, or is for a kernel operation | yes |
//! | for a closure on another thread, or one of several sources | while anything is pending here |
//! | for a task or a lock that belongs to another worker or a thread | yes |
//! | for a task or a lock that belongs to this worker | no |
//! | for anything else | not known, because any thread of the program may end it |
#![expect(unsafe_code, reason = "takes a task out of a queue by pointer")]

use std::fmt::Write;
use std::process;
use std::ptr;
use std::time::{Duration, Instant};

use super::deadline::ending_at;
use super::worker::{Outer, Worker, current};
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, report};
use crate::driver::PollTimeout;
use crate::park::{About, Purpose, Waiter, verb};
use crate::task::{self, Header, StartedEntry};

/// How long a wait that only a task of this worker may end lasts at most.
const JUDGE_AFTER: Duration = Duration::from_secs(1);

/// How long a wait lasts at most if it is not known which party can end it.
const ABORT_AFTER: Duration = Duration::from_secs(10);

/// [`Host::hold`](crate::park::Host::hold).
pub(super) fn hold(waiter: &Waiter, deadline: Option<Instant>) {
    let (Some(worker), Some(header)) = (current(), task::current_header()) else {
        unreachable!("a task waits on its worker")
    };
    let wait = || {
        let outer = Outer::leave_for(ptr::null(), 0);
        let noted = task::noted();
        worker.hold(header, waiter, deadline.is_some());
        task::note_again(noted);
        outer.come_back();
    };
    match deadline {
        Some(deadline) => ending_at(worker, waiter, deadline, wait),
        None => wait(),
    }
}

/// Which party can end a wait.
enum Party {
    /// Something that acts while this worker is blocked.
    Elsewhere,
    /// A task of this worker.
    Here,
    Unknown,
}

impl Worker {
    /// Blocks until the wait of `header`, which runs here, is over.
    fn hold(&self, header: &Header, waiter: &Waiter, has_deadline: bool) {
        #[cfg(feature = "sim")]
        if let Some(simulation) = &self.simulation {
            return self.hold_simulated(simulation, header, waiter);
        }
        let since = clock::now();
        let mut judgement = (!has_deadline).then(|| since + JUDGE_AFTER);
        loop {
            let now = clock::now();
            self.look_around(now);
            if waiter.is_over() && self.ready.take(header) {
                return;
            }
            if judgement.is_some_and(|at| at <= now) {
                self.judge_hook(header, waiter, now - since);
                judgement = Some(now + JUDGE_AFTER);
            }
            self.rest([self.timers.next(), judgement].into_iter().flatten().min());
        }
    }

    /// Sleeps until a message arrives, the driver has news, or the given moment.
    fn rest(&self, until: Option<Instant>) {
        let in_driver = self.io.borrow().is_open();
        if !self.shared.fall_asleep(in_driver) {
            return;
        }
        if in_driver {
            let wait = match until {
                None => PollTimeout::Forever,
                Some(until) => PollTimeout::For(until.saturating_duration_since(clock::now())),
            };
            self.poll_io(wait);
            self.shared.wake_up();
        } else {
            self.shared.sleep(until);
        }
    }

    /// Aborts the process if nothing but a task of this worker can end the wait, which has lasted
    /// for this time. If that is not known, reports it once, and aborts the process in the end.
    fn judge_hook(&self, header: &Header, waiter: &Waiter, lasted: Duration) {
        if waiter.is_over() {
            return;
        }
        match self.party(waiter) {
            Party::Elsewhere => {}
            Party::Here => self.give_up_hook(header, waiter),
            Party::Unknown if lasted >= ABORT_AFTER => {
                abort(self.describe_hook(
                    header,
                    waiter,
                    "No other thread has ended the wait for ten seconds, so the process is aborted",
                ));
            }
            // The first judgement.
            Party::Unknown if lasted < 2 * JUDGE_AFTER => report::say(self.describe_hook(
                header,
                waiter,
                "If no other thread ends the wait within ten seconds, the process is aborted",
            )),
            Party::Unknown => {}
        }
    }

    fn party(&self, waiter: &Waiter) -> Party {
        if waiter.may_end_by_itself() && !self.expects_nothing() {
            return Party::Elsewhere;
        }
        let is_here = match waiter.purpose().about {
            About::Fd { .. } => false,
            About::Task(other) => {
                // SAFETY: T2: the frame of the wait holds a reference to it.
                let other = unsafe { &*other.cast::<Header>() };
                let home = other.worker.load(Ordering::Relaxed).cast_const();
                if home.is_null() {
                    return Party::Unknown;
                }
                ptr::eq(home, ptr::from_ref(self.shared).cast())
            }
            About::Object(object) => match object.holds[..] {
                [hold] if object.holders == Some(1) => self.has_task(hold.identity),
                _ => return Party::Unknown,
            },
            About::Nothing | About::Scope(..) | About::Time(_) => return Party::Unknown,
        };
        if is_here { Party::Here } else { Party::Elsewhere }
    }

    /// Returns whether a task of this worker has this identity.
    fn has_task(&self, identity: u64) -> bool {
        // SAFETY: T1: the root lives as long as its worker.
        let root = unsafe { self.root.get().as_ref() };
        let mut found = root.is_some_and(|root| task::identity_of(root) == identity);
        let mut link = self.started.first();
        while !link.is_null() && !found {
            // SAFETY: T6: an entry in the list exists, and the link is its first field.
            let entry = unsafe { &*link.cast::<StartedEntry>() };
            // SAFETY: T6: a task in the list has not ended.
            found = task::identity_of(unsafe { &*entry.task }) == identity;
            link = entry.link.next();
        }
        found
    }

    pub(super) fn give_up_hook(&self, header: &Header, waiter: &Waiter) -> ! {
        let end = format!(
            "Only another task of worker {} could end the wait, so the process is aborted",
            self.index
        );
        abort(self.describe_hook(header, waiter, &end))
    }

    /// Returns the text about a hook that waits. `end` says how it ends.
    fn describe_hook(&self, header: &Header, waiter: &Waiter, end: &str) -> String {
        let Purpose { what, about, at } = waiter.purpose();
        let (waits, hook) = (verb(what), header.description());
        let mut text = format!("ecru: the panic hook of {hook} {waits} {what}");
        // Writing to a string does not fail.
        let _ = match about {
            About::Nothing | About::Scope(..) | About::Time(_) => Ok(()),
            About::Task(other) => {
                // SAFETY: T2: the frame of the wait holds a reference to it.
                write!(text, " {}", unsafe { &*other.cast::<Header>() }.description())
            }
            About::Fd { fd, .. } => write!(text, " (descriptor {fd})"),
            About::Object(object) => {
                let holders = task::describe_holders(&object, |id| format!("task {id}"));
                write!(text, " {}{holders}", object.text)
            }
        };
        let _ = write!(
            text,
            ", at {at}, and blocks its worker, because a task cannot be switched away from inside a panic hook. {end}. Write the \
             hook so that it does not wait for tasks: use `try_lock` instead of `lock`, or `send` to an unbounded channel whose \
             receiver does the rest"
        );
        text
    }
}

/// Aborts the process with this text.
fn abort(text: String) -> ! {
    report::last_words(text);
    process::abort()
}
