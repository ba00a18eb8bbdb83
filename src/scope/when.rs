//! Tasks that begin when there is something for them: [`Scope::spawn_when`](crate::Scope::spawn_when).
//!
//! # Parts
//! - The task: a box that its scope counts, like that of any child, and that is in no queue. Its body takes the item out of a slot.
//! - The wait: for an item of the source, on the heap, without a parked task ([`Pending`]). It puts the item into the slot.
//! - The hook: a node of the cancel tree below the task's own. A request to the task withdraws the wait.
//! - The entry: shows the task to those who look at the run, see [`super::waiting`]. It is there before the wait starts, and leaves before
//!   the task is queued.
//!
//! # Protocol
//! The wait ends once, with an item, a panic, or because it was withdrawn. Then the source is dropped, the hook is taken out of the
//! tree, and the task is queued. The task takes what is in the slot. If that is nothing it has been cancelled.
//!
//! A hook that a canceller has claimed is still in use by that thread, so the tree cannot be left before the hook has run:
//!
//! ```text
//!   WAITING --- claimed by a canceller ---> RUNNING --- it has run ---> OVER
//!      |                                       |                         |
//!      | the wait ends                         | the wait ends           | the wait ends
//!      v                                       v                         v
//!     OVER: queues the task                   LEFT --- it has run ---> queues the task
//! ```
//!
//! # Soundness
//! S5: source and body may borrow what lives as long as the scope. The wait has the source as a `'static` one. The scope does not
//! end before the task, the task is queued after the source was dropped, and only the end of the wait queues it. What then
//! remains of the wait owns nothing of the user's.
#![expect(unsafe_code, reason = "erases the lifetime of a source that a scope outlives")]

use std::any::{self, Any};
use std::mem;
use std::panic::Location;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::builder::Options;
use super::core::{ScopeCore, Start, refuse_to_spawn};
use super::join::JoinHandle;
use super::waiting::Entry;
use crate::base::sync::atomic::Ordering;
use crate::sched::{self, Remote};
use crate::source::{End, Finish, Pending, Source};
use crate::task::cancel::{self, HookNode};
use crate::task::{self, Body, Failure, Header};

/// The wait has ended while the hook was running. The thread that runs the hook queues the task.
const LEFT: u32 = 3;

/// What the wait has brought.
type Brought<T> = Result<T, Box<dyn Any + Send>>;

/// Where the wait puts it for the task.
struct Slot<T>(Mutex<Option<Brought<T>>>);

impl<T> Slot<T> {
    fn put(&self, brought: Brought<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(brought);
    }

    fn take(&self) -> Option<Brought<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The part of a [`Slot`] that does not depend on the item.
trait PutPanic: Send + Sync {
    fn put_panic(&self, payload: Box<dyn Any + Send>);
}

impl<T: Send> PutPanic for Slot<T> {
    fn put_panic(&self, payload: Box<dyn Any + Send>) {
        self.put(Err(payload));
    }
}

/// The body of the task.
struct WhenBody<T, M> {
    slot: Arc<Slot<T>>,
    make: M,
}

impl<T, B: Body, M: FnOnce(T) -> B> Body for WhenBody<T, M> {
    type Output = B::Output;

