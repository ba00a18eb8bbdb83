//! Ops in flight, as their drivers know them.
#![expect(unsafe_code, reason = "attempts ops on raw pointers")]

use super::attempt::{forget_hint, observe, without_waiting};
use super::op::{Interest, Op};
use super::stream::{is_shut_for_reading, is_stream_socket};
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
    /// The op waits for an edge of its fd, in a set beside the ring.
    pub(super) by_edges: Cell<bool>,
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
            by_edges: Cell::new(false),
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

    /// Returns whether the kernel has done all of the op by handing it back with this result, which
    /// is not negative.
    #[inline]
    pub(super) fn is_carried_out_by(&self, result: i32) -> bool {
        match *self.op {
            Op::Readiness { interest, .. } => result & i32::from(interest.events()) != 0,
            _ => !self.by_readiness.get(),
        }
    }

    /// Attempts the op because there is news of its fd. Returns `None` if it still has to wait.
    ///
    /// # Safety
    /// S3: the op is in flight.
    pub(super) unsafe fn resume(&self) -> Option<Completion> {
        if self.op.interest() == Interest::Read {
            // The news is used up by this op, so the hint must not say that there is none.
            forget_hint(self.op.descriptor());
        }
        // SAFETY: S3, the caller's promise.
        match unsafe { self.attempt() } {
            Some(result) if is_error_entry(self.op, result.cast_unsigned()) => None,
            Some(result) => Some(self.completion(result)),
            // SAFETY: S3, the caller's promise.
            None => unsafe { self.end_by_shutdown() },
        }
    }

    /// Returns the completion of a read or an accept whose socket has been shut for reading. Such a
    /// call ends in blocking mode. In non-blocking mode, it still says that it would wait.
    ///
    /// # Safety
    /// S3: the op is in flight.
    #[cold]
    unsafe fn end_by_shutdown(&self) -> Option<Completion> {
        if !self.op.ends_by_shutdown() || !is_shut_for_reading(self.op.descriptor().fd) {
            return None;
        }
        // What has come before the end is still there.
        // SAFETY: S3, the caller's promise.
        let result = unsafe { self.attempt() }.unwrap_or_else(|| match *self.op {
            Op::Accept { .. } => -libc::EINVAL,
            Op::RecvMsg { message, .. } => {
                // SAFETY: S3, the caller's promise: the message is valid.
                unsafe { (*message).msg_namelen = 0 };
                0
            }
            _ => 0,
        });
        Some(self.completion(result))
    }

    /// Attempts the op. Returns its result or negated errno, or `None` if it has to wait.
    ///
    /// # Safety
    /// S3: the op is in flight.
    #[inline]
    unsafe fn attempt(&self) -> Option<i32> {
        // SAFETY: S3, the caller's promise.
        match unsafe { without_waiting(self.op) } {
            Ok(result) => Some(result.cast_signed()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(errno(&error)),
        }
    }
}

/// Returns whether the only event that a wait for readiness has found is an entry in the error
/// queue of a stream. It stays until the queue is read, and no transfer reads it. After an error of
/// the connection itself, a stream is also readable and writable.
pub(super) fn is_error_entry(op: &Op<'_>, result: u32) -> bool {
    matches!(op, Op::Readiness { fd, .. }
        if result == u32::from(libc::POLLERR.cast_unsigned()) && is_stream_socket(fd.fd))
}

/// Returns the error as a completion's result.
pub(super) fn errno(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}
