//! Callbacks: what is to be done with an item when there is one.
//!
//! # Protocol
//! A subscription, whoever ends its wait, and whoever set that up may come at the same time, from three threads. Each *pokes*: it
//! adds one to `pokes`. Who finds it at zero is at work until he has taken off all that came meanwhile; everybody else leaves the
//! work to him. So one thread at a time has the source and the callback, nobody waits, and what there is to do is found out by
//! looking: has it been withdrawn, has it rung?
//!
//! # Callbacks in callbacks
//! A callback may end other waits, by a send for instance, and may subscribe and withdraw. If each such call ran the next callback, a
//! chain of callbacks would be as deep on the stack as it is long. So only the outermost poke of a thread (its [`Nest`]) runs user code:
//!
//! | call in a nest | at once | when the running user code has returned, in the outermost call |
//! |---|---|---|
//! | the bell rings | nothing | the whole poke |
//! | `start` | looks for an item, or registers | the callback, if there was an item |
//! | `withdraw` | takes the registrations out of their lists | the source and the callback are dropped |
//!
//! What is put off stays at work (its `pokes` are not zero), so pokes from other threads leave it alone. The outermost call returns when
//! its list is empty.
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

/// A callback that waits for an item: from [`Source::on_ready`]. Dropping it withdraws the callback.
///
/// If the callback is running, on another thread or further out on this one, it runs to its end, and dropping does not wait for that.
/// The same holds for one that has its item, and runs when the callback in which this is dropped has returned.
/// Otherwise it never runs, and nothing has been taken. Forgetting the value leaves the callback in place; so does
/// [`detach`](Subscription::detach), without leaking anything.
#[must_use = "dropping it withdraws the callback; use `detach` to leave it in place"]
pub struct Subscription {
    shared: Option<Arc<dyn Withdraw>>,
}

impl Subscription {
    /// Leaves the callback in place: it runs when there is an item.
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

/// How a wait without a parked task has ended.
pub(crate) enum End<T> {
    Item(T),
    /// A function of the user's that the wait called has panicked.
    Panicked(Box<dyn Any + Send>),
    Withdrawn,
}

/// What is done when such a wait has ended.
pub(crate) trait Finish<T>: Send + 'static {
    /// Called once, under `no_suspend`, on the thread that has ended the wait. `drop_source` drops the source, which is dropped
    /// afterwards in any case. A panic goes no further.
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
    /// Does the work of a poke. Only in a nest, when no user code of the nest runs.
    fn poke_put_off(self: Arc<Self>);
}

/// What the outermost poke of a thread still has to do, when the user code that it runs has returned.
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
    /// The nest of the outermost poke that this thread is in.
    ///
    /// # Safety
    /// A2: the result is not used any more when the caller returns.
    unsafe fn current<'a>() -> Option<&'a Nest> {
        // SAFETY: A2: the cell names a frame of this thread that is open.
        unsafe { local::with(|local| local.poking.get()).cast::<Nest>().as_ref() }
    }

    fn put_off(&self, what: PutOff) {
        let mut put_off = self.put_off.take();
        put_off.push_back(what);
        self.put_off.set(put_off);
    }

    /// Runs `poke` as the outermost one, and then what was put off meanwhile.
    fn open(poke: impl FnOnce()) {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                local::with(|local| local.poking.set(ptr::null()));
            }
        }
        let nest = Nest::default();
        // A coroutine must not be left in the middle of this: its thread would go on with a nest that nobody works off.
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

/// A wait without a parked task. It ends with an item, or when it is withdrawn, whichever comes first.
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

    /// Ends the wait. If it has ended already, or another thread is about to end it, this does nothing and does not wait.
    pub(crate) fn withdraw(&self) {
        Arc::clone(&self.0).withdraw();
    }
}

struct Shared<S, F> {
    pokes: AtomicUsize,
    withdrawn: AtomicBool,
    /// None: it is over. Not touched but by shared reference until then: registrations may name lists in it.
    source: UnsafeCell<Option<S>>,
    f: Cell<Option<F>>,
    standing: Cell<Option<Standing<Poke<S, F>>>>,
}

// SAFETY: A1: whoever is at work has what is in it alone, and all of it may be sent there.
unsafe impl<S: Send, F: Send> Sync for Shared<S, F> {}
// SAFETY: A1: as above.
unsafe impl<S: Send, F: Send> Send for Shared<S, F> {}

/// The bell of a subscription's wait.
struct Poke<S, F>(Arc<Shared<S, F>>);

impl<S, F> Bell for Poke<S, F>
where
    S: Source + Send + 'static,
    F: Finish<S::Item>,
{
    fn ring(&self) {
        // SAFETY: A2: not used after this.
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
        // Release: seen by whoever is at work and sees the poke.
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
    /// Something has happened. AcqRel: who is at work next sees what was done by who was before.
    ///
    /// The work takes the locks of the source's lists, and may drop a predicate. If this thread runs a predicate, it works when that has returned and
    /// its channel is unlocked.
    fn poke(this: &Arc<Self>) {
        if is_asking_anything() {
            let this = Arc::clone(this);
            put_off_until_unlocked(move || Shared::poke(&this));
            return;
        }
        if this.pokes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        // SAFETY: A2: the nest is that of a frame further out, which stays open until this has returned.
        match unsafe { Nest::current() } {
            None => Nest::open(|| Shared::toil(this, 1, None)),
            inside => Shared::toil(this, 1, inside),
        }
    }

    /// Works until there is nothing left to do. `seen`: the pokes that have come so far. `inside`: user code of this nest is running, so the
    /// end of the wait is put off.
    fn toil(this: &Arc<Self>, mut seen: usize, inside: Option<&Nest>) {
        loop {
            if let Some(end) = Shared::work(this) {
                if let Some(nest) = inside {
                    let this = Arc::clone(this);
                    return nest.put_off(PutOff::End(Box::new(move || {
                        no_suspend(|| this.end(end));
                        // The source is gone: this takes the pokes off.
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

    /// Does what there is to do. Returns how the wait has ended, if it has: then [`Shared::end`] is to be called.
    fn work(this: &Arc<Self>) -> Option<End<S::Item>> {
        // SAFETY: A1: this thread is at work; it is written in `end` only.
        let source = unsafe { &*this.source.get() }.as_ref()?;
        if this.withdrawn.load(Ordering::Acquire) {
            // This may be the thread of whoever rang meanwhile, who has others to wake.
            let given_up = || no_suspend(|| this.standing.take().map(|own| own.give_up(source)));
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(given_up)));
            Some(End::Withdrawn)
        } else {
            // What of this is the user's may panic.
            let advanced = || no_suspend(|| Shared::advance(this, source));
            match panic::catch_unwind(AssertUnwindSafe(advanced)) {
                Ok(item) => item.map(End::Item),
                Err(payload) => Some(End::Panicked(payload)),
            }
        }
    }

    /// Fetches an item if there is one, and otherwise sees to it that the wait stands.
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
        // SAFETY: N1: the source stays in its place on the heap until `end`, before which the wait is finished or given up.
        match unsafe { set_up(source, false, || Poke(Arc::clone(this))) } {
            SetUp::Ready(item) => Some(item),
            SetUp::Waits(standing) => {
                this.standing.set(Some(standing));
                None
            }
        }
    }

    /// It is over: the source and the callback go now, whoever still has a reference.
    fn end(&self, end: End<S::Item>) {
        let mut drop_source = || {
            // SAFETY: A1: this thread is at work, no wait stands, and its callers do not use the source after this.
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
