//! Coroutines and generators: computations that are suspended in the middle and resumed later, without a runtime.
//!
//! - [`Coroutine`]: a function on a stack of its own. [`Coroutine::resume`] runs it until it calls [`Yielder::suspend`] or
//!   returns; values go both ways.
//! - [`Generator`]: one that only gives values out, as an iterator.
//! - [`scoped()`], [`generate()`]: the same for functions that borrow. They end before the call returns.
//! - [`Stack`], [`StackPool`]: where they run, guarded against overflow and recycled.
//! - [`Executor`]: a queue of closures for a program's own loop, from which coroutines are resumed.
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

// # Parts, ground floor first
// - `stack`: memory to run on; `remaining_stack`.
// - `overflow`: what is said when a stack was too small.
// - `switch`: the machine: `Fiber` and `Suspender`, with two backends. Tasks stand on it, too.
// - `frames`: what must not be left open by a coroutine that may be forgotten.
// - `panics`: whose panic it is that the thread counts.
// - `control`, `yielder`, `coroutine`, `generator`, `scoped`: the public face.
// - `executor`: a queue of closures, of which the rest of this module knows nothing.
//
// # Invariants
// - C1: a `Stack` value is the only owner of its slot. C2: memory is unmapped or given back only where no `Stack` owns a slot.
//   C3: every slot is guarded before a `Stack` for it exists. C4: entries of the slab list are never freed. All in `stack`.
// - C5: a coroutine's frames change only between `resume` and the switch back: while it is at rest, suspending or complete,
//   nothing runs on its stack. The gate in its control block admits one user at a time.
// - C6: what a `Yielder` or a `Coroutine` points to lies on the coroutine's stack, which the `Coroutine` owns, and a `Yielder` is
//   reachable only from the body, which ends before.
// - C7: a body borrows nothing, or it ends before the frame that lends to it goes on. In the first case the coroutine may be forgotten, and
//   its stack is then never freed; in the second it is never handed out (`scoped`).
// - C8: what the signal handler reads is written before it can be seen, and does not change afterwards.
// - C9: a `Yielder` switches only from its coroutine's own stack, so that a coroutine is never left in the middle of a task, a run or
//   another coroutine.
// - C10: a function's table of call sites has the format that its compiler writes, and the unwinder shows it only while it is there.

#![expect(unsafe_code, reason = "coroutines stand on raw stacks and switch between them")]

mod control;
#[expect(clippy::module_inception, reason = "the type's name is the layer's name")]
mod coroutine;
mod executor;
pub(crate) mod frames;
mod generator;
pub(crate) mod leaked;
pub(crate) mod overflow;
pub(crate) mod panics;
mod scoped;
pub(crate) mod stack;
pub(crate) mod switch;
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
