//! One wait of one task or thread.
#![expect(unsafe_code, reason = "unpark reaches a frame of another task or thread")]

use std::cell::Cell;
use std::hint;
use std::mem;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::time::Instant;

use super::host::{self, host};
use crate::base::local;
use crate::base::sync::Signal;
use crate::base::sync::atomic::{AtomicU32, Ordering};

/// The wait has not been decided yet.
pub(crate) const PENDING: u32 = 0;
/// The wait was cancelled.
pub(crate) const CANCELLED: u32 = 1;
/// The deadline has passed.
pub(crate) const TIMED_OUT: u32 = 2;
/// The wait ended with what it waited for. Larger numbers distinguish several such ends, for
/// instance the arms of a select.
pub(crate) const WOKEN: u32 = 3;

/// The wait ends so that its owner looks again. Nothing has been given to it.
pub(crate) const LOOK_AGAIN: u32 = u32::MAX - 2;

/// The owner gave the wait up without parking.
pub(crate) const ABORTED: u32 = u32::MAX;

/// The effect of a cancellation on a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The cancellation ends the wait.
    Cancellable,
    /// The cancellation has no effect: the wait ends when what it waits for is there.
    Uninterruptible,
    /// The cancellation asks for an early end: the task's interrupt hook is called, and the wait
    /// itself continues. Kernel operations use this.
    Hook,
}

/// The purpose of a wait, which is shown only in reports about a stuck program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// The text that follows "waits for".
    pub(crate) what: &'static str,
    pub(crate) about: About,
    /// The place of the waiting call, as far as callers are tracked.
    pub(crate) at: &'static Location<'static>,
}

/// The particular object that a wait is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Nothing,
    /// The header of a task. The frame of the wait keeps it alive.
    Task(*const ()),
    /// A file descriptor.
    Fd(i32),
}

/// One wait. It lives on the stack of its owner; the module's protocol says which thread may access
/// it when. What another core writes to comes last, so that it shares a cache line with what a
/// channel puts behind it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Waiter {
    /// The purpose. Only the owner accesses it.
    purpose: Cell<Purpose>,
    /// The worker that the waiting task stays on. Null for an OS thread, and for a waiter without a
    /// parked owner. For a listener, its task.
    home: *const (),
    unpark: unsafe fn(*const ()),
    /// The argument of `unpark`: the waiting task as its host knows it, or the owner that the
    /// waiter was created with. Null for an OS thread and for a listener.
    owner: *const (),
    claim: AtomicU32,
    /// For an OS thread, the object that it sleeps on. For a listener, the flag that it looks at.
    signal: Signal,
}

/// In a channel's wait, a line of 64 bytes begins with the claim.
#[cfg(all(target_pointer_width = "64", not(loom)))]
const _: () = assert!(mem::offset_of!(Waiter, claim) == 64);

// SAFETY: S4: the claim decides which single thread may use the rest, and the owner's host allows
// `unpark` to be called from any thread.
unsafe impl Sync for Waiter {}
// SAFETY: S4, as above.
unsafe impl Send for Waiter {}

impl Waiter {
    /// Creates a pending wait of the current task, or of this thread if no task is running.
    #[inline]
    #[track_caller]
    pub(crate) fn new() -> Waiter {
        // A task is running only if the thread has a host.
        let owner = local::with(|local| local.task.get());
        let unpark = host().map_or(nobody as unsafe fn(*const ()), |host| host.unpark);
        let home = local::with(|local| local.worker.get());
        Waiter::pending(owner, unpark, home, "something")
    }

    /// Sets the purpose of the wait. Only the owner calls this and [`Waiter::purpose`].
    #[inline]
    pub(crate) fn set_purpose(&self, what: &'static str, about: About) {
        self.purpose.set(Purpose { what, about, at: self.purpose.get().at });
    }

    /// Sets the place of the waiting call, if it is not the place where the waiter was created.
    #[inline]
    pub(crate) fn set_place(&self, at: &'static Location<'static>) {
        self.purpose.set(Purpose { at, ..self.purpose.get() });
    }

