//! Coroutines and generators that borrow. They end before the function that creates them returns.
//!
//! A coroutine that borrows must not be forgotten while it is suspended (C7). It therefore never
//! leaves the frame that owns it: the caller gets only a shared reference, for the duration of a
//! closure. A shared reference cannot be used to swap two coroutines, and forgetting it changes
//! nothing. When the closure ends, the frame unwinds the coroutine and does not go on before that
//! is done. If it cannot be done, the process is aborted.
//!
//! The frame itself may lie on the stack of a coroutine that is forgotten. Then the frame does not
//! go on either, and its stack is never freed. That outer coroutine is `'static`, or lies in such a
//! frame itself.

use std::fmt;
use std::iter::FusedIterator;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};

use super::coroutine::default_stack;
use super::generator;
use super::{Coroutine, CoroutineState, CoroutineStatus, Yielder};
use crate::base::report;

/// A coroutine that may borrow, lent to a closure by [`scoped`].
pub struct ScopedCoroutine<In, Yield, Out> {
    inner: Coroutine<In, Yield, Out>,
}

/// Calls `with` with a coroutine whose `body` may borrow from the caller. Returns `with`'s value.
///
/// The coroutine has a stack of [`STACK_DEFAULT`](super::STACK_DEFAULT) bytes, and runs only inside
/// [`resume`](ScopedCoroutine::resume). If it is suspended when `with` ends, it is unwound: the
/// destructors of its frames run before this call returns.
///
/// # Panics
/// Panics if the system refuses a stack. Propagates a panic of `with`. If `with` returns,
/// propagates a panic of the coroutine's end: of the destructor of something that `body` has
/// captured, if the coroutine was never resumed, or of what `body` does after it has caught its own
/// unwinding.
///
/// # Aborts
/// The coroutine must end before this call returns. The process is aborted if it cannot:
/// - if the coroutine is suspended when `with` ends, and nothing can be unwound because the program
///   is built with `panic = "abort"`;
/// - if the coroutine is suspended when `with` ends, in a destructor that runs because of a panic
///   in the coroutine;
/// - if the coroutine calls [`Yielder::suspend`] while it is unwound;
/// - if a destructor of the coroutine's frames panics while it is unwound, as in any unwinding.
///
/// # Examples
/// ```
/// use ecru::coroutine::{CoroutineState, Yielder, scoped};
///
/// let words = vec![String::from("ecru"), String::from("is"), String::from("undyed")];
/// let mut seen = 0;
/// let last = scoped(
///     |yielder: &Yielder<usize, &str>, skip| {
///         let mut at = skip;
///         while at < words.len() {
///             seen += 1;
///             at += 1 + yielder.suspend(&words[at]);
///         }
///     },
///     |reader| {
///         assert_eq!(reader.resume(0), CoroutineState::Yielded("ecru"));
///         reader.resume(1)
///     },
/// );
/// assert_eq!((last, seen), (CoroutineState::Yielded("undyed"), 2));
/// ```
pub fn scoped<In, Yield, Out, R>(
    body: impl FnOnce(&Yielder<In, Yield>, In) -> Out,
    with: impl FnOnce(&ScopedCoroutine<In, Yield, Out>) -> R,
) -> R {
    // SAFETY: C7: the coroutine ends below, before this frame goes on, and is lent by shared
    // reference only.
    let inner = unsafe { Coroutine::borrowing(default_stack(), body) };
    inner.control().scoped.set(true);
    let coroutine = ScopedCoroutine { inner };
    // The panic is caught, so that the coroutine's destructors do not run during another unwinding.
    let result = panic::catch_unwind(AssertUnwindSafe(|| with(&coroutine)));
    let ended = panic::catch_unwind(AssertUnwindSafe(|| coroutine.end()));
    match (result, ended) {
        (Ok(value), Ok(())) => value,
        (Err(payload), ended) => {
            // The first panic takes precedence. The other payload is leaked, because dropping it
            // might panic.
            let _ = ManuallyDrop::new(ended);
            panic::resume_unwind(payload)
        }
        (Ok(_), Err(payload)) => panic::resume_unwind(payload),
    }
}

