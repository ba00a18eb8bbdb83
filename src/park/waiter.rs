//! The waiter: the word that decides how a wait ends, and how its owner continues. [`super::wait`]
//! builds waiters and waits with them.
#![expect(unsafe_code, reason = "unpark reaches a frame of another task or thread")]

use std::hint;
use std::mem::{self, offset_of};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::time::Instant;

use super::host::host;
use crate::base::local;
use crate::base::record::Subject;
use crate::base::sync::Signal;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::tag::Hold;

/// The wait has not been decided yet.
pub(super) const PENDING: u32 = 0;
/// The wait was cancelled.
pub(super) const CANCELLED: u32 = 1;
/// The deadline has passed.
pub(super) const TIMED_OUT: u32 = 2;
/// The wait ended with what it waited for. Larger numbers distinguish several such ends, for
/// instance the arms of a select.
pub(super) const WOKEN: u32 = 3;

/// The wait ends so that its owner looks again. Nothing has been given to it.
pub(super) const LOOK_AGAIN: u32 = u32::MAX - 2;

/// The owner gave the wait up without parking.
pub(super) const ABORTED: u32 = u32::MAX;

/// The purpose of a wait, which is shown only in reports about a stuck program.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    /// The text that follows "waits for", or "waits": see [`verb`].
    pub(crate) what: &'static str,
    pub(crate) about: About,
    /// The place of the waiting call, as far as callers are tracked.
    pub(crate) at: &'static Location<'static>,
}

/// Returns the words before the text of a wait.
pub(crate) fn verb(what: &str) -> &'static str {
    if what.starts_with("to ") { "waits" } else { "waits for" }
}

/// Returns the text that follows "waits for", and the object, of a wait with this
/// [object](super::Wait::object) and [detail](super::Wait::detail). It does not wait, and takes
/// locks only by one attempt, because their holders may run code of the user.
pub(crate) type Describe = unsafe fn(*const (), usize) -> (&'static str, About);

/// Returns the same in short, for the flight recorder. It neither allocates nor takes a lock.
pub(crate) type Brief = unsafe fn(*const (), usize) -> (&'static str, Subject);

/// What the waits of one kind are for.
#[derive(Debug)]
pub(crate) struct What {
    /// The text that follows "waits for".
    text: &'static str,
    /// Describes one wait of this kind.
    describe: Option<Describe>,
    /// Describes it in short. `None` if the text and the object's address do.
    brief: Option<Brief>,
    /// Whether a timer, the kernel or a thread may end such a wait, without any task.
    ends_by_itself: bool,
}

impl What {
    /// For debuggers: the offset of the text, as its address and its length.
    pub(crate) const TEXT: usize = offset_of!(What, text);

    pub(crate) const fn new(text: &'static str) -> What {
        What { text, describe: None, brief: None, ends_by_itself: false }
    }

    /// Creates a kind of wait that may end without any task.
    pub(crate) const fn ending_by_itself(text: &'static str) -> What {
        What { ends_by_itself: true, ..What::new(text) }
    }

    /// Creates a kind of wait with a particular object. `text` describes it in short.
    ///
    /// # Safety
    /// O1: each wait with this `What` has an object for which `describe` may be called, on the
    /// worker of the parked task, while the wait lasts.
    pub(crate) const unsafe fn about(text: &'static str, describe: Describe) -> What {
        What { describe: Some(describe), ..What::new(text) }
    }

    /// Creates a kind of wait with a particular object, which is more than an address in a short
    /// description, too. Only a debugger shows `text`.
    ///
    /// # Safety
    /// O1: as [`What::about`], for both functions.
    pub(crate) const unsafe fn about_briefly(
        text: &'static str,
        describe: Describe,
        brief: Brief,
    ) -> What {
        What { describe: Some(describe), brief: Some(brief), ..What::new(text) }
    }

    /// Creates a kind of wait with a particular object that may end without any task.
    ///
    /// # Safety
    /// O1: as [`What::about`].
    pub(crate) const unsafe fn ending_by_itself_about(
        text: &'static str,
        describe: Describe,
    ) -> What {
        What { describe: Some(describe), ..What::ending_by_itself(text) }
    }
}

/// The particular object that a wait is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Nothing,
    /// The header of a task. The frame of the wait keeps it alive.
    Task(*const ()),
    /// A file descriptor.
    Fd {
        fd: i32,
        /// The path of a file, or the socket's own address.
        name: Option<String>,
        /// The address of the other side, if it is that of a connected socket.
        peer: Option<String>,
        /// How a simulation shows the other side: with its host, and what has become of that.
        #[cfg(feature = "sim")]
        shown_peer: Option<String>,
    },
    /// A scope, by the address that its tasks know it by, and the number of tasks that are left.
    Scope(usize, u32),
    /// A point in time.
    Time(Instant),
    Object(Box<Object>),
}

/// An object that a wait is about, as a dump shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    /// The description that follows the text of the wait. It does not name the holders.
    pub(crate) text: String,
    /// The name that the program has given to the object.
    pub(crate) name: Option<String>,
    /// The tasks and threads that hold the object, as far as they are noted.
    pub(crate) holds: Vec<Hold>,
    /// Whether the wait cannot end before all holders release the object. It is not so for permits,
    /// which other tasks may release, and for readers, which may wait only behind a writer.
    pub(crate) needs_holders: bool,
    /// The number of holders, if it is known. The noted ones may be fewer.
    pub(crate) holders: Option<usize>,
    /// The numbers of senders and receivers, if the object is a channel.
    pub(crate) ends: Option<(usize, usize)>,
    /// What each handle of the object contains, if the object can be reached in no other way.
    pub(crate) handle: Option<HandleWord>,
}

