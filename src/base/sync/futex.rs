//! Sleeping on a word, and waking a thread that sleeps on it.
//!
//! [`sleep`] may return spuriously. Its callers check the word again.

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod imp {
    #![expect(unsafe_code, reason = "futex on an address that may be gone")]

    use crate::base::clock;
    use crate::base::sync::atomic::AtomicU32;
    use std::time::Instant;

    /// Sleeps while the word holds `expected`, until the deadline at most. Returns `false` if the
    /// deadline has passed.
    pub(crate) fn sleep(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> bool {
        let timeout = match deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(clock::now()) {
                None => return false,
                Some(left) => rustix::thread::Timespec::try_from(left).ok(),
            },
        };
        let flags = rustix::thread::futex::Flags::PRIVATE;
        // The wait may have been interrupted, may have timed out, or the word has changed. The
        // caller checks the word in any case.
        let _ = rustix::thread::futex::wait(word, flags, expected, timeout.as_ref());
        true
    }

    /// Wakes one sleeper. The address may be unmapped.
    pub(crate) fn wake(word: *const AtomicU32) {
        // SAFETY: L2: FUTEX_WAKE takes an address and not a value. The kernel does not read the
        // memory, and the error for an unmapped address is ignored here.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
    }
}

#[cfg(all(not(loom), any(not(target_os = "linux"), miri)))]
mod imp {
    use crate::base::clock;
    use crate::base::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Sleeps briefly. Other platforms have no futex, so the callers poll the word.
    pub(crate) fn sleep(_: &AtomicU32, _: u32, deadline: Option<Instant>) -> bool {
        std::thread::sleep(Duration::from_micros(50));
        deadline.is_none_or(|deadline| clock::now() < deadline)
    }

    pub(crate) fn wake(_: *const AtomicU32) {}
}

#[cfg(loom)]
mod imp {
    use crate::base::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::sync::PoisonError;
    use std::time::Instant;

    loom::lazy_static! {
        /// Stands for the kernel's table of sleepers, in one model.
        static ref TABLE: Mutex<()> = Mutex::new(());
        static ref NEWS: Condvar = Condvar::new();
    }

    /// Sleeps for real, so that loom reports a missing wake-up as a deadlock. A deadline counts as
    /// passed.
    pub(crate) fn sleep(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> bool {
        if deadline.is_some() {
            return false;
        }
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Ordering::Relaxed) == expected {
            drop(NEWS.wait(table));
        }
        true
    }

    pub(crate) fn wake(_: *const AtomicU32) {
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        NEWS.notify_all();
        drop(table);
    }
}

pub(crate) use imp::{sleep, wake};
