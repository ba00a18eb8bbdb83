//! Reports of results that are dropped with the handle of their task: an `Err`, and a future, which
//! has then done nothing.
//!
//! A task's result can have any type. The type's name tells whether it is a `Result`, and the
//! value's discriminant tells whether it is an `Err`. The names of the futures of `async` are those
//! of closures. None of this is guaranteed to stay as it is, but only a line in the log depends on
//! it.

use std::any;
use std::mem;

use super::header::Header;
use crate::base::report;

/// Returns whether a value that is about to be dropped unseen is an `Err`. For types other than
/// `Result`, the answer is a constant at compile time.
#[inline]
fn is_err<T>(value: &T) -> bool {
    any::type_name::<T>().starts_with("core::result::Result<") && is_second(value)
}

/// Returns whether a value of this type that is dropped unseen is reported, because it is probably
/// a future: `s.spawn(fetch)` with an `async fn fetch` runs nothing. For other types, the answer is
/// a constant at compile time.
#[inline]
fn is_future<T>() -> bool {
    let name = any::type_name::<T>();
    (name.ends_with("{{closure}}") || name.starts_with(BOXED))
        && (cfg!(debug_assertions) || report::is_verbose())
}

/// The name of a boxed future begins with this.
const BOXED: &str = "core::pin::Pin<alloc::boxed::Box<dyn core::future::future::Future";

/// Returns what is wrong with a result of this type that is about to be dropped unseen.
#[inline]
pub(super) fn fault<T>(value: &T) -> Option<&'static str> {
    if is_err(value) {
        return Some("`Err`, and its handle was dropped without a join");
    }
    is_future::<T>()
        .then_some("a future or a closure that nothing has run; for a future, use `spawn_future`")
}

/// Drops the result of a task without a handle, on that task. A future is reported.
pub(crate) fn drop_unseen<T>(value: T) {
    if is_future::<T>()
        && let (Some(header), Some(fault)) = (super::current_header(), fault(&value))
    {
        report(header, fault, any::type_name::<T>());
    }
    drop(value);
}

/// Returns whether an enum's value is the second of its variants.
#[cold]
fn is_second<T>(value: &T) -> bool {
    report::is_verbose() && format!("{:?}", mem::discriminant(value)) == "Discriminant(1)"
}

/// Reports the fault, unless the task is hushed.
#[cold]
pub(super) fn report(header: &Header, fault: &str, of_type: &str) {
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
