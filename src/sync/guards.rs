//! `Debug` and `Display` of all lock guards: each is formatted as the value that it guards.

use std::fmt;

use super::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

macro_rules! shown_as_values {
    ($($guard:ident),*) => { $(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    )* };
}

shown_as_values!(MutexGuard, RwLockReadGuard, RwLockWriteGuard);
