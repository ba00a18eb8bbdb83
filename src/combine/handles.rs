//! The shapes in which a list of handles can be passed.

use std::{array, iter, slice, vec};

use crate::scope::{Internals, Joinable};

/// Handles of tasks that return the same type: a tuple of up to 8, an array, a `Vec`, or a slice.
/// The iterators of these and [`map`](Iterator::map)ped iterators are accepted, too.
///
/// The trait is sealed.
///
/// # Examples
/// ```
/// use ecru::combine::Handles;
///
/// /// Returns how many of the tasks have returned `true`.
/// fn count(tasks: impl Handles<Output = bool>) -> usize {
///     ecru::join_all(tasks).into_iter().filter(|result| *result.as_ref().unwrap()).count()
/// }
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let tasks: Vec<_> = (0..3).map(|number| s.spawn(move || number > 0)).collect();
///         assert_eq!(count(&tasks[..2]), 1);
///         assert_eq!(count([&tasks[2]]), 1);
///     });
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of handles of tasks",
    label = "this is not a tuple, an array, a `Vec`, a slice or a mapped iterator of handles",
    note = "all handles of a list are of tasks that return the same type; `zip` takes a tuple of different ones"
)]
pub trait Handles: IntoList {}

impl<L: IntoList> Handles for L {}

/// Keeps the methods of the list out of the public API.
#[expect(unnameable_types, reason = "seals `Handles`")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of handles of tasks",
    label = "this is not a tuple, an array, a `Vec`, a slice or a mapped iterator of handles",
    note = "all handles of a list are of tasks that return the same type; `zip` takes a tuple of different ones"
)]
pub trait IntoList {
    /// The type that the tasks return.
    type Output;
    /// The handles in memory.
    type List: List<Output = Self::Output>;
    /// Collects the handles into a list.
    fn into_list(self) -> Self::List;
}

/// A list of handles in memory.
#[expect(unnameable_types, reason = "part of the sealed trait `Handles`")]
pub trait List {
    /// The type that the tasks return.
    type Output;
    /// Returns the number of handles.
    fn count(&self) -> usize;
    /// Returns the handle at `index`.
    fn at(&self, index: usize) -> &dyn Internals<Output = Self::Output>;
}

macro_rules! lists {
    ($([$($parameter:tt)*] $list:ty),* $(,)?) => {$(
        impl<H: Joinable, $($parameter)*> List for $list {
            type Output = H::Output;

            fn count(&self) -> usize {
                self.len()
            }

            fn at(&self, index: usize) -> &dyn Internals<Output = H::Output> {
                &self[index]
            }
        }

        impl<H: Joinable, $($parameter)*> IntoList for $list {
            type Output = H::Output;
            type List = Self;

            fn into_list(self) -> Self {
                self
            }
        }
    )*};
}

lists!([] Vec<H>, [] &Vec<H>, [] &[H], [] Box<[H]>, [const N: usize] [H; N], [const N: usize] &[H; N]);

macro_rules! iterators {
    ($([$($parameter:tt)*] $iterator:ty),* $(,)?) => {$(
        impl<$($parameter)*> IntoList for $iterator
        where
            H: Joinable,
            $iterator: Iterator<Item: Joinable<Output = H::Output>>,
        {
            type Output = H::Output;
            type List = Vec<<$iterator as Iterator>::Item>;

            fn into_list(self) -> Self::List {
                self.collect()
            }
        }
    )*};
}

iterators!(['h, H] slice::Iter<'h, H>, [H] vec::IntoIter<H>, [H, const N: usize] array::IntoIter<H, N>);

impl<H: Joinable, I, F> IntoList for iter::Map<I, F>
where
    iter::Map<I, F>: Iterator<Item = H>,
{
    type Output = H::Output;
    type List = Vec<H>;

    fn into_list(self) -> Vec<H> {
        self.collect()
    }
}

macro_rules! tuples {
    ($($count:literal: $($handle:ident $value:ident $index:tt),*;)*) => {$(
        impl<T, $($handle: Joinable<Output = T>),*> List for ($($handle,)*) {
            type Output = T;

            fn count(&self) -> usize {
                $count
            }

            fn at(&self, index: usize) -> &dyn Internals<Output = T> {
                match index {
                    $($index => &self.$index,)*
                    _ => unreachable!("a tuple of {} has no element {index}", $count),
                }
            }
        }

        impl<T, $($handle: Joinable<Output = T>),*> IntoList for ($($handle,)*) {
            type Output = T;
            type List = Self;

            fn into_list(self) -> Self {
                self
            }
        }
    )*};
}

/// Implements something for tuples of 1 to 8 handles. Each row has the length, and for each handle
/// its type, a type for its value, and its index.
macro_rules! for_each_arity {
    ($implement:ident) => {
        $implement! {
            1: A TA 0;
            2: A TA 0, B TB 1;
            3: A TA 0, B TB 1, C TC 2;
            4: A TA 0, B TB 1, C TC 2, D TD 3;
            5: A TA 0, B TB 1, C TC 2, D TD 3, E TE 4;
            6: A TA 0, B TB 1, C TC 2, D TD 3, E TE 4, F TF 5;
            7: A TA 0, B TB 1, C TC 2, D TD 3, E TE 4, F TF 5, G TG 6;
            8: A TA 0, B TB 1, C TC 2, D TD 3, E TE 4, F TF 5, G TG 6, H TH 7;
        }
    };
}

pub(super) use for_each_arity;

for_each_arity!(tuples);