    fn run(self) -> Result<B::Output, Failure> {
        match self.slot.take() {
            Some(Ok(item)) => (self.make)(item).run(),
            Some(Err(payload)) => {
                // `run` must not unwind, and this may be the second panic.
                task::drop_quietly(self.make);
                Err(Failure::Panicked(payload))
            }
            None => Err(task::dropped(self.make)),
        }
    }
}

/// A task that waits for its item.
#[repr(C)]
struct When {
    /// First, so that a pointer to the hook's node is one to all of it.
    hook: HookNode,
    /// Has the queue's reference to the task.
    entry: Entry,
    remote: Remote,
    wait: OnceLock<Pending>,
    slot: *const dyn PutPanic,
}

// SAFETY: S5/T1: the task and the slot stay until the task has been queued; both are used by one thread at a time, by the protocol.
unsafe impl Send for When {}
// SAFETY: S5/T1, as above.
unsafe impl Sync for When {}

impl When {
    /// Queues the task.
    ///
    /// # Safety
    /// T1: once, after the wait has ended and its source was dropped, while no hook runs and none can be started.
    unsafe fn queue(&self) {
        // SAFETY: L3: it was entered before the wait could end, and leaves once.
        unsafe { self.entry.leave() };
        // K1: the task has not ended, so the parent of the node is there.
        cancel::unlink(&self.hook.node);
        let task = self.entry.task;
        // SAFETY: T1: it was in no queue until now.
        if !unsafe { sched::spawn(task, self.entry.pool) } {
            // SAFETY: T1: as above. Its scope waits for it, and the run for its scope.
            unsafe { self.remote.spawn(task) };
        }
    }
}

/// What is done when the wait has ended.
struct Deliver(Arc<When>);

impl Finish<()> for Deliver {
    fn finish(self, end: End<()>, drop_source: &mut dyn FnMut()) {
        if let End::Panicked(payload) = end {
            // SAFETY: S5: the task has not been queued, and its body owns the slot.
            unsafe { &*self.0.slot }.put_panic(payload);
        }
        drop_source();
        let state = &self.0.hook.state;
        let end = |from, to| {
            state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if !end(HookNode::WAITING, HookNode::OVER) && end(HookNode::RUNNING, LEFT) {
            // The hook has this reference now.
            let _reference = Arc::into_raw(self.0);
            return;
        }
        // SAFETY: T1: the wait ends once, its source is gone, and the hook is over.
        unsafe { self.0.queue() };
    }
}

/// Runs the hook of a claimed node.
///
/// # Safety
/// K3: the node is the first field of a `When`, which stays until the state is [`HookNode::OVER`].
unsafe fn run_hook(node: *const HookNode) {
    let when = node.cast::<When>();
    {
        // SAFETY: K3: the reference of `Deliver` stays until the state is changed below.
        let when = unsafe { &*when };
        if let Some(wait) = when.wait.get() {
            wait.withdraw();
        }
        let ran = when.hook.state.compare_exchange(
            HookNode::RUNNING,
            HookNode::OVER,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if ran.is_ok() {
            return;
        }
    }
    // SAFETY: K3: left by `Deliver`, with its reference.
    let when = unsafe { Arc::from_raw(when) };
    // SAFETY: T1: the wait has ended, its source is gone, and the hook has run.
    unsafe { when.queue() };
}

impl ScopeCore {
    /// Makes a task of what `make` makes of an item of `source`, which is queued when there is one.
    #[track_caller]
    pub(super) fn spawn_when<'scope, S, B, M>(
        &self,
        source: S,
        make: M,
    ) -> JoinHandle<'scope, B::Output>
    where
        S: Source + Send + 'scope,
        S::Item: Send + 'scope,
        M: FnOnce(S::Item) -> B,
        B: Body,
    {
        let slot = Arc::new(Slot(Mutex::new(None)));
        let taken = Arc::clone(&slot);
        let source = source.map(move |item| taken.put(Ok(item)));
        let slot_of_panics: *const Slot<S::Item> = Arc::as_ptr(&slot);
        // It begins even if it is cancelled, so that an item that was taken is not lost.
        let options = Options { always_begins: true, ..Options::default() };
        let task = self.allocate(WhenBody { slot, make }, options, Location::caller());
        // SAFETY: T1: a new task. S5: the source is `Send`, lives as long as the scope, and the slot belongs to the task.
        unsafe { self.begin_when(task, Box::new(source), slot_of_panics, any::type_name::<S>()) };
        // SAFETY: T2: the handle's reference.
        unsafe { JoinHandle::new(task) }
    }

    /// The part that does not depend on the types.
    ///
    /// # Safety
    /// T1: the task is new, always begins, and its queue's reference is given away. S5: the source lives as long as the scope, and
    /// the slot as long as the task's body.
    unsafe fn begin_when<'scope>(
        &self,
        task: *const Header,
        source: Box<dyn Source<Item = ()> + Send + 'scope>,
        slot: *const (dyn PutPanic + 'scope),
        kind: &'static str,
    ) {
        let pool =
            sched::current_pool().filter(|pool| ptr::eq(Arc::as_ptr(pool).cast(), self.pool));
        let Some(pool) = pool else {
            task::drop_quietly(source);
            refuse_to_spawn(task, Start::Anywhere);
        };
        // SAFETY: S5: dropped before the task is queued, for which the scope waits.
        let source = unsafe {
            mem::transmute::<
                Box<dyn Source<Item = ()> + Send + 'scope>,
                Box<dyn Source<Item = ()> + Send>,
            >(source)
        };
        // SAFETY: S5: used before the task is queued.
        let slot =
            unsafe { mem::transmute::<*const (dyn PutPanic + 'scope), *const dyn PutPanic>(slot) };
        // SAFETY: T1: the task lives until it has been queued.
        let node = unsafe { &raw const (*task).node };
        let when = Arc::new(When {
            hook: HookNode::new(ptr::null(), ptr::null(), run_hook),
            entry: Entry::new(task, self.pool, kind),
            remote: Remote::new(&pool),
            wait: OnceLock::new(),
            slot,
        });
        let wait = when.wait.get_or_init(|| Pending::new(source, Deliver(Arc::clone(&when))));
        // SAFETY: L3: it stays in its place in `when` until `queue`, which makes it leave before it queues the task.
        unsafe { when.entry.enter() };
        // From now on a request runs the hook. One that has come already runs it here.
        // SAFETY: K1: the node stays in its place in `when` until `queue` unlinks it, and its parent is the task's, which is there
        // when it is linked and until it is unlinked.
        unsafe { cancel::hang(&when.hook.node, node) };
        wait.start();
    }
}
