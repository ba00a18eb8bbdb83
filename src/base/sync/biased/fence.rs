//! A pair of fences. The light one is nearly free, because the heavy one acts for both sides.
#![cfg_attr(
    not(any(loom, miri, ecru_baton)),
    expect(unsafe_code, reason = "calls membarrier, which no safe crate wraps")
)]

/// The fence of the frequent side. It holds back only the compiler.
#[inline(always)]
pub(super) fn light_fence() {
    #[cfg(loom)]
    super::super::atomic::fence(super::super::atomic::Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(any(loom, miri, ecru_baton, not(target_os = "linux")))]
mod imp {
    /// Checkers would not see the heavy fence. In the baton backend, coroutines with threads of
    /// their own would not be one owner.
    pub(in super::super) fn can_be_heavy() -> Option<bool> {
        Some(false)
    }

    pub(in super::super) fn heavy_fence() {
        #[cfg(loom)]
        crate::base::sync::atomic::fence(crate::base::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(not(any(loom, miri, ecru_baton, not(target_os = "linux"))))]
mod imp {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::thread;
    use std::time::Duration;

    use crate::base::simulated;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes three integers and accesses none of our memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    const UNKNOWN: u8 = 0;
    const ASKED: u8 = 1;
    const NO: u8 = 2;
    const YES: u8 = 3;

    /// Returns whether the kernel supports the heavy fence, or `None` while it is being asked. In a
    /// process with several threads, the answer takes about fifteen milliseconds. A lock holder
    /// must not wait that long, so another thread asks.
    pub(in super::super) fn can_be_heavy() -> Option<bool> {
        static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
        match ANSWER.load(Ordering::Acquire) {
            YES => Some(true),
            NO => Some(false),
            ASKED => None,
            _ => {
                let first = ANSWER
                    .compare_exchange(UNKNOWN, ASKED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
                let ask = || {
                    let yes = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
                    ANSWER.store(if yes { YES } else { NO }, Ordering::Release);
                };
                let asks = || thread::Builder::new().name(String::from("ecru-ask")).spawn(ask);
                if first && simulated::aside(asks).is_err() {
                    ANSWER.store(NO, Ordering::Release);
                }
                None
            }
        }
    }

    /// The fence of the rare side. Every thread of the process executes a full fence before this
    /// returns.
    pub(in super::super) fn heavy_fence() {
        if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            // The call was allowed when the bias was given, and a sandbox forbids it now. A store
            // becomes visible in finite time. This sleep is a hundred thousand times as long as any
            // store takes.
            thread::sleep(Duration::from_millis(50));
        }
    }
}

pub(super) use imp::{can_be_heavy, heavy_fence};
