//! Iterators that are written as coroutines.

use std::fmt;
use std::iter::FusedIterator;

use super::control::COMPLETE;
use super::{Coroutine, CoroutineState, Stack, Yielder};

/// An iterator over the values that a function yields one by one, from any depth of calls. It suits
/// trees, parsers and other traversals.
///
/// Dropping a generator before its end unwinds the function, as dropping a [`Coroutine`] does. As
/// in any unwinding, a destructor that panics then aborts the process. A panic of the function
/// reaches the caller of `next`. After that, the iterator is at its end.
///
/// Do not keep a generator that has not reached its end in a thread-local. Keep it where it is
/// dropped before the thread ends. At the end of a thread, `next` panics, and dropping the
/// generator leaks its stack: see [`Coroutine`], "Thread-locals".
///
/// The function is `'static`, as the body of a [`Coroutine`] is. For a function that borrows, use
/// [`generate`](super::generate()).
///
/// # Examples
/// ```
/// use ecru::coroutine::{Generator, Yielder};
///
/// struct Tree {
///     value: u32,
///     branches: Vec<Tree>,
/// }
///
/// fn walk(tree: &Tree, yielder: &Yielder<(), u32>) {
///     yielder.suspend(tree.value);
///     tree.branches.iter().for_each(|branch| walk(branch, yielder));
/// }
///
/// let leaf = |value| Tree { value, branches: Vec::new() };
/// let tree = Tree { value: 1, branches: vec![leaf(2), Tree { value: 3, branches: vec![leaf(4)] }] };
/// let values = Generator::new(move |yielder| walk(&tree, yielder));
/// assert_eq!(values.collect::<Vec<_>>(), [1, 2, 3, 4]);
/// ```
pub struct Generator<T> {
    coroutine: Coroutine<(), T, ()>,
}

impl<T: 'static> Generator<T> {
    /// Creates a generator on a stack of [`STACK_DEFAULT`](super::STACK_DEFAULT) bytes. Nothing
    /// runs before the first `next`.
    ///
    /// # Panics
    /// Panics if the system refuses a stack. [`Generator::with_stack`] allows that error to be
    /// handled.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::Generator;
    ///
    /// let squares = Generator::new(|yielder| (1..).for_each(|n: u64| yielder.suspend(n * n)));
    /// assert_eq!(squares.take(4).sum::<u64>(), 30);
    /// ```
    #[must_use]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&Yielder<(), T>) + 'static,
    {
        Generator { coroutine: Coroutine::new(move |yielder: &Yielder<(), T>, ()| body(yielder)) }
    }

    /// Creates a generator on the given stack.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Generator, Stack};
    ///
    /// let stack = Stack::new(16 * 1024)?;
    /// let mut bytes = Generator::with_stack(stack, |yielder| b"ab".iter().for_each(|byte| yielder.suspend(*byte)));
    /// assert_eq!((bytes.next(), bytes.next(), bytes.next()), (Some(b'a'), Some(b'b'), None));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_stack<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&Yielder<(), T>) + 'static,
    {
        Generator {
            coroutine: Coroutine::with_stack(stack, move |yielder: &Yielder<(), T>, ()| {
                body(yielder)
            }),
        }
    }
}

impl<T> Iterator for Generator<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        next(&self.coroutine)
    }
}

/// Returns the next item of a generator's coroutine. Returns `None` at the end and after it.
#[inline]
pub(super) fn next<T>(coroutine: &Coroutine<(), T, ()>) -> Option<T> {
    if coroutine.control().gate.get() == COMPLETE {
        return None;
    }
    match coroutine.resume(()) {
        CoroutineState::Yielded(item) => Some(item),
        CoroutineState::Complete(()) => None,
    }
}

impl<T> FusedIterator for Generator<T> {}

impl<T> fmt::Debug for Generator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator").field("state", &self.coroutine.state()).finish_non_exhaustive()
    }
}
