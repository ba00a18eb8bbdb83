//! std's twins for what tasks and threads share: locks, and events to wait for.
//!
//! Tasks and plain threads may use the same one, and no runtime is needed on threads. A task that waits is parked: its worker goes
//! on with others. A guard may be held across waits, for a started task stays on its thread.
//!
//! | type | what is waited for | cancel point |
//! |---|---|---|
//! | [`Mutex`], [`RwLock`] | the lock | with `.._cancellable` |
//! | [`Condvar`] | a notification, about what a [`Mutex`] guards | yes |
//! | [`Semaphore`] | permits | yes |
//! | [`Notify`] | a notification, which is remembered | yes |
//! | [`Barrier`] | the others | yes |
//! | [`Latch`] | that it has been counted down | yes |
//! | [`SetOnce`] | a value | yes |
//! | [`OnceLock`], [`LazyLock`] | whoever makes the value | no |
//!
//! Nothing is poisoned by a panic, except a [`LazyLock`] whose closure is gone. Those who wait are served in the order in which they
//! came; [`Mutex`] says where others may be faster. Inside [`no_suspend`](crate::no_suspend) every call that may wait panics; what a [`OnceLock`] or
//! a [`LazyLock`] has made is there for good, and may be used.
//!
//! [`poison`] has std's exact signatures instead, for code that is to change its import and nothing else.
//!
//! [`Semaphore`], [`Notify`], [`Latch`] and [`SetOnce`] are [`Source`](crate::Source)s.

mod barrier;
mod condvar;
mod guards;
mod latch;
mod lazy_lock;
mod line;
mod mutex;
mod notify;
mod once_lock;
mod permits;
pub mod poison;
mod rwlock;
mod semaphore;
mod set_once;
mod unwind;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use latch::Latch;
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard, TryLockError};
pub use notify::Notify;
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore, TryAcquireError};
pub use set_once::SetOnce;
