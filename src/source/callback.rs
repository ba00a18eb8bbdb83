//! Callbacks: functions that are called with an item when there is one.
//!
//! # Protocol
//! Three threads may come at the same time: the one that drops the subscription, the one that ends
//! the wait, and the one that sets the wait up. Each *pokes*: it adds one to `pokes`. The thread
//! that finds `pokes` at zero is *at work* until it has taken off all pokes that came meanwhile.
//! The other threads leave the work to it. So one thread at a time has the source and the callback,
//! and no thread waits. It finds out what to do by looking: has the wait been withdrawn, and has
//! its bell rung?
//!
//! # Callbacks in callbacks
//! A callback may end other waits, for instance by a send, and may subscribe and withdraw. If each
//! such call ran the next callback, a chain of callbacks would be as deep on the stack as it is
//! long. So only the outermost poke of a thread (its [`Nest`]) runs user code:
//!
//! | call in a nest | at once | in the outermost call, once user code has returned |
//! |---|---|---|
//! | the bell rings | nothing | the whole poke |
//! | `start` | looks for an item, or registers | the callback, if there was an item |
//! | `withdraw` | takes the registrations out of their lists | drops the source and the callback |
//!
//! A wait with a callback that is put off stays at work: its `pokes` are not zero, so pokes from
//! other threads leave it alone. The outermost call returns when its list is empty.
#![expect(unsafe_code, reason = "one thread at a time has what is in it")]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;

use super::standing::{Bell, SetUp, Standing, set_up};
use super::traits::Source;
use crate::base::local;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::sync::{is_asking_anything, put_off_until_unlocked};
use crate::coroutine::OpenFrame;
use crate::park::no_suspend;
use crate::task::drop_quietly;

/// A callback that waits for an item, from [`Source::on_ready`]. Dropping this value withdraws the
/// callback.
///
/// If the callback is already running, on another thread or further out on this one, it runs to its
/// end, and the drop does not wait for that. A callback that has its item, and waits only for the
/// callback in which this value is dropped to return, also runs. In all other cases a withdrawn
/// callback never runs, and nothing has been taken. Forgetting the value leaves the callback in
/// place. [`detach`](Subscription::detach) does the same without a leak.
///
/// # Examples
/// ```
/// use ecru::{Source, channel};
///
/// let (sender, receiver) = channel::unbounded();
/// let subscription = receiver.clone().on_ready(|_| unreachable!("it is withdrawn"));
/// drop(subscription);
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[must_use = "dropping it withdraws the callback; use `detach` to leave it in place"]
pub struct Subscription {
    shared: Option<Arc<dyn Withdraw>>,
}

impl Subscription {
    /// Leaves the callback in place. It runs when there is an item.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Source, channel};
    ///
    /// let (sender, receiver) = channel::bounded(0);
    /// let (tell, told) = channel::oneshot();
    /// receiver.on_ready(move |item: Result<u32, _>| tell.try_send(item).unwrap()).detach();
    /// sender.send(7).unwrap();
    /// assert_eq!(told.recv(), Ok(Ok(7)));
    /// ```
    pub fn detach(mut self) {
        self.shared = None;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.withdraw();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

/// The end of a wait without a parked task.
pub(crate) enum End<T> {
    Item(T),
    /// A user's function that the wait called has panicked.
    Panicked(Box<dyn Any + Send>),
    Withdrawn,
}

/// The code that runs when such a wait has ended.
pub(crate) trait Finish<T>: Send + 'static {
    /// Called once, under `no_suspend`, on the thread that has ended the wait. `drop_source` drops
    /// the source. If it is not called, the source is dropped afterwards. A panic is caught.
    fn finish(self, end: End<T>, drop_source: &mut dyn FnMut());
}

/// Calls a function with the item.
struct Callback<F>(F);

impl<T, F: FnOnce(T) + Send + 'static> Finish<T> for Callback<F> {
    fn finish(self, end: End<T>, _: &mut dyn FnMut()) {
        match end {
            End::Item(item) => (self.0)(item),
            End::Panicked(payload) => drop_quietly(payload),
            End::Withdrawn => {}
        }
    }
}

trait Withdraw: Send + Sync {
    fn start(self: Arc<Self>);
    fn withdraw(self: Arc<Self>);
    /// Does the work of a poke. Called only in a nest, while no user code of the nest runs.
    fn poke_put_off(self: Arc<Self>);
}

