//! Ops in flight, as their drivers know them.

use super::attempt::{forget_hint, observe, without_waiting};
use super::op::{Interest, Op};
use super::{Completion, Token};
use std::cell::Cell;
use std::io;
use std::ptr;

/// An op that is about to be started, and what its driver notes about it. It lies in the frame that
/// waits for the op, and stays there until the op's completion has been handed out (S3).
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    op: &'a Op<'a>,
    /// The op has been attempted in vain, so that it has to wait.
    attempted: bool,
    token: Cell<Token>,
    /// Only readiness was asked for, not the op itself.
    pub(super) by_readiness: Cell<bool>,
    /// The op is to end early, or has ended.
    pub(super) cancelled: Cell<bool>,
}

/// A driver's pointer to an op in flight.
pub(super) type Flying = *const InFlight<'static>;

impl<'a> InFlight<'a> {
    /// `attempted`: an [attempt](super::at_once) has just found that the op has to wait.
    #[inline]
    pub(crate) fn new(op: &'a Op<'a>, attempted: bool) -> InFlight<'a> {
        InFlight {
            op,
            attempted,
            token: Cell::new(Token::new(0)),
            by_readiness: Cell::new(false),
            cancelled: Cell::new(false),
        }
    }

    #[inline]
    pub(super) fn op(&self) -> &'a Op<'a> {
        self.op
    }

    #[inline]
    pub(super) fn was_attempted(&self) -> bool {
        self.attempted
    }

    /// Returns the pointer by which the driver keeps the op, and notes the caller's token.
    #[inline]
    pub(super) fn keep(&self, token: Token) -> Flying {
        self.token.set(token);
        ptr::from_ref(self).cast()
    }

    #[inline]
    pub(super) fn token(&self) -> Token {
        self.token.get()
    }

    /// Returns the completion with this result of a system call, or negated errno.
    #[inline]
    pub(super) fn completion(&self, result: i32) -> Completion {
        Completion { token: self.token.get(), result }
    }

    /// Returns the completion after the kernel has carried out the op with this result, which is
    /// not negative.
    #[inline]
    pub(super) fn carried_out(&self, result: i32) -> Completion {
        observe(self.op, result.cast_unsigned());
        self.completion(result)
    }

    /// Attempts the op because there is news of its fd. Returns `None` if it still has to wait.
    ///
    /// # Safety
    /// S3: the op is in flight.
    #[expect(unsafe_code, reason = "attempts an op on raw pointers")]
    pub(super) unsafe fn resume(&self) -> Option<Completion> {
        if self.op.interest() == Interest::Read {
            // The news is used up by this op, so the hint must not say that there is none.
            forget_hint(self.op.descriptor());
        }
        // SAFETY: S3, the caller's promise.
        match unsafe { without_waiting(self.op) } {
            Ok(result) => Some(self.completion(result.cast_signed())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(self.completion(errno(&error))),
        }
    }
}

/// Returns the error as a completion's result.
pub(super) fn errno(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}
