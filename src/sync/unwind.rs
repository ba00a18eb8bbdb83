//! Unwind safety of the types of this module: all of them may be shared with code whose panic is
//! caught. The state of each type is consistent whenever user code runs. A lock without poisoning
//! accepts that a panic may leave the guarded value half changed.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::{
    Barrier, Condvar, Latch, LazyLock, Mutex, Notify, OnceLock, Permit, RwLock, Semaphore, SetOnce,
};

impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl RefUnwindSafe for Condvar {}
impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Semaphore {}
impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Permit {}
impl UnwindSafe for Permit {}
impl RefUnwindSafe for Barrier {}
impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Latch {}
impl UnwindSafe for Latch {}
impl RefUnwindSafe for Notify {}
impl UnwindSafe for Notify {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for SetOnce<T> {}
impl<T: UnwindSafe> UnwindSafe for SetOnce<T> {}
