//! A view of several channels in lockstep. One value of each channel makes a row.

use std::cell::Cell;
use std::fmt;
use std::iter::FusedIterator;

use ecru::Cancelled;
use ecru::channel::{Receiver, RecvError, TryRecvError};
use ecru::source::{self, Source};

/// A receiver, by value or by reference.
///
/// # Examples
/// ```
/// use ecru::channel::{Receiver, unbounded};
/// use ecru_flow::IntoReceiver;
///
/// /// Takes a receiver, or a reference to one, whose caller keeps it.
/// fn first<R: IntoReceiver>(receiver: R) -> Option<R::Item> {
///     receiver.into_receiver().try_recv().ok()
/// }
///
/// let (sender, numbers): (_, Receiver<u32>) = unbounded();
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// assert_eq!(first(&numbers), Some(1));
/// assert_eq!(first(numbers), Some(2));
/// ```
pub trait IntoReceiver {
    /// The type of the values.
    type Item;

    /// Returns the receiver itself, or a clone.
    fn into_receiver(self) -> Receiver<Self::Item>;
}

impl<T> IntoReceiver for Receiver<T> {
    type Item = T;

    fn into_receiver(self) -> Receiver<T> {
        self
    }
}

impl<T> IntoReceiver for &Receiver<T> {
    type Item = T;

    fn into_receiver(self) -> Receiver<T> {
        self.clone()
    }
}

/// Receivers that [`zip_with`] can read in lockstep. The rows of tuples of up to eight receivers
/// are tuples. The rows of vectors and arrays are vectors.
///
/// # Examples
/// ```
/// use ecru_flow::{from_iter, zip_with};
///
/// ecru::run(|| {
///     // A tuple has channels of different types, and an array any number of one type.
///     let rows = zip_with((from_iter([1, 2]), from_iter(["one", "two"])), |(n, word)| (word, n));
///     assert_eq!(rows.collect::<Vec<_>>(), [("one", 1), ("two", 2)]);
///     let sums = zip_with([from_iter([1, 2]), from_iter([10, 20])], |row| row[0] + row[1]);
///     assert_eq!(sums.collect::<Vec<_>>(), [11, 22]);
/// });
/// ```
pub trait Lockstep {
    /// One value of each receiver.
    type Row;

    #[doc(hidden)]
    type Columns: Columns<Row = Self::Row>;

    #[doc(hidden)]
    fn into_columns(self) -> Self::Columns;
}

#[doc(hidden)]
pub trait Columns {
    type Row;

    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn Column));

    /// Takes a row. The caller has made sure that every column is full.
    fn row(&self) -> Self::Row;
}

/// One of the channels, and its value for the next row.
#[doc(hidden)]
pub struct Pulled<T> {
    receiver: Receiver<T>,
    value: Cell<Option<T>>,
    full: Cell<bool>,
}

#[doc(hidden)]
pub trait Column {
    fn is_full(&self) -> bool;
    /// Receives a value if that needs no wait.
    fn try_fill(&self) -> Option<Filled>;
    /// Returns a source that receives a value.
    fn filling(&self) -> Box<dyn Source<Item = Filled> + '_>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Filled {
    Value,
    /// The channel has ended, so no further row can be made.
    Ended,
}

impl<T> Pulled<T> {
    fn new(receiver: Receiver<T>) -> Pulled<T> {
        Pulled { receiver, value: Cell::new(None), full: Cell::new(false) }
    }

    fn fill(&self, value: Option<T>) -> Filled {
        if value.is_none() {
            return Filled::Ended;
        }
        self.value.set(value);
        self.full.set(true);
        Filled::Value
    }

    fn take(&self) -> T {
        self.full.set(false);
        self.value.take().expect("a row is taken when every column has a value")
    }
}

impl<T> fmt::Debug for Pulled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulled").field("full", &self.full).finish_non_exhaustive()
    }
}

impl<T> Column for Pulled<T> {
    fn is_full(&self) -> bool {
        self.full.get()
    }

    fn try_fill(&self) -> Option<Filled> {
        match self.receiver.try_recv() {
            Ok(value) => Some(self.fill(Some(value))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Filled::Ended),
        }
    }

    fn filling(&self) -> Box<dyn Source<Item = Filled> + '_> {
        Box::new((&self.receiver).map(|received| self.fill(received.ok())))
    }
}

/// A view of several channels in lockstep, which [`zip_with`] returns.
pub struct ZipWith<C, F> {
    columns: C,
    f: F,
    ended: bool,
}

/// Returns a view of several channels in lockstep.
///
/// The view receives one value of each channel, calls `f` with the row, and then begins the next
/// row. It waits for all missing values of a row at once.
///
/// The view ends when one of the channels ends. The values that were received for an unfinished row
/// are then dropped. A view of no channels has ended from the start.
///
/// # Examples
/// ```
/// use ecru_flow::{from_iter, zip_with};
///
/// let names = from_iter(["Ada", "Emmy"]);
/// let years = from_iter([1815, 1882, 1906]);
/// let lines: Vec<_> =
///     zip_with((&names, &years), |(name, year)| format!("{name} {year}")).collect();
/// assert_eq!(lines, ["Ada 1815", "Emmy 1882"]);
///
/// let many: Vec<_> = (0..4).map(|n| from_iter(n..n + 3)).collect();
/// let sums = zip_with(many, |row: Vec<u32>| row.iter().sum::<u32>());
/// assert_eq!(sums.collect::<Vec<_>>(), [6, 10, 14]);
/// ```
pub fn zip_with<L, F, R>(receivers: L, f: F) -> ZipWith<L::Columns, F>
where
    L: Lockstep,
    F: FnMut(L::Row) -> R,
{
    let columns = receivers.into_columns();
    let mut ended = true;
    columns.each(&mut |_| ended = false);
    ZipWith { columns, f, ended }
}

