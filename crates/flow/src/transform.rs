//! Transforms of values on their way into a channel: [`Transform`] and its adaptors, which resemble
//! those of iterators. See [`transformed`](fn@crate::transformed).
//!
//! A caller takes items from an iterator, but passes values to a transform. The transform *emits*
//! any number of outputs for each value. After the last value it is *finished*, and emits the
//! outputs that it has kept.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};

use ecru::PanicPayload;

/// A step on the way into a channel, which turns inputs into outputs. Start with [`values`] and add
/// adaptors, or implement this trait.
///
/// # Examples
/// ```
/// use ecru_flow::{Transform, transformed};
/// use std::ops::ControlFlow;
///
/// /// The sums so far.
/// #[derive(Default)]
/// struct Sums(u32);
///
/// impl Transform for Sums {
///     type Input = u32;
///     type Output = u32;
///
///     fn step(&mut self, value: u32, emit: &mut dyn FnMut(u32)) -> ControlFlow<()> {
///         self.0 += value;
///         emit(self.0);
///         ControlFlow::Continue(())
///     }
/// }
///
/// let (sender, sums) = transformed(8, Sums::default().filter(|sum| sum % 2 == 0));
/// for n in 1..=4 {
///     sender.send(n).unwrap();
/// }
/// assert_eq!(sums.try_iter().collect::<Vec<_>>(), [6, 10]);
/// ```
pub trait Transform {
    /// The type of the values that are passed to the transform.
    type Input;
    /// The type of the outputs.
    type Output;

    /// Takes a value, and emits its outputs. Returns `Break` if the transform wants no more values.
    fn step(&mut self, value: Self::Input, emit: &mut dyn FnMut(Self::Output)) -> ControlFlow<()>;

    /// Emits the outputs that have been kept. This is called once, after the last value.
    fn finish(&mut self, emit: &mut dyn FnMut(Self::Output)) {
        let _ = emit;
    }

    /// Passes each output through `f`.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let (sender, receiver) = transformed(8, transform::values().map(|n: u32| n * 10));
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv(), Ok(70));
    /// ```
    fn map<U, F>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
        F: FnMut(Self::Output) -> U,
    {
        Map { inner: self, f }
    }

    /// Keeps the outputs for which `accepts` returns true.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let (sender, receiver) = transformed(8, transform::values().filter(|n: &u32| n % 2 == 0));
    /// sender.send(7).unwrap();
    /// sender.send(8).unwrap();
    /// assert_eq!(receiver.recv(), Ok(8));
    /// ```
    fn filter<P>(self, accepts: P) -> Filter<Self, P>
    where
        Self: Sized,
        P: FnMut(&Self::Output) -> bool,
    {
        Filter { inner: self, accepts }
    }

    /// Calls `f` with each output, and emits all items that it returns.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let (sender, words) = transformed(8, transform::values().flat_map(str::split_whitespace));
    /// sender.send("as they come").unwrap();
    /// assert_eq!(words.try_iter().collect::<Vec<_>>(), ["as", "they", "come"]);
    /// ```
    fn flat_map<I, F>(self, f: F) -> FlatMap<Self, F>
    where
        Self: Sized,
        F: FnMut(Self::Output) -> I,
        I: IntoIterator,
    {
        FlatMap { inner: self, f }
    }

    /// Emits the first `count` outputs, and wants no more values after that.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let (sender, receiver) = transformed(8, transform::values().take(1));
    /// sender.send(7).unwrap();
    /// assert!(sender.send(8).unwrap_err().is_disconnected());
    /// assert_eq!(ecru_flow::collect(receiver), Ok(vec![7]));
    /// ```
    fn take(self, count: usize) -> Take<Self>
    where
        Self: Sized,
    {
        Take { inner: self, left: count }
    }

    /// Collects the outputs in vectors of `size`. The last vector may be shorter.
    ///
    /// # Panics
    /// Panics if `size` is 0.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let (sender, receiver) = transformed(8, transform::values().chunks(2));
    /// for n in 1..=3 {
    ///     sender.send(n).unwrap();
    /// }
    /// sender.close();
    /// assert_eq!(ecru_flow::collect(receiver), Ok(vec![vec![1, 2], vec![3]]));
    /// ```
    #[track_caller]
    fn chunks(self, size: usize) -> Chunks<Self>
    where
        Self: Sized,
    {
        assert!(size > 0, "a chunk of 0 values would never be full; ask for at least 1");
        Chunks { inner: self, size, chunk: Vec::new() }
    }

    /// Calls `handler` when an earlier step of the chain panics, and emits the output that it
    /// returns, if any. Without a handler, the panic is passed to the sender.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Transform, transform, transformed};
    ///
    /// let quotients = transform::values().map(|n: u32| 12 / n).on_panic(|_| Some(u32::MAX));
    /// let (sender, receiver) = transformed(8, quotients);
    /// sender.send(0).unwrap();
    /// assert_eq!(receiver.recv(), Ok(u32::MAX));
    /// ```
    fn on_panic<H>(self, handler: H) -> CatchPanic<Self, H>
    where
        Self: Sized,
        H: FnMut(PanicPayload) -> Option<Self::Output>,
    {
        CatchPanic { inner: self, handler }
    }
}

