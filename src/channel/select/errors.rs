//! The errors of a [`Select`](super::Select).

use std::{error, fmt};

/// The error of [`Select::try_select`](super::Select::try_select): no operation was possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrySelectError;

/// The error of [`Select::select_timeout`](super::Select::select_timeout): no operation became
/// possible in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectTimeoutError;

/// The error of [`Select::try_ready`](super::Select::try_ready): no operation was possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryReadyError;

/// The error of [`Select::ready_timeout`](super::Select::ready_timeout): no operation became
/// possible in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTimeoutError;

impl fmt::Display for TrySelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all operations in select would wait")
    }
}

impl fmt::Display for SelectTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out waiting on select")
    }
}

impl fmt::Display for TryReadyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no operation in select is ready")
    }
}

impl fmt::Display for ReadyTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out waiting for an operation in select to be ready")
    }
}

impl error::Error for TrySelectError {}
impl error::Error for SelectTimeoutError {}
impl error::Error for TryReadyError {}
impl error::Error for ReadyTimeoutError {}
