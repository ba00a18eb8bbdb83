//! Tasks that begin when an item arrives for them: [`Scope::spawn_when`](crate::Scope::spawn_when).
//!
//! # Parts
//! - The task is a box that its scope counts, like that of any child, but it is in no queue. Its
//!   body takes the item out of a [`ResultSlot`].
//! - The wait for an item of the source is on the heap and parks no task ([`Pending`]). It puts the
//!   item into the slot.
//! - The hook is a node of the cancel tree below the task's own node. A request to cancel the task
//!   withdraws the wait.
//! - The entry shows the task in reports about the run: see [`super::waiting`]. It is entered
//!   before the wait starts, and leaves before the task is queued.
//!
//! # Protocol
//! The wait ends once: with an item, with a panic, or because it was withdrawn. Then the source is
//! dropped, the hook is taken out of the tree, and the task is queued. The task takes what is in
//! the slot. If the slot is empty, the task has been cancelled.
//!
//! A hook that a canceller has claimed is still in use by that thread, so it cannot leave the tree
//! before it has run:
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
//! S5: source and body may borrow what lives as long as the scope. The wait keeps the source as if
//! it were `'static`. The scope does not end before the task. The task is queued only by the end of
//! the wait, after the source was dropped. What then remains of the wait owns nothing that belongs
//! to the user.
#![expect(unsafe_code, reason = "erases the lifetime of a source that a scope outlives")]

use std::any::{self, Any};
use std::mem;
use std::panic::Location;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::core::{ScopeCore, refuse_to_spawn};
use super::join::JoinHandle;
use super::options::{Options, Start};
use super::waiting::WaitingTask;
use crate::base::sync::atomic::Ordering;
use crate::sched::{self, Remote};
use crate::source::{End, Finish, Pending, Source};
use crate::task::cancel::{self, HookNode};
use crate::task::{self, Body, Failure, Header, Work};

/// The wait has ended while the hook was running. The thread that runs the hook queues the task.
const LEFT: u32 = 3;

/// The result of the wait: an item, or the payload of a panic.
type Brought<T> = Result<T, Box<dyn Any + Send>>;

/// The place where the wait stores its result for the task.
struct ResultSlot<T>(Mutex<Option<Brought<T>>>);

impl<T> ResultSlot<T> {
    fn put(&self, brought: Brought<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(brought);
    }

    fn take(&self) -> Option<Brought<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The part of a [`ResultSlot`] that does not depend on the item.
trait PutPanic: Send + Sync {
    fn put_panic(&self, payload: Box<dyn Any + Send>);
}

impl<T: Send> PutPanic for ResultSlot<T> {
    fn put_panic(&self, payload: Box<dyn Any + Send>) {
        self.put(Err(payload));
    }
}

/// The body of the task.
struct WhenBody<T, M> {
    slot: Arc<ResultSlot<T>>,
    make: M,
}

impl<T, B: Body, M: FnOnce(T) -> B> Work for WhenBody<T, M> {
    type Output = B::Output;
}

impl<T, B: Body, M: FnOnce(T) -> B> Body for WhenBody<T, M> {
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
    /// The first field, so that a pointer to the hook's node is also one to the `When`.
    hook: HookNode,
    /// The entry, which has the queue's reference to the task.
    entry: WaitingTask,
    remote: Remote,
    wait: OnceLock<Pending>,
    slot: *const dyn PutPanic,
}

// SAFETY: S5/T1: the task and the slot stay until the task has been queued. By the protocol, one
// thread at a time uses them.
unsafe impl Send for When {}
// SAFETY: S5/T1: the task and the slot stay until the task has been queued. By the protocol, one
// thread at a time uses them.
unsafe impl Sync for When {}

impl When {
    /// Queues the task.
    ///
    /// # Safety
    /// T1: this is called once, after the wait has ended and its source was dropped, while no hook
    /// runs and none can be started.
    unsafe fn queue(&self) {
        // SAFETY: L3: the entry was entered before the wait could end, and leaves once.
        unsafe { self.entry.leave() };
        // K1: the task has not ended, so the node's parent exists.
        cancel::unlink(&self.hook.node);
        let task = self.entry.task;
        // SAFETY: T1: the task was in no queue until now.
        if !unsafe { sched::spawn_only(task, self.entry.pool) } {
            // SAFETY: T1: the task lives. Its scope waits for it, and the run waits for the scope.
            unsafe { self.remote.spawn(task) };
        }
    }
}

/// The code that runs when the wait has ended.
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
            // The hook owns this reference now.
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
    // SAFETY: K3: `Deliver` left this reference for the hook.
    let when = unsafe { Arc::from_raw(when) };
    // SAFETY: T1: the wait has ended, its source is gone, and the hook has run.
    unsafe { when.queue() };
}

impl ScopeCore {
    /// Spawns a task that is queued once `source` has an item. It runs what `make` makes of the
    /// item.
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
        let slot = Arc::new(ResultSlot(Mutex::new(None)));
        let taken = Arc::clone(&slot);
        let source = source.map(move |item| taken.put(Ok(item)));
        let slot_of_panics: *const ResultSlot<S::Item> = Arc::as_ptr(&slot);
        // The task begins even if it is cancelled, so that an item that was taken is not lost.
        let options = Options { always_begins: true, ..Options::default() };
        let task = self.allocate(WhenBody { slot, make }, options, Location::caller());
        // SAFETY: T1: no other thread knows the task yet.
        unsafe { task::announce(task) };
        // SAFETY: T1: the task is new. S5: the source is `Send` and lives as long as the scope, and
        // the slot belongs to the task.
        unsafe { self.begin_when(task, Box::new(source), slot_of_panics, any::type_name::<S>()) };
        // SAFETY: T2: this is the handle's reference.
        unsafe { JoinHandle::new(task) }
    }

    /// Does the part of `spawn_when` that does not depend on the types.
    ///
    /// # Safety
    /// T1: the task is new, always begins, and its queue's reference is given away. S5: the source
    /// lives as long as the scope, and the slot as long as the task's body.
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
        // SAFETY: S5: the source is dropped before the task is queued, and the scope waits for the
        // task.
        let source = unsafe {
            mem::transmute::<
                Box<dyn Source<Item = ()> + Send + 'scope>,
                Box<dyn Source<Item = ()> + Send>,
            >(source)
        };
        // SAFETY: S5: the slot is used before the task is queued.
        let slot =
            unsafe { mem::transmute::<*const (dyn PutPanic + 'scope), *const dyn PutPanic>(slot) };
        // SAFETY: T1: the task lives until it has been queued.
        let node = unsafe { &raw const (*task).node };
        let when = Arc::new(When {
            hook: HookNode::new(ptr::null(), ptr::null(), run_hook),
            entry: WaitingTask::new(task, self.pool, kind),
            remote: Remote::new(&pool),
            wait: OnceLock::new(),
            slot,
        });
        let wait = when.wait.get_or_init(|| Pending::new(source, Deliver(Arc::clone(&when))));
        // SAFETY: L3: the entry stays in its place in `when` until `queue`, which makes it leave
        // before it queues the task.
        unsafe { when.entry.enter() };
        // From now on a request runs the hook. If a request has already come, the hook runs here.
        // SAFETY: K1: the node stays in its place in `when` until `queue` unlinks it. Its parent is
        // the node of the task, which exists when this one is linked and until it is unlinked.
        unsafe { cancel::hang(&when.hook.node, node) };
        wait.start();
    }
}