/// The work that the outermost poke of a thread does once the running user code has returned.
#[derive(Default)]
struct Nest {
    put_off: Cell<VecDeque<PutOff>>,
}

enum PutOff {
    Poke(Arc<dyn Withdraw>),
    /// Ends a wait. It owns the item, which may not be `Send`.
    End(Box<dyn FnOnce()>),
}

impl Nest {
    /// Returns the nest of the outermost poke that this thread is in.
    ///
    /// # Safety
    /// A2: the result is not used after the caller returns.
    unsafe fn current<'a>() -> Option<&'a Nest> {
        // SAFETY: A2: the cell points to an open frame of this thread.
        unsafe { local::with(|local| local.poking.get()).cast::<Nest>().as_ref() }
    }

    fn put_off(&self, what: PutOff) {
        let mut put_off = self.put_off.take();
        put_off.push_back(what);
        self.put_off.set(put_off);
    }

    /// Runs `poke` as the outermost poke, and then what was put off meanwhile.
    fn open(poke: impl FnOnce()) {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                local::with(|local| local.poking.set(ptr::null()));
            }
        }
        let nest = Nest::default();
        // A coroutine must not be left in the middle of this. Its thread would continue with a nest
        // whose work is never done.
        let _frame = OpenFrame::enter();
        let _leave = Leave;
        local::with(|local| local.poking.set((&raw const nest).cast()));
        poke();
        loop {
            let mut put_off = nest.put_off.take();
            let next = put_off.pop_front();
            nest.put_off.set(put_off);
            match next {
                Some(PutOff::Poke(shared)) => shared.poke_put_off(),
                Some(PutOff::End(end)) => end(),
                None => return,
            }
        }
    }
}

/// A wait without a parked task. It ends with an item, or when it is withdrawn, whichever comes
/// first.
pub(crate) struct Pending(Arc<dyn Withdraw>);

impl Pending {
    pub(crate) fn new<S, F>(source: S, finish: F) -> Pending
    where
        S: Source + Send + 'static,
        F: Finish<S::Item>,
    {
        Pending(Arc::new(Shared {
            pokes: AtomicUsize::new(0),
            withdrawn: AtomicBool::new(false),
            source: UnsafeCell::new(Some(source)),
            f: Cell::new(Some(finish)),
            standing: Cell::new(None),
        }))
    }

    /// Begins to wait, unless the wait has been withdrawn.
    pub(crate) fn start(&self) {
        Arc::clone(&self.0).start();
    }

    /// Ends the wait. Does nothing, and does not wait, if the wait has already ended or another
    /// thread is about to end it.
    pub(crate) fn withdraw(&self) {
        Arc::clone(&self.0).withdraw();
    }
}

struct Shared<S, F> {
    pokes: AtomicUsize,
    withdrawn: AtomicBool,
    /// `None` once the wait is over. Until then it is accessed only by shared reference, because
    /// registrations may name lists in it.
    source: UnsafeCell<Option<S>>,
    f: Cell<Option<F>>,
    standing: Cell<Option<Standing<Poke<S, F>>>>,
}

// SAFETY: A1: the thread at work has the contents alone, and all of them may be sent there.
unsafe impl<S: Send, F: Send> Sync for Shared<S, F> {}
// SAFETY: A1: the thread at work has the contents alone, and all of them may be sent there.
unsafe impl<S: Send, F: Send> Send for Shared<S, F> {}

/// The bell of a subscription's wait.
struct Poke<S, F>(Arc<Shared<S, F>>);

impl<S, F> Bell for Poke<S, F>
where
    S: Source + Send + 'static,
    F: Finish<S::Item>,
{
    fn ring(&self) {
        // SAFETY: A2: the result is not used after this.
        match unsafe { Nest::current() } {
            Some(nest) => nest.put_off(PutOff::Poke(Arc::clone(&self.0) as Arc<dyn Withdraw>)),
            None => Shared::poke(&self.0),
        }
    }
}

pub(super) fn subscribe<S, F>(source: S, f: F) -> Subscription
where
    S: Source + Send + 'static,
    F: FnOnce(S::Item) + Send + 'static,
{
    let pending = Pending::new(source, Callback(f));
    pending.start();
    Subscription { shared: Some(pending.0) }
}

