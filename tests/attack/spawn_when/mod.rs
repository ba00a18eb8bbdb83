//! Attacks on `spawn_when`, and what they share.

mod requests;
mod sources;
mod spawners;

use std::panic::resume_unwind;
use std::thread;

use ecru::JoinError;

/// Panics without a message on standard error.
pub(super) fn quiet(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// Panics when it is dropped.
pub(super) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet("a bomb");
        }
    }
}

#[track_caller]
pub(super) fn panic_of<T>(result: Result<T, JoinError>) -> String {
    match result {
        Err(JoinError::Panicked(payload)) => payload.message().unwrap_or_default().to_owned(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it returned"),
    }
}

pub(super) fn is_cancelled<T>(result: &Result<T, JoinError>) -> bool {
    matches!(result, Err(JoinError::Cancelled))
}
