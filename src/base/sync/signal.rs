//! What a parked OS thread sleeps on: a flag and a futex.

use std::time::Instant;

use super::atomic::{AtomicU32, Ordering};

/// A flag that is raised once and can be slept on.
///
/// It usually lives on the sleeper's stack, and the sleeper may return as soon as the flag is up. The wake-up that follows
/// names only its address: the kernel looks the address up in its table of sleepers and never reads it, so at worst a
/// stranger who sleeps at the same address wakes for nothing, as every futex user must expect.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: AtomicU32,
}

const LOWERED: u32 = 0;
const RAISED: u32 = 1;

impl Signal {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Signal {
        Signal { raised: AtomicU32::new(LOWERED) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Signal {
        Signal { raised: AtomicU32::new(LOWERED) }
    }

    /// Whether the flag is up. Acquire: pairs with the release in [`Signal::raise`].
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire) == RAISED
    }

    /// Takes the flag down again, for reuse by its only sleeper.
    #[inline]
    pub(crate) fn lower(&self) {
        self.raised.store(LOWERED, Ordering::Relaxed);
    }

    /// Raises the flag and wakes the sleeper. The store is the last access to the flag itself.
    pub(crate) fn raise(&self) {
        let word = std::ptr::from_ref(&self.raised);
        self.raised.store(RAISED, Ordering::Release);
        imp::wake(word);
    }

    /// Sleeps until the flag is up (`true`) or the deadline has passed (`false`).
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        while !self.is_raised() {
            if !imp::sleep(&self.raised, LOWERED, deadline) {
                return self.is_raised();
            }
        }
        true
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod imp {
    #![expect(unsafe_code, reason = "futex on an address that may be gone")]

    use super::AtomicU32;
    use std::time::Instant;

    /// Returns false when the deadline has passed.
    pub(super) fn sleep(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> bool {
        let timeout = match deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                None => return false,
                Some(left) => rustix::thread::Timespec::try_from(left).ok(),
            },
        };
        let flags = rustix::thread::futex::Flags::PRIVATE;
        // Interrupted, already changed or timed out: the caller looks again in any case.
        let _ = rustix::thread::futex::wait(word, flags, expected, timeout.as_ref());
        true
    }

    pub(super) fn wake(word: *const AtomicU32) {
        // SAFETY: L2: FUTEX_WAKE takes an address, not a value: the kernel does not read it, and an address without a
        // mapping is an error that is ignored here.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
    }
}

#[cfg(any(not(target_os = "linux"), loom, miri))]
mod imp {
    use super::AtomicU32;
    use std::time::Instant;

    /// Where there is no futex, a look every now and then: model checkers and other platforms only.
    pub(super) fn sleep(_: &AtomicU32, _: u32, deadline: Option<Instant>) -> bool {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        std::thread::sleep(std::time::Duration::from_micros(50));
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    pub(super) fn wake(_: *const AtomicU32) {}
}