impl<C: Columns, F: FnMut(C::Row) -> R, R> ZipWith<C, F> {
    /// Waits for a row, and returns the result of `f` for it.
    ///
    /// # Errors
    /// Returns [`RecvError::Disconnected`] if one of the channels has ended, and
    /// [`RecvError::Cancelled`] if the wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. Values that were received for the row are kept for the next
    /// call.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{from_iter, zip_with};
    ///
    /// let mut sums = zip_with((from_iter([1, 2]), from_iter([10])), |(a, b)| a + b);
    /// assert_eq!(sums.recv(), Ok(11));
    /// assert!(sums.recv().unwrap_err().is_disconnected());
    /// ```
    #[track_caller]
    pub fn recv(&mut self) -> Result<R, RecvError> {
        while !self.ended {
            ecru::checkpoint()?;
            let filled = match self.fill_at_once() {
                Some(filled) => filled,
                None => self.wait_for_one()?,
            };
            self.ended = filled == Filled::Ended;
            if !self.ended && self.is_row() {
                return Ok((self.f)(self.columns.row()));
            }
        }
        Err(RecvError::Disconnected)
    }

    fn each_missing<'a>(&'a self, mut visit: impl FnMut(&'a dyn Column)) {
        self.columns.each(&mut |column| {
            if !column.is_full() {
                visit(column);
            }
        });
    }

    /// Fills as many columns as possible without a wait. Returns `None` if no column could be
    /// filled.
    fn fill_at_once(&self) -> Option<Filled> {
        let mut filled = None;
        self.each_missing(|column| {
            if filled != Some(Filled::Ended) {
                filled = column.try_fill().or(filled);
            }
        });
        filled
    }

    /// Waits until one of the missing columns is filled.
    #[track_caller]
    fn wait_for_one(&self) -> Result<Filled, Cancelled> {
        let mut missing = Vec::new();
        self.each_missing(|column| missing.push(column.filling()));
        source::race(missing).wait()
    }

    fn is_row(&self) -> bool {
        let mut missing = false;
        self.each_missing(|_| missing = true);
        !missing
    }
}

/// Ends when one of the channels has ended, and when a wait is cancelled. [`ZipWith::recv`] tells
/// the two apart.
impl<C: Columns, F: FnMut(C::Row) -> R, R> Iterator for ZipWith<C, F> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let made = self.recv().ok();
        self.ended |= made.is_none();
        made
    }
}

impl<C: Columns, F: FnMut(C::Row) -> R, R> FusedIterator for ZipWith<C, F> {}

impl<C, F> fmt::Debug for ZipWith<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZipWith").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<T> Columns for Vec<Pulled<T>> {
    type Row = Vec<T>;

    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn Column)) {
        self.iter().for_each(|column| visit(column));
    }

    fn row(&self) -> Vec<T> {
        self.iter().map(Pulled::take).collect()
    }
}

impl<S: IntoReceiver> Lockstep for Vec<S> {
    type Row = Vec<S::Item>;
    type Columns = Vec<Pulled<S::Item>>;

    fn into_columns(self) -> Self::Columns {
        self.into_iter().map(|receiver| Pulled::new(receiver.into_receiver())).collect()
    }
}

impl<S: IntoReceiver, const N: usize> Lockstep for [S; N] {
    type Row = Vec<S::Item>;
    type Columns = Vec<Pulled<S::Item>>;

    fn into_columns(self) -> Self::Columns {
        self.into_iter().map(|receiver| Pulled::new(receiver.into_receiver())).collect()
    }
}

macro_rules! tuples {
    ($($receiver:ident $value:ident $at:tt),+) => {
        impl<$($value),+> Columns for ($(Pulled<$value>,)+) {
            type Row = ($($value,)+);

            fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a dyn Column)) {
                $(visit(&self.$at);)+
            }

            fn row(&self) -> Self::Row {
                ($(self.$at.take(),)+)
            }
        }

        impl<$($receiver: IntoReceiver),+> Lockstep for ($($receiver,)+) {
            type Row = ($($receiver::Item,)+);
            type Columns = ($(Pulled<$receiver::Item>,)+);

            fn into_columns(self) -> Self::Columns {
                ($(Pulled::new(self.$at.into_receiver()),)+)
            }
        }
    };
}

tuples!(A T 0);
tuples!(A T 0, B U 1);
tuples!(A T 0, B U 1, C V 2);
tuples!(A T 0, B U 1, C V 2, D W 3);
tuples!(A T 0, B U 1, C V 2, D W 3, E X 4);
tuples!(A T 0, B U 1, C V 2, D W 3, E X 4, F Y 5);
tuples!(A T 0, B U 1, C V 2, D W 3, E X 4, F Y 5, G Z 6);
tuples!(A T 0, B U 1, C V 2, D W 3, E X 4, F Y 5, G Z 6, H Z1 7);
