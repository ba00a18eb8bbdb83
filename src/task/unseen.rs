//! Tells of an `Err` that a task has returned in vain: its handle was dropped.
//!
//! What a task returns can be anything, so the type's name says whether it is a `Result`, and the value's discriminant whether it is an
//! `Err`. Neither is promised to stay as it is; what depends on it is a line in the log.

use std::any;
use std::mem;

use super::header::Header;
use crate::base::report;

/// Whether a value that is about to be dropped unseen is an `Err`. Of other types than `Result` this is known when it is compiled.
#[inline]
pub(super) fn is_err<T>(value: &T) -> bool {
    any::type_name::<T>().starts_with("core::result::Result<") && is_second(value)
}

/// Whether an enum's value is the second of its variants.
#[cold]
fn is_second<T>(value: &T) -> bool {
    report::is_verbose() && format!("{:?}", mem::discriminant(value)) == "Discriminant(1)"
}

/// Says so, if the program is to say more than it has to.
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

    /// As long as std tells variants apart in this way.
    #[test]
    fn an_err_is_the_second_variant() {
        let number = "seven".parse::<u32>().map_err(|_| std::fmt::Error);
        assert_eq!(format!("{:?}", std::mem::discriminant(&number)), "Discriminant(1)");
        assert!(!is_second(&Ok::<(), ()>(())));
    }
}
