//! Several expressions evaluated concurrently.

use std::panic::Location;

use crate::scope::{self, JoinError, JoinHandle, Scope};

/// Evaluates several expressions concurrently, each in its own task, and waits for all of
/// them. The result is a tuple of `Result<_, JoinError>`: `Ok` with the value, or the panic of the
/// expression.
///
/// Every expression is evaluated, even if another one panics or the caller is cancelled. If the
/// caller is cancelled, waits in the expressions fail, and the expressions decide what that means.
/// Expressions may borrow and move their surroundings, like the closures of a scope's tasks. Their
/// values have to be `Send`.
///
/// # Panics
/// Panics outside a run and inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// The macro itself is not a cancellation point. A cancellation reaches the expressions.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let (words, mut count) = (["stack", "ful"], 0);
///     let (longest, joined, counted) = ecru::join!(
///         words.iter().map(|word| word.len()).max(),
///         words.concat(),
///         count += words.len(),
///     );
///     assert_eq!(longest.unwrap(), Some(5));
///     assert_eq!(joined.unwrap(), "stackful");
///     counted.unwrap();
///     assert_eq!(count, 2);
/// });
/// ```
#[doc(alias = "concurrently")]
#[macro_export]
macro_rules! join {
    // All expressions are launched before the first is waited for. Hygiene makes each step's
    // `handle` a separate variable.
    (@launch $scope:ident [$($handle:ident)*]) => { ($($crate::combine::__outcome(&$handle),)*) };
    (@launch $scope:ident [$($handles:ident)*] $expression:expr, $($rest:expr,)*) => {{
        let handle = $crate::combine::__launch($scope, || $expression);
        $crate::join!(@launch $scope [$($handles)* handle] $($rest,)*)
    }};
    ($($expression:expr),* $(,)?) => {
        $crate::scope(|scope| $crate::join!(@launch scope [] $($expression,)*))
    };
}

/// Launches one expression. It is public only for the macro.
#[track_caller]
pub fn __launch<'scope, F, U>(
    scope: &'scope Scope<'scope, '_>,
    expression: F,
) -> JoinHandle<'scope, U>
where
    F: FnOnce() -> U + Send + 'scope,
    U: Send + 'scope,
{
    scope.spawn_always_at(Location::caller(), expression)
}

/// Returns the result of one expression. It is public only for the macro.
///
/// # Errors
/// Returns the errors of [`JoinHandle::join`] except the caller's cancellation, because the scope
/// waits in any case.
pub fn __outcome<U>(handle: &JoinHandle<'_, U>) -> Result<U, JoinError> {
    scope::shield(|| handle.join())
}