/// A word that each handle of an object contains. Its complement is kept, so that a search of the
/// memory for handles does not find this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HandleWord(usize);

impl HandleWord {
    /// Returns the word in each `Arc` and `Weak` of a value. It is the address of the two counters
    /// in front of the value.
    pub(crate) fn of_shared<T>(value: *const T) -> HandleWord {
        let front = (2 * size_of::<usize>()).max(align_of::<T>());
        // This is `!(address - front)`. The word itself does not come up, not even on the stack.
        HandleWord((front - 1).wrapping_sub(value.addr()))
    }

    /// Returns the value for which `word` is the word that each handle contains.
    pub(crate) fn from_complement(word: usize) -> HandleWord {
        HandleWord(word)
    }
}

/// One wait. It lives on the stack of its owner; the module's protocol says which thread may access
/// it when. What another core writes to comes last, so that it shares a cache line with what a
/// channel puts behind it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Waiter {
    /// The purpose of the wait, with two fields for [`What::about`].
    what: &'static What,
    object: *const (),
    detail: usize,
    at: &'static Location<'static>,
    /// What a cancellation does to the wait, or `None` if it does nothing.
    pub(super) on_cancel: Option<unsafe fn(*const Waiter)>,
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
const _: () = assert!(offset_of!(Waiter, claim) == 64);

// SAFETY: S4: the claim decides which single thread may use the rest, and the owner's host allows
// `unpark` to be called from any thread.
unsafe impl Sync for Waiter {}
// SAFETY: S4: the claim decides which single thread may use the rest, and the owner's host allows
// `unpark` to be called from any thread.
unsafe impl Send for Waiter {}

impl Waiter {
    /// For debuggers: the offset of the pointer to the wait's [`What`].
    pub(crate) const WHAT: usize = offset_of!(Waiter, what);
    /// For debuggers: the offset of the object's address, or null.
    pub(crate) const OBJECT: usize = offset_of!(Waiter, object);
    /// For debuggers: the offset of the pointer to the place of the waiting call.
    pub(crate) const AT: usize = offset_of!(Waiter, at);
    /// For debuggers: the offset of 32 bits that are 0 until the wait is decided.
    pub(crate) const CLAIM: usize = offset_of!(Waiter, claim);

