//! A report of an `Err` that a task returned after its handle was dropped.
//!
//! A task's result can have any type. The type's name tells whether it is a `Result`, and the
//! value's discriminant tells whether it is an `Err`. Neither is guaranteed to stay as it is, but
//! only a line in the log depends on it.

use std::any;
use std::mem;

use super::header::Header;
use crate::base::report;

/// Returns whether a value that is about to be dropped unseen is an `Err`. For types other than
/// `Result`, the answer is a constant at compile time.
#[inline]
pub(super) fn is_err<T>(value: &T) -> bool {
    any::type_name::<T>().starts_with("core::result::Result<") && is_second(value)
}

/// Returns whether an enum's value is the second of its variants.
#[cold]
fn is_second<T>(value: &T) -> bool {
    report::is_verbose() && format!("{:?}", mem::discriminant(value)) == "Discriminant(1)"
}

/// Reports the `Err`, unless the task is hushed.
#[cold]
pub(super) fn report(header: &Header, of_type: &str) {
    if !header.is_hushed() {
        report::say(format!(
            "ecru: {} has returned `Err`, and its handle was dropped without a join: {of_type}",
            header.description(),
        ));
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
