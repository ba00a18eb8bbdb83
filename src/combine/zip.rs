//! All values of several tasks, or the first failure.

use std::{array, iter, slice, vec};

use super::all::{collect, keep, success};
use super::engine::find_ended;
use super::handles::{IntoList, for_each_arity};
use crate::scope::{Claimed, FromJoinError, JoinError, Joinable};

/// Waits until all tasks have succeeded, and returns their values. For a tuple of handles the
/// values are a tuple, and the tasks may return different types. For a list they are a `Vec`. The
/// first failure in time is returned at once, and the other tasks are neither awaited nor
/// cancelled.
///
/// # Errors
/// Returns the first failure. Returns [`JoinError::CallerCancelled`] if the caller is cancelled,
/// and [`JoinError::Empty`] if there are no handles.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point. Handles that were passed by reference can still be joined,
/// including those of tasks that have succeeded.
///
/// # Examples
/// ```
/// use ecru::JoinError;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let number = s.spawn(|| Ok::<_, JoinError>(1));
///         let word = s.spawn(|| Ok::<_, JoinError>("one"));
///         assert_eq!(ecru::zip((number, word)).unwrap(), (1, "one"));
///         let list = (0..3).map(|n| s.spawn(move || Ok::<_, JoinError>(n))).collect::<Vec<_>>();
///         assert_eq!(ecru::zip(list).unwrap(), [0, 1, 2]);
///     });
/// });
/// ```
#[track_caller]
pub fn zip<Z: Zip>(handles: Z) -> Result<Z::Values, Z::Error> {
    handles.zipped()
}

/// The argument of [`zip`]: a tuple of up to 8 handles, or a list.
///
/// The trait is sealed.
///
/// # Examples
/// ```
/// use ecru::combine::Zip;
/// use std::io;
///
/// /// Reads a name and a size at once. The caller spawns what reads them.
/// fn describe(parts: impl Zip<Values = (String, u64), Error = io::Error>) -> io::Result<String> {
///     let (name, size) = ecru::zip(parts)?;
///     Ok(format!("{name}: {size} bytes"))
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let name = s.spawn(|| Ok("readme".to_owned()));
///         let size = s.spawn(|| Ok(17));
///         assert_eq!(describe((name, size)).unwrap(), "readme: 17 bytes");
///     });
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be zipped",
    label = "this is not a tuple or a list of handles whose tasks return `Result<_, E>`",
    note = "the error type `E` is the same for all, and implements `From<ecru::JoinError>`"
)]
pub trait Zip: Zipped {}

impl<Z: Zipped> Zip for Z {}

/// Keeps the method out of the public API.
#[expect(unnameable_types, reason = "seals `Zip`")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be zipped",
    label = "this is not a tuple or a list of handles whose tasks return `Result<_, E>`",
    note = "the error type `E` is the same for all, and implements `From<ecru::JoinError>`"
)]
pub trait Zipped {
    /// A tuple or a `Vec` of the values.
    type Values;
    /// The type with which the tasks fail.
    type Error;
    /// Does what [`zip`] documents.
    #[doc(hidden)]
    fn zipped(self) -> Result<Self::Values, Self::Error>;
}

macro_rules! lists {
    ($([$($parameter:tt)*] $list:ty),* $(,)?) => {$(
        impl<$($parameter)*, T, E> Zipped for $list
        where
            E: FromJoinError,
            $list: IntoList<Output = Result<T, E>>,
        {
            type Values = Vec<T>;
            type Error = E;

            #[track_caller]
            fn zipped(self) -> Result<Vec<T>, E> {
                collect(&self.into_list(), || ())
            }
        }
    )*};
}

lists!([H] Vec<H>, ['l, H] &'l Vec<H>, ['l, H] &'l [H], [H] Box<[H]>);
lists!([H, const N: usize] [H; N], ['l, H, const N: usize] &'l [H; N]);
lists!(['l, H] slice::Iter<'l, H>, [H] vec::IntoIter<H>, [H, const N: usize] array::IntoIter<H, N>);
lists!([I, F] iter::Map<I, F>);

macro_rules! tuples {
    ($($count:literal: $($handle:ident $value:ident $index:tt),*;)*) => {$(
        impl<Failure: FromJoinError, $($value, $handle),*> Zipped for ($($handle,)*)
        where
            $($handle: Joinable<Output = Result<$value, Failure>>,)*
        {
            type Values = ($($value,)*);
            type Error = Failure;

            #[track_caller]
            fn zipped(self) -> Result<Self::Values, Failure> {
                let mut values = ($(None::<Claimed<'_, $handle>>,)*);
                let tasks = [$(self.$index.task().0),*];
                let failure = find_ended($count, &|index| tasks[index], |index, _| match index {
                    $($index => success(&self.$index).map(|ok| values.$index = Some(ok)).err(),)*
                    _ => unreachable!("{} tasks are watched", $count),
                })
                .map_err(Failure::from_join_error)?;
                match failure {
                    Some(error) => Err(error),
                    None => Ok(($(keep(values.$index),)*)),
                }
            }
        }
    )*};
}

impl Zipped for () {
    type Values = ();
    type Error = JoinError;

    #[track_caller]
    fn zipped(self) -> Result<(), JoinError> {
        find_ended(0, &|_| unreachable!("there are no tasks"), |_, _| None::<()>).map(drop)
    }
}

for_each_arity!(tuples);