    /// Returns the purpose of the wait.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose.get()
    }

    /// Creates a pending wait without a parked owner. The winner of the claim calls `unpark` once,
    /// with `owner`.
    pub(crate) fn with_owner(owner: NonNull<()>, unpark: unsafe fn(*const ())) -> Waiter {
        Waiter::pending(owner.as_ptr().cast_const(), unpark, ptr::null(), "a callback or a future")
    }

    #[inline(always)]
    #[track_caller]
    fn pending(
        owner: *const (),
        unpark: unsafe fn(*const ()),
        home: *const (),
        what: &'static str,
    ) -> Waiter {
        let purpose = Purpose { what, about: About::Nothing, at: Location::caller() };
        Waiter {
            claim: AtomicU32::new(PENDING),
            signal: Signal::new(),
            owner,
            unpark,
            home,
            purpose: Cell::new(purpose),
        }
    }

    /// Makes the waiter listen before it parks, if the current thread's waits listen. Returns
    /// whether it will. The caller then registers the waiter, calls [`Waiter::listen`], and parks
    /// only if that returns `None`.
    #[inline(always)]
    pub(crate) fn prepare_to_listen(&mut self) -> bool {
        host::listens() && self.become_listener()
    }

    #[cold]
    fn become_listener(&mut self) -> bool {
        if self.owner.is_null() {
            return false;
        }
        self.home = mem::replace(&mut self.owner, ptr::null());
        self.signal = Signal::with_listener();
        true
    }

    /// Returns whether a listener's wait is over and its claimer does not access it any more.
    #[inline]
    pub(crate) fn has_heard(&self) -> bool {
        self.signal.is_raised()
    }

    /// Listens for a moment, while the task keeps its core. Returns the outcome if the wait is
    /// over. If this returns `None`, the running task must park, like that of any other waiter.
    #[inline]
    pub(crate) fn listen(&self) -> Option<u32> {
        if let Some(host) = host() {
            (host.listen)(self);
        }
        (!self.signal.leave()).then(|| self.outcome())
    }

    /// Lets a listener continue if it still listens. Returns whether it does. If this returns
    /// false, the caller must unpark the listener.
    ///
    /// # Safety
    /// S4: the conditions are those of [`Waiter::unpark`]. If the result is true, this was the last
    /// access to the waiter.
    #[inline]
    pub(crate) unsafe fn tell(this: *const Waiter) -> bool {
        // SAFETY: S4: the owner's frame stays until this exchange, or until the task has been
        // unparked.
        unsafe { &(*this).signal }.tell()
    }

    /// Claims the waiter: decides how the wait ends. Returns false if that has already been
    /// decided.
    ///
    /// The CAS is AcqRel. By the acquire, the winner sees what the owner wrote before it
    /// registered. By the release, the outcome that [`Waiter::outcome`] reads with acquire brings
    /// along what the winner wrote before.
    #[inline]
    pub(crate) fn claim(&self, outcome: u32) -> bool {
        debug_assert_ne!(outcome, PENDING);
        self.claim.compare_exchange(PENDING, outcome, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Claims the waiter like [`Waiter::claim`], for a wait that can be ended only by its task's
    /// own worker and by the holder of one certain lock, which the caller holds. If the caller runs
    /// on that worker, it has no rival. Then an atomic exchange is saved, which takes six
    /// nanoseconds: the lock orders this claim among those of other lock holders, and the worker's
    /// own claims are made by this thread.
    #[inline]
    pub(crate) fn claim_in_line(&self, outcome: u32) -> bool {
        let home = self.home;
        if home.is_null() || !ptr::eq(home, local::with(|local| local.worker.get())) {
            return self.claim(outcome);
        }
        if self.claim.load(Ordering::Relaxed) != PENDING {
            return false;
        }
        self.claim.store(outcome, Ordering::Release);
        true
    }

    /// Returns how the wait ended, or [`PENDING`]. Acquire: it pairs with the release of the claim.
    #[inline]
    pub(crate) fn outcome(&self) -> u32 {
        self.claim.load(Ordering::Acquire)
    }

    /// Lets the owner continue.
    ///
    /// # Safety
    /// S4: the caller's claim of this waiter succeeded, the waiter has not been unparked before,
    /// and the caller does not touch it afterwards.
    #[inline]
    pub(crate) unsafe fn unpark(this: *const Waiter) {
        // SAFETY: S4: the owner's frame stays until this call has been acknowledged.
        let waiter = unsafe { &*this };
        let (owner, unpark) = (waiter.owner, waiter.unpark);
        if owner.is_null() {
            // SAFETY: S4, the caller's promise.
            unsafe { Waiter::raise(this) };
        } else {
            // SAFETY: P2: `owner` and `unpark` come from the same host, or were passed together.
            unsafe { unpark(owner) };
        }
    }

    /// Lets a thread or a listener continue.
    ///
    /// # Safety
    /// S4: the conditions are those of [`Waiter::unpark`].
    #[inline(never)]
    unsafe fn raise(this: *const Waiter) {
        // SAFETY: S4: as in `unpark`.
        let waiter = unsafe { &*this };
        if !waiter.signal.had_listener() {
            return waiter.signal.raise();
        }
        let (task, unpark) = (waiter.home, waiter.unpark);
        // SAFETY: S4, the caller's promise.
        if !unsafe { Waiter::tell(this) } {
            // SAFETY: P2: the task has parked, and it belongs to the host that the function came
            // from.
            unsafe { unpark(task) };
        }
    }

    /// Claims a waiter with [`WOKEN`] and unparks it, for waits with a single possible claimer.
    /// These have no deadline and cannot be interrupted, so only the holder of the pointer can end
    /// them.
    ///
    /// # Safety
    /// S4: the wait is of that kind and has not been woken before, and the caller does not touch
    /// the waiter afterwards.
    pub(crate) unsafe fn wake(this: *const Waiter) {
        // SAFETY: S4: the owner's frame stays until the unpark below.
        let claimed = unsafe { &*this }.claim(WOKEN);
        debug_assert!(claimed, "a wait that cannot be interrupted was claimed before");
        // SAFETY: S4: this call has just won the claim.
        unsafe { Waiter::unpark(this) };
    }

    /// Waits until the waiter has been claimed and unparked. Returns the outcome. For a task,
    /// `deadline` and, as `mode` says, a cancellation also end the wait. For a thread only
    /// `deadline` does.
    ///
    /// After [`TIMED_OUT`] or [`CANCELLED`] the caller takes the waiter out of the lists in which
    /// it is registered.
    #[inline(always)] // for the same reason as in `task::wait`
    pub(crate) fn park(&self, deadline: Option<Instant>, mode: Mode) -> u32 {
        match host() {
            Some(host) if !self.owner.is_null() || self.signal.had_listener() => {
                (host.park)(self, deadline, mode)
            }
            _ => self.block(deadline),
        }
        self.outcome()
    }

    /// Blocks the thread.
    #[cold]
    fn block(&self, deadline: Option<Instant>) {
        let host = host();
        if let Some(host) = host {
            (host.blocks)(true);
        }
        // Waking a thread that sleeps on another core takes twenty times as long as this loop.
        let mut round = 0;
        while cfg!(not(loom)) && round < LOOKS_BEFORE_SLEEP && !self.signal.is_raised() {
            hint::spin_loop();
            round += 1;
        }
        if !self.signal.wait(deadline) && !self.claim(TIMED_OUT) {
            // The waiter was claimed at the last moment, so an unpark will follow.
            self.signal.wait(None);
        }
        if let Some(host) = host {
            (host.blocks)(false);
        }
    }
}

/// How often a thread checks whether it has been woken before it sleeps, which takes about ten
/// microseconds. It does not yield its core meanwhile. On a busy machine each yield may cost it a
/// time slice, a hundred times as much as sleeping and being woken.
const LOOKS_BEFORE_SLEEP: u32 = 1024;

#[cfg(all(test, loom))]
impl Waiter {
    /// Marks the end of the frame. loom objects if another thread's access is not ordered before
    /// this.
    pub(crate) fn gone(&mut self) {
        self.claim.with_mut(|_| ());
        self.signal.gone();
    }
}

unsafe fn nobody(_: *const ()) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CANCELLED, Mode, TIMED_OUT, WOKEN, Waiter};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_is_woken_by_the_winner_of_the_claim() {
        let waiter = Waiter::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(waiter.claim(WOKEN));
                assert!(!waiter.claim(CANCELLED));
                // SAFETY: S4: the claim above succeeded and this is the last access.
                unsafe { Waiter::unpark(&raw const waiter) };
            });
            assert_eq!(waiter.park(None, Mode::Cancellable), WOKEN);
        });
    }

    #[test]
    fn a_deadline_ends_the_wait_of_a_thread_and_never_early() {
        let waiter = Waiter::new();
        let deadline = Instant::now() + Duration::from_millis(3);
        assert_eq!(waiter.park(Some(deadline), Mode::Cancellable), TIMED_OUT);
        assert!(Instant::now() >= deadline);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