impl<S, F> Withdraw for Shared<S, F>
where
    S: Source + Send + 'static,
    F: Finish<S::Item>,
{
    fn start(self: Arc<Self>) {
        Shared::poke(&self);
    }

    fn withdraw(self: Arc<Self>) {
        // Release: the thread at work sees this when it sees the poke.
        self.withdrawn.store(true, Ordering::Release);
        Shared::poke(&self);
    }

    fn poke_put_off(self: Arc<Self>) {
        if self.pokes.fetch_add(1, Ordering::AcqRel) == 0 {
            Shared::toil(&self, 1, None);
        }
        drop_quietly(self);
    }
}

impl<S, F> Shared<S, F>
where
    S: Source + Send + 'static,
    F: Finish<S::Item>,
{
    /// Reports that something has happened. AcqRel: the next thread at work sees what the thread
    /// before it did.
    ///
    /// The work takes the locks of the source's lists, and may drop a predicate. If this thread is
    /// running a predicate, it does the work once that has returned and its channel is unlocked.
    fn poke(this: &Arc<Self>) {
        if is_asking_anything() {
            let this = Arc::clone(this);
            put_off_until_unlocked(move || Shared::poke(&this));
            return;
        }
        if this.pokes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        // SAFETY: A2: the nest is that of a frame further out, which stays open until this returns.
        match unsafe { Nest::current() } {
            None => Nest::open(|| Shared::toil(this, 1, None)),
            inside => Shared::toil(this, 1, inside),
        }
    }

    /// Works until there is nothing left to do. `seen` is the number of pokes that have come so
    /// far. `inside` is present while user code of this nest runs. Then the end of the wait is put
    /// off.
    fn toil(this: &Arc<Self>, mut seen: usize, inside: Option<&Nest>) {
        loop {
            if let Some(end) = Shared::work(this) {
                if let Some(nest) = inside {
                    let this = Arc::clone(this);
                    return nest.put_off(PutOff::End(Box::new(move || {
                        no_suspend(|| this.end(end));
                        // The source is gone, so this only takes the pokes off.
                        Shared::toil(&this, seen, None);
                        drop_quietly(this);
                    })));
                }
                no_suspend(|| this.end(end));
            }
            let before = this.pokes.fetch_sub(seen, Ordering::AcqRel);
            if before == seen {
                return;
            }
            seen = before - seen;
        }
    }

    /// Does what there is to do. If the wait has ended, returns how. The caller then calls
    /// [`Shared::end`].
    fn work(this: &Arc<Self>) -> Option<End<S::Item>> {
        // SAFETY: A1: this thread is at work, and only `end` writes the source.
        let source = unsafe { &*this.source.get() }.as_ref()?;
        if this.withdrawn.load(Ordering::Acquire) {
            // This may be the thread that rang meanwhile, which has other waiters to wake.
            let given_up = || no_suspend(|| this.standing.take().map(|own| own.give_up(source)));
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(given_up)));
            Some(End::Withdrawn)
        } else {
            // The parts of this that are user code may panic.
            let advanced = || no_suspend(|| Shared::advance(this, source));
            match panic::catch_unwind(AssertUnwindSafe(advanced)) {
                Ok(item) => item.map(End::Item),
                Err(payload) => Some(End::Panicked(payload)),
            }
        }
    }

    /// Takes an item if there is one. Otherwise makes sure that the wait is registered.
    fn advance(this: &Arc<Self>, source: &S) -> Option<S::Item> {
        if let Some(standing) = this.standing.take() {
            if !standing.has_rung() {
                this.standing.set(Some(standing));
                return None;
            }
            let item = standing.finish(source);
            if item.is_some() {
                return item;
            }
        }
        // SAFETY: N1: the source stays in its place on the heap until `end`. Before that, the wait
        // is finished or given up.
        match unsafe { set_up(source, false, || Poke(Arc::clone(this))) } {
            SetUp::Ready(item) => Some(item),
            SetUp::Waits(standing) => {
                this.standing.set(Some(standing));
                None
            }
        }
    }

    /// Drops the source and the callback, even if other references to this value remain.
    fn end(&self, end: End<S::Item>) {
        let mut drop_source = || {
            // SAFETY: A1: this thread is at work, no wait is registered, and its callers do not use
            // the source after this.
            let source = unsafe { &mut *self.source.get() }.take();
            drop_quietly(source);
        };
        if let Some(f) = self.f.take() {
            let finished = || f.finish(end, &mut drop_source);
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(finished)));
        }
        drop_source();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