    /// Creates a pending wait of the current task, or of this thread if no task is running. Only
    /// [`super::wait`] calls this. `at` is the place of the waiting call.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn new(
        what: &'static What,
        object: *const (),
        detail: usize,
        at: &'static Location<'static>,
        on_cancel: Option<unsafe fn(*const Waiter)>,
    ) -> Waiter {
        Waiter {
            what,
            object,
            detail,
            at,
            on_cancel,
            home: local::with(|local| local.worker.get()),
            unpark: host().map_or(nobody as unsafe fn(*const ()), |host| host.unpark),
            // A task is running only if the thread has a host.
            owner: local::with(|local| local.task.get()),
            claim: AtomicU32::new(PENDING),
            signal: Signal::new(),
        }
    }

    /// Creates a pending wait without a parked owner. The winner of the claim calls `unpark` once,
    /// with `owner`.
    pub(super) fn with_owner(owner: NonNull<()>, unpark: unsafe fn(*const ())) -> Waiter {
        static WHAT: What = What::new("a callback or a future");
        Waiter {
            what: &WHAT,
            object: ptr::null(),
            at: Location::caller(),
            detail: 0,
            on_cancel: None,
            home: ptr::null(),
            unpark,
            owner: owner.as_ptr().cast_const(),
            claim: AtomicU32::new(PENDING),
            signal: Signal::new(),
        }
    }

    /// Returns the purpose of the wait. Called on the worker of the parked task.
    pub(crate) fn purpose(&self) -> Purpose {
        let (what, about) = match self.what.describe {
            // SAFETY: O1: the wait lasts.
            Some(describe) => unsafe { describe(self.object, self.detail) },
            None => (self.what.text, About::Nothing),
        };
        Purpose { what, about, at: self.at }
    }

    /// Returns whether a cancellation ends the wait.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.on_cancel.is_some()
    }

    /// Returns the place of the waiting call.
    pub(crate) fn at(&self) -> &'static Location<'static> {
        self.at
    }

    /// Returns the purpose in short, and the place of the waiting call. Called on the worker of the
    /// parked task.
    pub(crate) fn brief(&self) -> (&'static str, Subject, &'static Location<'static>) {
        let (what, subject) = match self.what.brief {
            // SAFETY: O1: the wait lasts.
            Some(brief) => unsafe { brief(self.object, self.detail) },
            None if self.object.is_null() => (self.what.text, Subject::Nothing),
            None => (self.what.text, Subject::Object(self.object.addr())),
        };
        (what, subject, self.at)
    }

    /// Returns whether a timer, the kernel or a thread may end the wait, without any task.
    pub(crate) fn may_end_by_itself(&self) -> bool {
        self.what.ends_by_itself
    }

    /// Makes the waiter of a task listen before it parks. Returns whether it will. The caller then
    /// registers the waiter, calls [`Waiter::listen`], and parks only if that returns false.
    #[cold]
    pub(super) fn become_listener(&mut self) -> bool {
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

    /// Listens for a moment, while the task keeps its core. Returns whether the wait is over. If it
    /// is not, the running task must park, like that of any other waiter.
    #[inline]
    pub(super) fn listen(&self) -> bool {
        if let Some(host) = host() {
            (host.listen)(self);
        }
        !self.signal.leave()
    }

    /// Lets a listener continue if it still listens. Returns whether it does. If this returns
    /// false, the caller must unpark the listener.
    ///
    /// # Safety
    /// S4: the conditions are those of [`Waiter::unpark`]. If the result is true, this was the last
    /// access to the waiter.
    #[inline]
    pub(super) unsafe fn release_listener(this: *const Waiter) -> bool {
        // SAFETY: S4: the owner's frame stays until this exchange, or until the task has been
        // unparked.
        unsafe { &(*this).signal }.raise_if_heard()
    }

    /// Claims the waiter: decides how the wait ends. Returns false if that has already been
    /// decided.
    ///
    /// The CAS is AcqRel. By the acquire, the winner sees what the owner wrote before it
    /// registered. By the release, the outcome that [`Waiter::outcome`] reads with acquire brings
    /// along what the winner wrote before.
    #[inline]
    pub(super) fn claim(&self, outcome: u32) -> bool {
        debug_assert_ne!(outcome, PENDING);
        self.claim.compare_exchange(PENDING, outcome, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Claims the waiter like [`Waiter::claim`], for a wait that can be ended only by its task's
    /// own worker and by the holder of one certain lock, which the caller holds. If the caller runs
    /// on that worker, it has no rival. Then an atomic exchange is saved, which takes six
    /// nanoseconds: the lock orders this claim among those of other lock holders, and the worker's
    /// own claims are made by this thread.
    #[inline]
    pub(super) fn claim_in_line(&self, outcome: u32) -> bool {
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
    pub(super) fn outcome(&self) -> u32 {
        self.claim.load(Ordering::Acquire)
    }

    /// Lets the owner continue.
    ///
    /// # Safety
    /// S4: the caller's claim of this waiter succeeded, the waiter has not been unparked before,
    /// and the caller does not touch it afterwards.
    #[inline]
    pub(super) unsafe fn unpark(this: *const Waiter) {
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
        // SAFETY: S4: the owner's frame stays until this call has been acknowledged.
        let waiter = unsafe { &*this };
        if !waiter.signal.had_listener() {
            return waiter.signal.raise();
        }
        let (task, unpark) = (waiter.home, waiter.unpark);
        // SAFETY: S4, the caller's promise.
        if !unsafe { Waiter::release_listener(this) } {
            // SAFETY: P2: the task has parked, and it belongs to the host that the function came
            // from.
            unsafe { unpark(task) };
        }
    }

    /// Blocks the thread until the waiter has been claimed and unparked, or until the deadline. When
    /// that has come, `deadline` is asked again, because it may have been moved.
    pub(super) fn block(&self, deadline: &dyn Fn() -> Option<Instant>) {
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
        let mut until = deadline();
        while !self.signal.wait(until) {
            let moved = deadline();
            if moved.is_none() || moved > until {
                until = moved;
                continue;
            }
            if !self.claim(TIMED_OUT) {
                // The waiter was claimed at the last moment, so an unpark will follow.
                self.signal.wait(None);
            }
            break;
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
impl Drop for Waiter {
    /// Marks the end of the frame. loom objects if another thread's access is not ordered before
    /// this.
    fn drop(&mut self) {
        self.claim.with_mut(|_| ());
        self.signal.gone();
    }
}

unsafe fn nobody(_: *const ()) {}

#[cfg(all(test, loom))]
mod loom_models;
