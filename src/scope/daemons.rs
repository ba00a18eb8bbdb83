//! Scopes of either kind, for functions that start daemons.

use super::{Scope, TryScope};

/// A scope of either kind, [`Scope`] or [`TryScope`], for functions whose daemons become those of
/// their caller's scope. The trait is sealed.
///
/// # Examples
/// ```
/// use ecru::Daemons;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use std::time::Duration;
///
/// /// Counts the milliseconds until the scope ends.
/// fn count<'scope>(s: &'scope impl Daemons<'scope>, to: &'scope AtomicU32) {
///     let tick = || while ecru::sleep(Duration::from_millis(1)).is_ok() {
///         to.fetch_add(1, Relaxed);
///     };
///     s.spawn_boxed_daemon("counter", Box::new(tick));
/// }
///
/// let (one, other) = (AtomicU32::new(0), AtomicU32::new(0));
/// ecru::run(|| {
///     ecru::scope(|s| count(s, &one));
///     ecru::try_scope(|s| {
///         count(s, &other);
///         std::io::Result::Ok(ecru::sleep(Duration::from_millis(5))?)
///     })
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub trait Daemons<'scope>: sealed::Sealed {
    /// Spawns a daemon with a name, as
    /// [`TaskBuilder::spawn_daemon`](crate::TaskBuilder::spawn_daemon) does. In a [`TryScope`], it
    /// does not fail.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    fn spawn_boxed_daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>);
}

mod sealed {
    #[expect(unnameable_types, reason = "seals the trait")]
    pub trait Sealed {}
    impl Sealed for super::Scope<'_, '_> {}
    impl<E> Sealed for super::TryScope<'_, '_, E> {}
}

impl<'scope> Daemons<'scope> for Scope<'scope, '_> {
    #[track_caller]
    fn spawn_boxed_daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(body);
    }
}

impl<'scope, 'env, E: Send + 'env> Daemons<'scope> for TryScope<'scope, 'env, E> {
    #[track_caller]
    fn spawn_boxed_daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(move || {
            body();
            Ok(())
        });
    }
}
