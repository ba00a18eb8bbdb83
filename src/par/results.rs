//! The results of all items, or the panic of the first that panicked.

use std::panic;

use crate::scope::JoinError;
use crate::task::drop_quietly;

/// Returns the values of all items.
///
/// # Panics
/// Continues the panic of the first item that panicked. The results of the others are dropped
/// before: a destructor that panics during the unwinding would abort the process.
pub(super) fn values<R>(results: Vec<Result<R, JoinError>>) -> Vec<R> {
    let mut values = Vec::with_capacity(results.len());
    let mut results = results.into_iter();
    while let Some(result) = results.next() {
        match result {
            Ok(value) => values.push(value),
            Err(JoinError::Panicked(payload)) => {
                values.into_iter().for_each(drop_quietly);
                results.for_each(drop_quietly);
                panic::resume_unwind(payload.into_inner());
            }
            Err(other) => {
                unreachable!("an item always begins and is joined once under a shield: {other}")
            }
        }
    }
    values
}
