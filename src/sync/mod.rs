//! Locks and other synchronization primitives that tasks and threads share.
//!
//! A primitive may be used by tasks and plain threads at the same time. On plain threads no runtime
//! is needed. A task that waits is parked, and its worker runs other tasks meanwhile. A guard may
//! be held across waits, because a started task stays on its thread.
//!
//! | type | a wait ends with | cancellation point |
//! |---|---|---|
//! | [`Mutex`], [`RwLock`] | the lock | only the `.._cancellable` methods |
//! | [`Condvar`] | a notification about what a [`Mutex`] guards | yes |
//! | [`Semaphore`] | permits | yes |
//! | [`Notify`] | a notification, which is stored until a waiter takes it | yes |
//! | [`Barrier`] | the arrival of the other parties | yes |
//! | [`Latch`] | the count reaching zero | yes |
//! | [`SetOnce`] | a value | yes |
//! | [`Watch`] | a value that is newer than the last one | yes; [`Watch::update`] is not one |
//! | [`Pool`] | a value that is lent, such as a connection | yes |
//! | [`OnceLock`], [`LazyLock`], [`Once`] | a value that another task or thread is computing | no |
//!
//! A panic poisons nothing, except a [`LazyLock`] whose closure has panicked. Waiters are served in
//! the order in which they arrived; [`Mutex`] documents its exception. Inside
//! [`no_suspend`](crate::no_suspend) every call that may wait panics. The value of an initialized
//! [`OnceLock`] or [`LazyLock`] stays available there.
//!
//! The module [`poison`] has the exact signatures of `std`, for code that changes its import and
//! nothing else.
//!
//! [`Semaphore`], [`Notify`], [`Latch`], [`SetOnce`] and the [`Subscriber`] of a watch are
//! [`Source`](crate::Source)s.

mod barrier;
mod condvar;
mod guards;
mod holder;
mod latch;
mod lazy_lock;
mod line;
mod mapped;
mod mutex;
mod notify;
mod once;
mod once_lock;
mod owned;
mod permits;
pub mod poison;
mod pool;
mod rwlock;
mod semaphore;
mod set_once;
mod unwind;
mod watch;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use latch::Latch;
pub use lazy_lock::LazyLock;
pub use mapped::{MappedMutexGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard};
pub use mutex::{Mutex, MutexGuard, TryLockError};
pub use notify::Notify;
pub use once::Once;
pub use once_lock::OnceLock;
pub use owned::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
pub use pool::{Pool, PoolBuilder, PoolError, Pooled};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore, TryAcquireError};
pub use set_once::SetOnce;
pub use watch::{Subscriber, Watch};
