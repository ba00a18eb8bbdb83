//! Several channels in lockstep: one value of each makes a row.

use std::cell::Cell;
use std::fmt;
use std::iter::FusedIterator;

use crate::channel::{Receiver, RecvError, TryRecvError};
use crate::source::{Arms, Choice, Chosen, Source, Won, choose};

/// A receiver, by value or by reference.
pub trait IntoReceiver {
    /// What it receives.
    type Item;

    /// The receiver itself, or a clone.
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

/// Receivers that [`zip_with`] can read in lockstep: tuples of up to eight, whose rows are tuples; vectors and arrays, whose rows are
/// vectors.
pub trait Lockstep {
    /// One value of each.
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

    /// Every column has a value.
    fn row(&self) -> Self::Row;
}

/// One of the channels, and its value for the row that is being filled.
#[doc(hidden)]
pub struct Pulled<T> {
    receiver: Receiver<T>,
    value: Cell<Option<T>>,
    full: Cell<bool>,
}

#[doc(hidden)]
pub trait Column {
    fn is_full(&self) -> bool;
    /// None: there is nothing yet.
    fn try_fill(&self) -> Option<Filled>;
    fn register<'a>(&'a self, arms: &mut Arms<'a>);
    fn finish(&self, won: &Won<'_>) -> Option<Filled>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Filled {
    Value,
    /// There will be no value: no row can be made any more.
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

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.receiver.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Filled> {
        Some(self.fill(self.receiver.__finish(won)?.ok()))
    }
}

/// Fills what is missing in a row, waiting until something can be.
struct Missing<'c, C>(&'c C);

impl<C: Columns> Missing<'_, C> {
    fn each<'a>(&'a self, mut visit: impl FnMut(&'a dyn Column)) {
        self.0.each(&mut |column| {
            if !column.is_full() {
                visit(column);
            }
        });
    }
}

impl<C: Columns> Choice for Missing<'_, C> {
    type Output = Filled;

    /// Fills as many as it can.
    fn attempt(&self) -> Option<Filled> {
        let mut filled = None;
        self.each(|column| {
            if filled != Some(Filled::Ended) {
                filled = column.try_fill().or(filled);
            }
        });
        filled
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.each(|column| {
            if !arms.is_ready() {
                column.register(arms);
            }
        });
    }

    fn finish(&self, won: &Won<'_>) -> Option<Filled> {
        let mut filled = None;
        self.each(|column| {
            if filled.is_none() {
                filled = column.finish(won);
            }
        });
        filled
    }
}

/// From [`zip_with`].
pub struct ZipWith<C, F> {
    columns: C,
    f: F,
    ended: bool,
}

/// A view of several channels in lockstep: takes one value of each, gives what `f` makes of them, and only then takes the next. It
/// waits for all that are missing at once, and ends as soon as one of the channels has; what had been taken from others for that row is
/// dropped. Over no channels it has ended from the start.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let names = channel::from_iter(["Ada", "Emmy"]);
/// let years = channel::from_iter([1815, 1882, 1906]);
/// let lines: Vec<_> = channel::zip_with((&names, &years), |(name, year)| format!("{name} {year}")).collect();
/// assert_eq!(lines, ["Ada 1815", "Emmy 1882"]);
///
/// let many: Vec<_> = (0..4).map(|n| channel::from_iter(n..n + 3)).collect();
/// let sums = channel::zip_with(many, |row: Vec<u32>| row.iter().sum::<u32>());
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
    /// Waits for a row.
    ///
    /// # Errors
    /// [`RecvError::Disconnected`] when one of the channels has ended, [`RecvError::Cancelled`] when the wait was cancelled.
    ///
    /// # Cancellation
    /// A cancel point. What has been taken for the row is kept for the next call.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    ///
    /// let mut sums = channel::zip_with((channel::from_iter([1, 2]), channel::from_iter([10])), |(a, b)| a + b);
    /// assert_eq!(sums.recv(), Ok(11));
    /// assert!(sums.recv().unwrap_err().is_disconnected());
    /// ```
    #[track_caller]
    pub fn recv(&mut self) -> Result<R, RecvError> {
        while !self.ended {
            match choose(&Missing(&self.columns), None) {
                Chosen::Ready(filled) => self.ended = filled == Filled::Ended,
                Chosen::Cancelled(_) => return Err(RecvError::Cancelled),
                Chosen::TimedOut => unreachable!("there is no deadline"),
            }
            if !self.ended && self.is_row() {
                return Ok((self.f)(self.columns.row()));
            }
        }
        Err(RecvError::Disconnected)
    }

    fn is_row(&self) -> bool {
        let mut missing = false;
        self.columns.each(&mut |column| missing |= !column.is_full());
        !missing
    }
}

/// Ends when a wait is cancelled, too; [`ZipWith::recv`] tells.
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