/// The transform that changes nothing, which [`values`] returns.
pub struct Values<T> {
    _values: PhantomData<fn(T) -> T>,
}

/// Returns the transform that emits each value as it is.
///
/// # Examples
/// ```
/// use ecru_flow::{transform, transformed};
///
/// let (sender, receiver) = transformed(1, transform::values());
/// sender.send(7).unwrap();
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[must_use]
pub fn values<T>() -> Values<T> {
    Values { _values: PhantomData }
}

impl<T> Transform for Values<T> {
    type Input = T;
    type Output = T;

    fn step(&mut self, value: T, emit: &mut dyn FnMut(T)) -> ControlFlow<()> {
        emit(value);
        ControlFlow::Continue(())
    }
}

impl<T> fmt::Debug for Values<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values")
    }
}

/// The adaptor that [`Transform::map`] returns.
pub struct Map<X, F> {
    inner: X,
    f: F,
}

impl<X: Transform, U, F: FnMut(X::Output) -> U> Transform for Map<X, F> {
    type Input = X::Input;
    type Output = U;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(U)) -> ControlFlow<()> {
        let Map { inner, f } = self;
        inner.step(value, &mut |output| emit(f(output)))
    }

    fn finish(&mut self, emit: &mut dyn FnMut(U)) {
        let Map { inner, f } = self;
        inner.finish(&mut |output| emit(f(output)));
    }
}

/// The adaptor that [`Transform::filter`] returns.
pub struct Filter<X, P> {
    inner: X,
    accepts: P,
}

impl<X: Transform, P: FnMut(&X::Output) -> bool> Transform for Filter<X, P> {
    type Input = X::Input;
    type Output = X::Output;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(X::Output)) -> ControlFlow<()> {
        let Filter { inner, accepts } = self;
        inner.step(value, &mut |output| {
            if accepts(&output) {
                emit(output);
            }
        })
    }

    fn finish(&mut self, emit: &mut dyn FnMut(X::Output)) {
        let Filter { inner, accepts } = self;
        inner.finish(&mut |output| {
            if accepts(&output) {
                emit(output);
            }
        });
    }
}

/// The adaptor that [`Transform::flat_map`] returns.
pub struct FlatMap<X, F> {
    inner: X,
    f: F,
}

impl<X, I, F> Transform for FlatMap<X, F>
where
    X: Transform,
    I: IntoIterator,
    F: FnMut(X::Output) -> I,
{
    type Input = X::Input;
    type Output = I::Item;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(I::Item)) -> ControlFlow<()> {
        let FlatMap { inner, f } = self;
        inner.step(value, &mut |output| f(output).into_iter().for_each(&mut *emit))
    }

    fn finish(&mut self, emit: &mut dyn FnMut(I::Item)) {
        let FlatMap { inner, f } = self;
        inner.finish(&mut |output| f(output).into_iter().for_each(&mut *emit));
    }
}

/// The adaptor that [`Transform::take`] returns.
pub struct Take<X> {
    inner: X,
    left: usize,
}

