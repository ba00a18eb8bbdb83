//! The scopes that a fleet's tasks can belong to.

use ecru::{Scope, TryScope};

/// A scope whose daemons a fleet's tasks become: [`ecru::Scope`] or [`ecru::TryScope`]. When the
/// scope ends, so does the fleet.
pub trait Daemons<'scope>: sealed::Sealed {
    #[doc(hidden)]
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>);
}

mod sealed {
    #[expect(unnameable_types, reason = "seals the trait")]
    pub trait Sealed {}
    impl Sealed for ecru::Scope<'_, '_> {}
    impl<E> Sealed for ecru::TryScope<'_, '_, E> {}
}

impl<'scope> Daemons<'scope> for Scope<'scope, '_> {
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(body);
    }
}

impl<'scope, 'env, E: Send + 'env> Daemons<'scope> for TryScope<'scope, 'env, E> {
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(move || {
            body();
            Ok(())
        });
    }
}
