//! Cancellation of a section of code by a handle.

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use super::frame::Opened;
use super::section::Section;
use super::when_cancelled::WhenCancelled;
use crate::task::cancel::{self, SectionNode};
use crate::task::{self, CancelReason};

/// A handle that cancels the section of code run by [`cancel_scope`]. It can be cloned, and it may
/// outlive the section. After the section has ended, the handle does nothing.
#[derive(Clone)]
pub struct CancelHandle {
    section: Arc<Section>,
}

impl CancelHandle {
    /// Cancels the section. Its waits, and those of the tasks below it, return
    /// [`Cancelled`](crate::Cancelled) with the reason [`Explicit`](CancelReason::Explicit). The
    /// request is permanent. This may be called from any task or thread, and more than once.
    pub fn cancel(&self) {
        cancel::cancel(self.section.node(), CancelReason::Explicit);
    }

    /// Sets the time at which the section is cancelled with the reason
    /// [`Deadline`](CancelReason::Deadline), or moves it, or with `None` takes it away. Accepts an
    /// `Instant` or an `Option<Instant>`. Never waits, and may be called from any task or thread,
    /// any number of times.
    ///
    /// Once the time has passed, the section is cancelled for good, and moving its limit has no
    /// effect. Limits further out apply as before. Code that need not wait notices the limit as it
    /// notices that of a [`timeout`](crate::timeout()). Unlike `timeout`, `cancel_scope` returns what
    /// its body returns: [`is_cancelled`](CancelHandle::is_cancelled) tells whether the time was up.
    ///
    /// On a plain thread, a wait takes the limit that is set when it begins. If the limit is moved
    /// to a later time meanwhile, the wait goes on until then. If it is moved to an earlier time, the
    /// next wait sees that.
    ///
    /// # Panics
    /// Panics if the thread that keeps such limits cannot be started.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use std::time::Duration;
    ///
    /// // The limit is for each message, and not for all of them.
    /// let (sender, messages) = channel::unbounded();
    /// (0..3).for_each(|number| sender.send(number).unwrap());
    /// let received = ecru::cancel_scope(|idle| {
    ///     let mut received = 0;
    ///     loop {
    ///         idle.set_deadline(ecru::time::now() + Duration::from_millis(2));
    ///         match messages.recv() {
    ///             Ok(_) => received += 1,
    ///             Err(_) => return received,
    ///         }
    ///     }
    /// });
    /// assert_eq!(received, 3);
    /// ```
    pub fn set_deadline(&self, deadline: impl Into<Option<Instant>>) {
        self.section.set_deadline(deadline.into());
    }

    /// Returns the section's own time limit, if [`set_deadline`](CancelHandle::set_deadline) has set
    /// one. [`task::deadline`](crate::task::deadline()) returns the nearest limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.section.deadline()
    }

    /// Returns a source that has an item, the reason, once the section is cancelled. From then on it
    /// always has one. If the section ends without that, the source has an item only if
    /// [`cancel`](CancelHandle::cancel) is called later.
    ///
    /// It is for tasks and threads outside of the section. Inside, the wait itself is cancelled.
    ///
    /// # Examples
    /// ```
    /// use ecru::{CancelReason, Source, channel, select};
    ///
    /// let (_sender, work) = channel::unbounded::<u32>();
    /// ecru::cancel_scope(|c| {
    ///     std::thread::scope(|s| {
    ///         let stop = c.cancelled();
    ///         let reason = s.spawn(move || {
    ///             select! {
    ///                 recv(work) -> _ => None,
    ///                 wait(stop) -> reason => reason.ok(),
    ///             }
    ///         });
    ///         c.cancel();
    ///         assert_eq!(reason.join().unwrap(), Some(CancelReason::Explicit));
    ///     });
    /// });
    /// ```
    pub fn cancelled(&self) -> WhenCancelled {
        WhenCancelled::new(&self.section)
    }

    /// Returns whether [`cancel`](CancelHandle::cancel) has been called or a request from further
    /// out has arrived.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.section.node().cancelled().is_some()
    }
}

impl CancelHandle {
    /// Returns whether both handles cancel the same scope.
    pub(crate) fn is_same(&self, other: &CancelHandle) -> bool {
        Arc::ptr_eq(&self.section, &other.section)
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// Runs `body` in place, with a handle that cancels the waits inside it. `body` can use the handle
/// itself or pass it to other tasks and threads.
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let slept = ecru::cancel_scope(|c| {
///             s.spawn(move || c.cancel());
///             ecru::sleep(Duration::from_secs(3600))
///         });
///         assert!(slept.is_err());
///         // Outside nothing is cancelled.
///         assert!(ecru::checkpoint().is_ok());
///     });
/// });
/// ```
pub fn cancel_scope<T>(body: impl FnOnce(CancelHandle) -> T) -> T {
    struct Leave<'s>(&'s Section);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            // Handles may outlive the frame and the task.
            self.0.end();
        }
    }
    let owner = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let section = Arc::new(Section::new(SectionNode::new(task::current_node(), owner)));
    let _leave = Leave(&section);
    let _opened = Opened::inside(section.node());
    section.node().become_limit();
    body(CancelHandle { section: Arc::clone(&section) })
}
