//! Coroutines and generators: computations that suspend in the middle and are resumed later,
//! without a runtime.
//!
//! - [`Coroutine`]: a function on a stack of its own. [`Coroutine::resume`] runs it until it calls
//!   [`Yielder::suspend`] or returns. Values go both ways.
//! - [`Generator`]: a coroutine that only yields values, as an iterator.
//! - [`scoped()`], [`generate()`]: the same for functions that borrow. They end before the call
//!   returns.
//! - [`Stack`], [`StackPool`]: the stacks that coroutines run on. They are guarded against overflow
//!   and reused.
//!
//! ```
//! use ecru::coroutine::Generator;
//!
//! let countdown = Generator::new(|yielder| {
//!     for n in (1..=3).rev() {
//!         yielder.suspend(n);
//!     }
//! });
//! assert_eq!(countdown.collect::<Vec<_>>(), [3, 2, 1]);
//! ```

// # Parts, from the lowest layer up
// - `stack`: the memory that coroutines run on, and `remaining_stack`.
// - `overflow`: the report of a stack overflow.
// - `switch`: the switch between stacks: `Fiber` and `Suspender`, with two backends. Tasks use it,
//   too.
// - `frames`: the frames that a coroutine must close before it suspends, because it may be
//   forgotten.
// - `panics`: which stack a panic counted by the thread belongs to. `hook`: whether the code is inside
//   the panic hook.
// - `initializers`: the search for initializers of thread-locals that wait.
// - `unwinder`: a walk over the frames of the running stack.
// - `thread_end`: the phase of a thread in which its coroutines must not run any more.
// - `control`, `yielder`, `coroutine`, `generator`, `scoped`: the public interface.
//
// # Invariants
// - C1: a `Stack` value is the only owner of its slot. C2: memory is unmapped or given back only
//   where no `Stack` owns a slot. C3: every slot is guarded before a `Stack` for it exists. C4:
//   entries of the list of slabs are never freed. All of these belong to `stack`.
// - C5: a coroutine's frames change only between `resume` and the switch back. While it is
//   suspended or complete, nothing runs on its stack. The gate in its control block admits one user
//   at a time.
// - C6: a `Yielder` and a `Coroutine` point to data on the coroutine's stack, which the `Coroutine`
//   owns. A `Yielder` is reachable only from the body, which ends before the stack is freed.
// - C7: a body borrows nothing, or it ends before the frame that lends to it goes on. In the first
//   case the coroutine may be forgotten, and its stack is then never freed. In the second case the
//   coroutine is never handed out (`scoped`).
// - C8: the data that the signal handler reads is written before it becomes visible, and does not
//   change afterwards.
// - C9: a `Yielder` switches only from its coroutine's own stack. So a coroutine is never left in
//   the middle of a task, a run or another coroutine.
// - C10: a function's table of call sites has the format that its compiler writes, and the unwinder
//   returns it only while it exists.
// - C11: the words between a frame of a stack that code runs on and the stack's beginning may be
//   read, and a resumed stack has the link to its resumer's stack at its beginning.

#![expect(unsafe_code, reason = "coroutines run on raw stacks and switch between them")]

mod control;
#[expect(clippy::module_inception, reason = "the type's name is the layer's name")]
mod coroutine;
mod executor;
pub(crate) mod frames;
mod generator;
pub(crate) mod hook;
pub(crate) mod initializers;
pub(crate) mod leaked;
pub(crate) mod overflow;
#[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
mod panic_hook;
pub(crate) mod panics;
mod scoped;
pub(crate) mod stack;
pub(crate) mod switch;
mod thread_end;
#[cfg(not(any(ecru_baton, miri, loom)))]
mod unwinder;
mod yielder;

pub use self::coroutine::{Coroutine, CoroutineState, CoroutineStatus};
pub use self::executor::Executor;
pub(crate) use self::frames::OpenFrame;
pub use self::generator::Generator;
pub use self::leaked::leaked_stacks;
pub use self::scoped::{Items, ScopedCoroutine, generate, scoped};
pub use self::stack::{
    STACK_DEFAULT, STACK_FLOOR, Stack, StackPool, StackStatistics, remaining_stack,
};
pub use self::yielder::Yielder;
