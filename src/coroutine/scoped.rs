//! Coroutines and generators that borrow: they end before the function that makes them returns.
//!
//! A coroutine that borrows must not be forgotten while it is suspended (C7). So it never leaves the frame that owns it: the caller gets a
//! shared reference for the length of a closure. A shared reference cannot be swapped with another, and to forget it changes nothing. When the
//! closure ends, the frame unwinds the coroutine, and does not go on before that is done. If it cannot be done, the process is aborted.
//!
//! The frame itself may lie on the stack of a coroutine that is forgotten. Then it does not go on either, and its stack is never
//! freed; the outer coroutine is `'static`, or lies in such a frame itself.

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

/// Calls `with` with a coroutine whose `body` may borrow from the caller, and returns what `with` returns.
///
/// The coroutine has a stack of [`STACK_DEFAULT`](super::STACK_DEFAULT) bytes, and runs inside of
/// [`resume`](ScopedCoroutine::resume) only. If it is suspended when `with` ends, it is unwound: the destructors of its frames run
/// before this call returns.
///
/// # Panics
/// With the panic of `with`, or of a destructor that is run as the coroutine is unwound; if the system refuses a stack.
///
/// # Aborts
/// The coroutine has to end before this call returns. The process is aborted if it cannot:
/// - if it is suspended when `with` ends, in a program that is built with `panic = "abort"`, where nothing can be unwound;
/// - if it is suspended when `with` ends, in a destructor that a panic of its own has called;
/// - if it calls [`Yielder::suspend`] while it is unwound.
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
    // SAFETY: C7: it ends below, before this frame goes on, and it is lent by a shared reference only.
    let inner = unsafe { Coroutine::borrowing(default_stack(), body) };
    inner.control().scoped.set(true);
    let coroutine = ScopedCoroutine { inner };
    // Caught, so that the coroutine's destructors do not run in the middle of another unwinding.
    let result = panic::catch_unwind(AssertUnwindSafe(|| with(&coroutine)));
    let ended = panic::catch_unwind(AssertUnwindSafe(|| coroutine.end()));
    match (result, ended) {
        (Ok(value), Ok(())) => value,
        (Err(payload), ended) => {
            // The first panic is the one that counts; the other's payload may panic itself when it is dropped, so it is leaked.
            let _ = ManuallyDrop::new(ended);
            panic::resume_unwind(payload)
        }
        (Ok(_), Err(payload)) => panic::resume_unwind(payload),
    }
}

/// Calls `with` with an iterator over what `body`, which may borrow from the caller, gives out one by one, and returns what `with`
/// returns.
///
/// It is [`scoped`] for a coroutine that only gives values out. If the iterator was not read to its end when `with` ends, `body` is
/// unwound.
///
/// # Panics
/// As [`scoped`]. A panic of `body` reaches the caller of `next`; afterwards the iterator is at its end.
///
/// # Aborts
/// As [`scoped`].
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
    /// As [`Coroutine::resume`].
    ///
    /// # Examples
    /// See [`scoped`].
    #[inline]
    #[track_caller]
    pub fn resume(&self, value: In) -> CoroutineState<Yield, Out> {
        self.inner.resume(value)
    }

    /// Returns where the coroutine stands. This may be called inside the coroutine, too.
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

    /// Ends the coroutine, or the process.
    fn end(self) {
        // C7: nothing borrowed may be left in use when this returns.
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

/// Says why, and ends the process.
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
/// It is a handle: dropping or forgetting it leaves the generator where it is, which ends with that closure.
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
