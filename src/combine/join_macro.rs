//! Several expressions at once.

use crate::scope::{self, JoinError, JoinHandle, Scope};

/// Evaluates several expressions at once, each in a task of its own, waits for all of them, and gives a tuple of
/// `Result<_, JoinError>`s: `Ok` with the value, or how it panicked.
///
/// Every expression is evaluated, whether another one panics or the caller is cancelled: waits in it then fail, which is for the
/// expression to report. Expressions may borrow and move what is around them, as the closures of a scope's tasks may, and evaluate to
/// anything that is `Send`.
///
/// # Panics
/// Outside a run; inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// No cancel point itself; a cancellation reaches the expressions.
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
    // All are launched before the first is waited for. Each step's `handle` is a name of its own.
    (@launch $scope:ident [$($handle:ident)*]) => { ($($crate::combine::__outcome(&$handle),)*) };
    (@launch $scope:ident [$($handles:ident)*] $expression:expr, $($rest:expr,)*) => {{
        let handle = $crate::combine::__launch($scope, || $expression);
        $crate::join!(@launch $scope [$($handles)* handle] $($rest,)*)
    }};
    ($($expression:expr),* $(,)?) => {
        $crate::scope(|scope| $crate::join!(@launch scope [] $($expression,)*))
    };
}

/// Launches one expression. Public for the macro's sake.
#[track_caller]
pub fn __launch<'scope, F, U>(
    scope: &'scope Scope<'scope, '_>,
    expression: F,
) -> JoinHandle<'scope, U>
where
    F: FnOnce() -> U + Send + 'scope,
    U: Send + 'scope,
{
    scope.spawn_always(expression)
}

/// What one expression gave. Public for the macro's sake.
///
/// # Errors
/// As [`JoinHandle::join`], but never the caller's cancellation: the scope would wait anyway.
pub fn __outcome<U>(handle: &JoinHandle<'_, U>) -> Result<U, JoinError> {
    scope::shield(|| handle.join())
}
