//! Reports of results that are dropped with the handle of their task: an `Err`, and a future, which
//! has then done nothing.
//!
//! | build | an `Err` is reported | a future is reported |
//! |---|---|---|
//! | debug | once for each place of a spawn, unless its task had been cancelled | each |
//! | any, with `ECRU_LOG=1` | each | each |
//! | release | never | never |
//!
//! A task that has been cancelled is expected to return an `Err`. In a loop, the first error tells
//! what the others would.
//!
//! A task's result can have any type. The type's name tells whether it is a `Result`, and the
//! value's discriminant tells whether it is an `Err`. The names of the futures of `async` are those
//! of closures. None of this is guaranteed to stay as it is, but only a line in the log depends on
//! it.

use std::any;
use std::mem;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use super::current;
use super::header::Header;
use crate::base::report;

/// The maximal number of places at which a debug build reports an `Err`.
const PLACES_MAX: usize = 64;

/// The places of the tasks whose `Err` has been reported, and the types of the results. One place
/// can spawn tasks of several types, in a generic function.
static REPORTED: Mutex<Vec<(&Location<'static>, &str)>> = Mutex::new(Vec::new());

/// Returns whether a value that is about to be dropped unseen is an `Err`. For types other than
/// `Result`, the answer is a constant at compile time.
#[inline]
fn is_err<T>(value: &T) -> bool {
    is_result::<T>() && is_reporting() && is_second(value)
}

#[inline]
fn is_result<T>() -> bool {
    any::type_name::<T>().starts_with("core::result::Result<")
}

/// Returns whether anything is reported. In a debug build, the answer is a constant.
#[inline]
fn is_reporting() -> bool {
    cfg!(debug_assertions) || report::is_verbose()
}

/// Keeps a debug build from reporting the `Err` of the running task, which has just returned a
/// result of this type, if the task has been cancelled.
#[inline]
pub(super) fn excuse_if_cancelled<T>(header: &Header) {
    if cfg!(debug_assertions)
        && is_result::<T>()
        && current::cancelled().is_some()
        && !report::is_verbose()
    {
        header.hush();
    }
}

/// Returns whether a value of this type that is dropped unseen is reported, because it is probably
/// a future: `s.spawn(fetch)` with an `async fn fetch` runs nothing. For other types, the answer is
/// a constant at compile time.
#[inline]
fn is_future<T>() -> bool {
    let name = any::type_name::<T>();
    (name.ends_with("{{closure}}") || name.starts_with(BOXED)) && is_reporting()
}

/// The name of a boxed future begins with this.
const BOXED: &str = "core::pin::Pin<alloc::boxed::Box<dyn core::future::future::Future";

/// Reports what is wrong with the result of a task that is about to be dropped unseen, if anything
/// is.
#[inline]
pub(super) fn look<T>(header: &Header, value: &T) {
    if is_err(value) {
        report_err(header, any::type_name::<T>());
    } else if is_future::<T>() {
        report_future(header, any::type_name::<T>());
    }
}

/// Drops the result of a task without a handle, on that task. A future is reported.
pub(crate) fn drop_unseen<T>(value: T) {
    if is_future::<T>()
        && let Some(header) = super::current_header()
    {
        report_future(header, any::type_name::<T>());
    }
    drop(value);
}

/// Returns whether an enum's value is the second of its variants.
#[cold]
fn is_second<T>(value: &T) -> bool {
    format!("{:?}", mem::discriminant(value)) == "Discriminant(1)"
}

#[cold]
fn report_future(header: &Header, of_type: &str) {
    report(
        header,
        "a future or a closure that nothing has run; for a future, use `spawn_future`",
        of_type,
    );
}

#[cold]
fn report_err(header: &Header, of_type: &'static str) {
    if report::is_verbose() || (!header.is_hushed() && is_first(header.spawned_at(), of_type)) {
        let fault = "`Err`, and its handle was dropped without a join; join it, or use `try_scope`";
        report(header, fault, of_type);
    }
}

/// Returns whether no `Err` of this type has been reported for a task of this place.
fn is_first(place: &'static Location<'static>, of_type: &'static str) -> bool {
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = reported.len() < PLACES_MAX && !reported.contains(&(place, of_type));
    if is_first {
        reported.push((place, of_type));
    }
    is_first
}

/// Reports the fault, unless the task is hushed.
fn report(header: &Header, fault: &str, of_type: &str) {
    if !header.is_hushed() {
        report::say(format!("ecru: {} has returned {fault}: {of_type}", header.description()));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::is_second;

    /// Holds as long as std formats discriminants in this way.
    #[test]
    fn an_err_is_the_second_variant() {
        let number = "seven".parse::<u32>().map_err(|_| std::fmt::Error);
        assert_eq!(format!("{:?}", std::mem::discriminant(&number)), "Discriminant(1)");
        assert!(!is_second(&Ok::<(), ()>(())));
    }
}
