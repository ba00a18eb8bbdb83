//! Detects initializers that wait: those of `std::thread_local!`, and of `std`'s `OnceLock`,
//! `LazyLock` and `Once`.
//!
//! When the initializer of a thread-local returns, `std` replaces what is stored there, and drops
//! it. `std` assumes that nothing borrows that value, because the code of a thread nests. If the
//! initializer waits, another task of the thread may initialize the thread-local meanwhile, and
//! borrow its value across a wait. The first task then drops a value that is borrowed. A coroutine
//! that suspends inside `LocalKey::with`, and was resumed by the initializer, does the same. Rust
//! offers no way to prevent this. So it is an assumption (`SOUNDNESS.md`), and this module finds
//! the places that break it: in debug builds, and if the environment variable `ECRU_CHECK` is set.
//!
//! An initializer of `OnceLock`, `LazyLock` or `Once` that waits is sound. But another task of the
//! thread that wants the same value blocks the thread, and the initializer never continues.
//!
//! # How an initializer is found
//! `std` calls each kind of initializer in a function of its own that is hardly ever inlined:
//! SOUNDNESS.md names the exceptions. [`table`] reads the addresses of these functions from the
//! symbol table, once. A call that may wait then looks at each word between its own frame and the
//! bound. A word that is a return address into such a function may be a leftover of a frame that
//! has returned. So the unwinder decides, which takes some microseconds.
//!
//! | call | bound | reason |
//! |---|---|---|
//! | a wait of a task | the beginning of the task's stack | other tasks run only while this one waits |
//! | a wait of a root | the frame of its run | the run's tasks end before an initializer around it does |
//! | `suspend` | the end of the thread's own stack | the coroutine may be forgotten, or kept anywhere |
//!
//! A stack that a coroutine or a task runs on links to its resumer's. `corosensei` documents where
//! this link lies. A plain thread is not looked at: its waits block it, so nothing else runs. For
//! `suspend`, the initializer of a `Once` counts only on the coroutine's own stack, because any
//! other one goes on.
//!
//! # What is not found
//! - Initializers in other loaded files than the one that this library is linked into.
//! - Waits on stacks that other crates have made, such as `stacker`'s.
//! - Anything on other processors than x86-64.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom))))]
mod elf;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom))))]
mod imp;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom))))]
mod table;

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom))))]
pub(crate) use self::imp::{are_checked, find};

/// The kind of an initializer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom)))),
    allow(dead_code, reason = "none is searched for")
)]
pub(crate) enum Kind {
    /// That of a thread-local.
    ThreadLocal,
    /// That of a value which other threads wait for by blocking.
    Once,
}

/// Where the search for initializers ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// At this address of the task's stack, or in the frame of the run.
    Task(usize),
    /// At the end of the thread's own stack.
    Thread,
}

impl Kind {
    /// Returns the text of a panic.
    pub(crate) fn refusal(self) -> &'static str {
        match self {
            Kind::ThreadLocal => {
                "a call that may wait, or `suspend`, was made in the initializer of a `thread_local!`: while it waits, other code of \
                 this thread may initialize and borrow the same thread-local, whose value would then be freed under it; make the value \
                 first and store it afterwards (`const { OnceCell::new() }`, `const { RefCell::new(None) }`), or use \
                 `ecru::task_local!`; see \"Initializers of thread-locals do not wait\" in SOUNDNESS.md"
            }
            Kind::Once => {
                "a call that may wait, or `suspend`, was made in the initializer of a `std::sync::OnceLock`, `LazyLock` or `Once` (or one \
                 of `once_cell`): if another task of this thread wants the value meanwhile, the thread blocks for ever; use \
                 `ecru::sync::OnceLock` or `ecru::sync::LazyLock`, whose initializers may wait, or make the value first"
            }
        }
    }
}

/// Returns whether initializers that wait are searched for.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom)))))]
pub(crate) fn are_checked() -> bool {
    false
}

/// Returns the kind of the innermost initializer that is open around the caller.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(any(ecru_baton, miri, loom)))))]
pub(crate) fn find(_bound: Bound) -> Option<Kind> {
    None
}
