//! The results of a map.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::Arc;

use ecru::channel::{self, Receiver};

use crate::codec::{self, Wire};
use crate::errors::CallError;
use crate::map::{Order, Ready, Taken, Taker};
use crate::outcome::Outcome;

/// The results of a [`map`](crate::Function::map), in the order of the items: an iterator of
/// `Result<R, CallError>`.
///
/// After a cancellation of the caller, or the end of the fleet, it returns that error once, and
/// then `None`.
pub struct Results<'scope, R> {
    taker: Taker,
    order: Order,
    has_failed: bool,
    _result: PhantomData<fn() -> (R, &'scope ())>,
}

impl<R: Wire> Results<'_, R> {
    pub(crate) fn new(taker: Taker) -> Self {
        let (order, has_failed) = (Order::ByIndex, false);
        Results { taker, order, has_failed, _result: PhantomData }
    }

    /// Returns a channel of the results with the indices of their items, each as soon as it is
    /// there. It is disconnected after the last one, and at the end of the fleet. If the map cannot
    /// go on, the last result is that error, with the index [`usize::MAX`].
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let square = fleet.function("square", |n: u64, _run| Ok(n * n)).open()?;
    ///         s.spawn_daemon({
    ///             let square = square.clone();
    ///             move || square.serve(8)
    ///         });
    ///         let mut sum = 0;
    ///         for (index, result) in square.map("sum", 0..5)?.results() {
    ///             assert_eq!(result.unwrap(), (index * index) as u64);
    ///             sum += index;
    ///         }
    ///         assert_eq!(sum, 10);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn results(self) -> Receiver<(usize, Result<R, CallError>)> {
        let Results { taker, has_failed, .. } = self;
        let (give, receiver) = channel::bounded(16);
        let core = Arc::clone(taker.core());
        let order = Order::ByCompletion;
        let mut taking: Results<'static, R> =
            Results { taker, order, has_failed, _result: PhantomData };
        // If the fleet has ended, the receiver is disconnected.
        let _ = core.pull(Box::new(move || {
            while let Some((index, result)) = taking.take_one() {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if give.send((index, result)).is_err() {
                    break;
                }
            }
        }));
        receiver
    }

    fn take_one(&mut self) -> Option<(u64, Result<R, CallError>)> {
        if self.has_failed {
            return None;
        }
        let taken = self.taker.take(self.order).unwrap_or_else(|error| Taken::Failed(error.into()));
        let (index, bytes) = match taken {
            Taken::Complete => return None,
            Taken::Failed(error) => {
                self.has_failed = true;
                return Some((u64::MAX, Err(error)));
            }
            Taken::Ready(index, Ready::Seen(bytes)) => (index, Ok(bytes)),
            Taken::Ready(index, Ready::Refused(error)) => (index, Err(error.into())),
            Taken::Stored(index) => (index, self.taker.read(index)),
        };
        let result = bytes
            .and_then(|bytes| codec::decode::<Outcome<R>>("the result", &bytes)?.into_result());
        Some((index, result))
    }
}

impl<R: Wire> Iterator for Results<'_, R> {
    type Item = Result<R, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_one().map(|(_, result)| result)
    }
}

impl<R: Wire> FusedIterator for Results<'_, R> {}

impl<R> fmt::Debug for Results<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, taken) = self.taker.counts();
        f.debug_struct("Results")
            .field("sent", &sent)
            .field("taken", &taken)
            .finish_non_exhaustive()
    }
}
