//! The tasks that wait for their items without a stack, listed for reports about a run that is
//! stuck.
//!
//! Such a task is in no queue and on no worker, so no worker can report it. Its wait is in one of
//! [`SHARDS`] lists of the process, from before it starts until it queues the task. Any thread may
//! look at the lists. The address of the wait decides which list it is in. So workers that begin
//! and end waits at the same time rarely need the same lock.
//!
//! While a shard is locked, no task in it can be queued. So each task in it exists, and so do its
//! scope and the task that opened the scope.
#![expect(unsafe_code, reason = "keeps tasks in intrusive lists")]

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::list::{Link, Pile};
use crate::task::Header;

const SHARDS: usize = 64;

/// One list, on a cache line of its own.
#[repr(align(64))]
struct Shard(Mutex<Members>);

struct Members(Pile);

// SAFETY: L3: the links are used under the lock of the shard.
unsafe impl Send for Members {}

static LISTS: [Shard; SHARDS] = [const { Shard(Mutex::new(Members(Pile::new()))) }; SHARDS];

/// A task that waits for its item. It is a part of the wait.
#[derive(Debug)]
#[repr(C)]
pub(super) struct WaitingTask {
    /// The first field, so that a pointer to the link is also one to the entry.
    link: Link,
    pub(super) task: *const Header,
    /// The pool that the task is to run on.
    pub(super) pool: *const (),
    /// The type of the source that the task waits for.
    source: &'static str,
}

impl WaitingTask {
    pub(super) fn new(task: *const Header, pool: *const (), source: &'static str) -> WaitingTask {
        WaitingTask { link: Link::new(), task, pool, source }
    }

    fn list(&self) -> MutexGuard<'static, Members> {
        // The upper bits of a product by the golden ratio depend on all bits of the address.
        let mixed = (ptr::from_ref(self).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &LISTS[(mixed >> 58) as usize];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the task to [`each_waiting`].
    ///
    /// # Safety
    /// L3: the entry is in no list, and stays until [`WaitingTask::leave`]. T1: the task is not
    /// queued before that.
    pub(super) unsafe fn enter(&self) {
        // SAFETY: L3: the caller's promise; the shard is locked.
        unsafe { self.list().0.push(&raw const self.link) };
    }

    /// Hides the task again.
    ///
    /// # Safety
    /// L3: the entry is in its list.
    pub(super) unsafe fn leave(&self) {
        // SAFETY: L3: the caller's promise; the shard is locked.
        unsafe { self.list().0.remove(&raw const self.link) };
    }
}

/// Calls `each` for the tasks of a pool that wait for their items, with the type of the source.
/// `each` runs under a lock: it must be short, and must neither wait nor run user code.
pub(crate) fn each_waiting(pool: *const (), mut each: impl FnMut(&Header, &'static str)) {
    for shard in &LISTS {
        let members = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut link = members.0.first();
        while !link.is_null() {
            // SAFETY: L3: an entry that is in the list exists, and the link is its first field.
            let entry = unsafe { &*link.cast::<WaitingTask>() };
            link = entry.link.next();
            if ptr::eq(entry.pool, pool) {
                // SAFETY: T1: the task is not queued before its entry has left the list, which is
                // locked.
                each(unsafe { &*entry.task }, entry.source);
            }
        }
    }
}
