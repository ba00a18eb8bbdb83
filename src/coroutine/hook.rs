//! Whether the running code is inside the panic hook, as the layers above ask.

/// Finds the panic hook on the stack: see [`panic_hook`](super::panic_hook).
#[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
pub(crate) use super::panic_hook::{enter_run, is_lesson, is_running, learn};

/// Where nothing unwinds, the hook of a panic is all that follows it. The baton backend gives each
/// stack a thread of its own, with a flag of its own.
#[cfg(not(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom)))))]
mod unseen {
    pub(crate) fn learn() {}

    pub(crate) fn is_lesson() -> bool {
        false
    }

    pub(crate) fn enter_run(_: *const ()) -> *const () {
        std::ptr::null()
    }

    pub(crate) fn is_running() -> bool {
        cfg!(all(not(panic = "unwind"), not(any(ecru_baton, miri, loom))))
            && std::thread::panicking()
    }
}

#[cfg(not(all(
    panic = "unwind",
    not(target_arch = "arm"),
    not(any(ecru_baton, miri, loom))
)))]
pub(crate) use unseen::{enter_run, is_lesson, is_running, learn};