/// Calls `with` with an iterator over the values that `body` yields. `body` may borrow from the
/// caller. Returns `with`'s value.
///
/// This is [`scoped`] for a coroutine that only yields values. If the iterator has not reached its
/// end when `with` ends, `body` is unwound.
///
/// # Panics
/// Panics in the same cases as [`scoped`]. A panic of `body` reaches the caller of `next`. After
/// that, the iterator is at its end.
///
/// # Aborts
/// Aborts in the same cases as [`scoped`].
///
/// # Examples
/// ```
/// use ecru::coroutine::{Yielder, generate};
///
/// struct Tree {
///     value: u32,
///     branches: Vec<Tree>,
/// }
///
/// fn walk<'t>(tree: &'t Tree, yielder: &Yielder<(), &'t Tree>) {
///     yielder.suspend(tree);
///     tree.branches.iter().for_each(|branch| walk(branch, yielder));
/// }
///
/// let leaf = |value| Tree { value, branches: Vec::new() };
/// let tree = Tree { value: 1, branches: vec![leaf(2), Tree { value: 3, branches: vec![leaf(4)] }] };
/// let sum = generate(|yielder| walk(&tree, yielder), |trees| trees.map(|tree| tree.value).sum::<u32>());
/// assert_eq!(sum, 10);
/// ```
pub fn generate<T, R>(
    body: impl FnOnce(&Yielder<(), T>),
    with: impl FnOnce(Items<'_, T>) -> R,
) -> R {
    scoped(
        |yielder: &Yielder<(), T>, ()| body(yielder),
        |coroutine: &ScopedCoroutine<(), T, ()>| with(Items { coroutine }),
    )
}

impl<In, Yield, Out> ScopedCoroutine<In, Yield, Out> {
    /// Runs the coroutine until it suspends or returns.
    ///
    /// # Panics
    /// Panics in the same cases as [`Coroutine::resume`].
    ///
    /// # Examples
    /// See [`scoped`].
    #[inline]
    #[track_caller]
    pub fn resume(&self, value: In) -> CoroutineState<Yield, Out> {
        self.inner.resume(value)
    }

    /// Returns the coroutine's state. This may also be called inside the coroutine.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{CoroutineStatus, Yielder, scoped};
    ///
    /// let status = scoped(|_: &Yielder<(), ()>, ()| (), |coroutine| coroutine.state());
    /// assert_eq!(status, CoroutineStatus::Unstarted);
    /// ```
    pub fn state(&self) -> CoroutineStatus {
        self.inner.state()
    }

    /// Ends the coroutine, or aborts the process.
    fn end(self) {
        // C7: when this returns, nothing borrowed may still be in use.
        match self.state() {
            CoroutineStatus::Unstarted | CoroutineStatus::Complete => {}
            CoroutineStatus::Suspended if self.inner.is_panicking() => abort(
                "`coroutine::scoped` cannot unwind its coroutine, which is suspended in a destructor that a panic has called",
            ),
            CoroutineStatus::Suspended if cfg!(panic = "unwind") => {}
            CoroutineStatus::Suspended => abort(
                "`coroutine::scoped` cannot unwind its coroutine, which is suspended, because of `panic = \"abort\"`",
            ),
            CoroutineStatus::Running => {
                abort("the coroutine of `coroutine::scoped` is still running")
            }
        }
        drop(self.inner);
    }
}

/// Prints the reason, and aborts the process.
#[cold]
pub(super) fn abort(why: &str) -> ! {
    report::last_words(format!("ecru: {why}; what it borrows must not be freed: aborting"));
    std::process::abort()
}

impl<In, Yield, Out> fmt::Debug for ScopedCoroutine<In, Yield, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedCoroutine").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// The items of a generator that may borrow, lent to a closure by [`generate`].
///
/// This is only a handle. If it is dropped or forgotten, the generator still ends with that
/// closure.
///
/// # Examples
/// ```
/// use ecru::coroutine::{Items, generate};
///
/// fn sum(items: Items<'_, u32>) -> u32 {
///     items.sum()
/// }
///
/// let numbers = [1, 2, 3];
/// // The generator borrows `numbers`, and the items borrow the generator.
/// let total = generate(|y| numbers.iter().for_each(|number| y.suspend(*number)), sum);
/// assert_eq!(total, 6);
/// ```
pub struct Items<'c, T> {
    coroutine: &'c ScopedCoroutine<(), T, ()>,
}

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        generator::next(&self.coroutine.inner)
    }
}

impl<T> FusedIterator for Items<'_, T> {}

impl<T> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("state", &self.coroutine.state()).finish_non_exhaustive()
    }
}