impl<X: Transform> Take<X> {
    fn counted<R>(
        &mut self,
        emit: &mut dyn FnMut(X::Output),
        run: impl FnOnce(&mut X, &mut dyn FnMut(X::Output)) -> R,
    ) -> R {
        let Take { inner, left } = self;
        run(inner, &mut |output| {
            if *left > 0 {
                *left -= 1;
                emit(output);
            }
        })
    }
}

impl<X: Transform> Transform for Take<X> {
    type Input = X::Input;
    type Output = X::Output;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(X::Output)) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        let flow = self.counted(emit, |inner, emit| inner.step(value, emit));
        if self.left == 0 { ControlFlow::Break(()) } else { flow }
    }

    fn finish(&mut self, emit: &mut dyn FnMut(X::Output)) {
        self.counted(emit, X::finish);
    }
}

/// The adaptor that [`Transform::chunks`] returns.
pub struct Chunks<X: Transform> {
    inner: X,
    size: usize,
    chunk: Vec<X::Output>,
}

impl<X: Transform> Chunks<X> {
    fn chunked<R>(
        &mut self,
        emit: &mut dyn FnMut(Vec<X::Output>),
        run: impl FnOnce(&mut X, &mut dyn FnMut(X::Output)) -> R,
    ) -> R {
        let Chunks { inner, size, chunk } = self;
        run(inner, &mut |output| {
            chunk.push(output);
            if chunk.len() == *size {
                emit(std::mem::take(chunk));
            }
        })
    }
}

impl<X: Transform> Transform for Chunks<X> {
    type Input = X::Input;
    type Output = Vec<X::Output>;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(Self::Output)) -> ControlFlow<()> {
        self.chunked(emit, |inner, emit| inner.step(value, emit))
    }

    fn finish(&mut self, emit: &mut dyn FnMut(Self::Output)) {
        self.chunked(emit, X::finish);
        if !self.chunk.is_empty() {
            emit(std::mem::take(&mut self.chunk));
        }
    }
}

/// The adaptor that [`Transform::on_panic`] returns.
pub struct CatchPanic<X, H> {
    inner: X,
    handler: H,
}

impl<X: Transform, H: FnMut(PanicPayload) -> Option<X::Output>> CatchPanic<X, H> {
    /// Calls `run` and catches a panic in it. Emits the outputs after `run` has returned, so that a
    /// panic of a later step is not caught here.
    fn caught<R>(
        &mut self,
        emit: &mut dyn FnMut(X::Output),
        otherwise: R,
        run: impl FnOnce(&mut X, &mut dyn FnMut(X::Output)) -> R,
    ) -> R {
        let CatchPanic { inner, handler } = self;
        let mut outputs = Vec::new();
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            run(inner, &mut |output| outputs.push(output))
        }));
        outputs.into_iter().for_each(&mut *emit);
        result.unwrap_or_else(|payload| {
            handler(PanicPayload::from(payload)).into_iter().for_each(emit);
            otherwise
        })
    }
}

impl<X: Transform, H: FnMut(PanicPayload) -> Option<X::Output>> Transform for CatchPanic<X, H> {
    type Input = X::Input;
    type Output = X::Output;

    fn step(&mut self, value: X::Input, emit: &mut dyn FnMut(X::Output)) -> ControlFlow<()> {
        self.caught(emit, ControlFlow::Continue(()), |inner, emit| inner.step(value, emit))
    }

    fn finish(&mut self, emit: &mut dyn FnMut(X::Output)) {
        self.caught(emit, (), X::finish);
    }
}

macro_rules! opaque {
    ($($name:ident<$($parameter:ident),+>),+) => {
        $(
            impl<$($parameter),+> fmt::Debug for $name<$($parameter),+> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($name)).finish_non_exhaustive()
                }
            }
        )+
    };
}

opaque!(Map<X, F>, Filter<X, P>, FlatMap<X, F>, Take<X>, CatchPanic<X, H>);

impl<X: Transform> fmt::Debug for Chunks<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("size", &self.size).finish_non_exhaustive()
    }
}
