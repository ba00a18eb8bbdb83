//! `par_for!`: nested loops whose bodies run as tasks.

/// A parallel comprehension: nested loops whose bodies run as tasks.
///
/// The loops, bindings and conditions run on the caller, in order. Each combination that passes the
/// conditions becomes a task that runs the body. All tasks run concurrently. The results are in the
/// order of the loops.
///
/// ```text
/// par_for!(x in xs, y in ys, let z = .., if condition, while condition => body)
/// ```
/// - `pattern in iterable` is a loop. A pattern is an identifier or a tuple of identifiers.
/// - `let pattern = expression` is a binding for the clauses to its right.
/// - `if condition` skips the combinations for which the condition is false.
/// - `while condition` ends the loop to its left when the condition is false. Without a loop to its
///   left it works like `if`.
///
/// The values of the loops and bindings are cloned into each task. Every body is run, even if the
/// caller is cancelled, as in [`par::map`](crate::par::map).
///
/// # Panics
/// Panics in the same cases as [`par::map`](crate::par::map).
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let products =
///         ecru::par_for!(a in 1..=3, b in 1..=3, if a != b, let c = a * b => (a, b, c));
///     assert_eq!(products, [(1, 2, 2), (1, 3, 3), (2, 1, 2), (2, 3, 6), (3, 1, 3), (3, 2, 6)]);
/// });
/// ```
#[macro_export]
macro_rules! par_for {
    ($($clauses:tt)*) => {
        $crate::__par_for!(@split [] $($clauses)*)
    };
}

/// Splits off the body and passes the clauses to two passes: one collects the variables, the other
/// one loops.
#[doc(hidden)]
#[macro_export]
macro_rules! __par_for {
    // Find `=>`.
    (@split [$($clauses:tt)*] => $body:expr) => {
        $crate::__par_for!(@vars [] [$($clauses)*] [$($clauses)* ,] $body)
    };
    (@split [$($clauses:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__par_for!(@split [$($clauses)* $next] $($rest)*)
    };

    // Collect the patterns in order.
    (@vars [$($vars:tt)*] $all:tt [] $body:expr) => {
        $crate::__par_for!(@go [$($vars)*] $all $body)
    };
    (@vars $vars:tt $all:tt [,] $body:expr) => {
        $crate::__par_for!(@vars $vars $all [] $body)
    };
    (@vars [$($vars:tt)*] $all:tt [let $name:ident = $value:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars [$($vars)* $name] $all [$($rest)*] $body)
    };
    (@vars [$($vars:tt)*] $all:tt [let ($($name:ident),+ $(,)?) = $value:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars [$($vars)* $($name)+] $all [$($rest)*] $body)
    };
    (@vars $vars:tt $all:tt [if $condition:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars $vars $all [$($rest)*] $body)
    };
    (@vars $vars:tt $all:tt [while $condition:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars $vars $all [$($rest)*] $body)
    };
    (@vars [$($vars:tt)*] $all:tt [$name:ident in $items:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars [$($vars)* $name] $all [$($rest)*] $body)
    };
    (@vars [$($vars:tt)*] $all:tt [($($name:ident),+ $(,)?) in $items:expr, $($rest:tt)*] $body:expr) => {
        $crate::__par_for!(@vars [$($vars)* $($name)+] $all [$($rest)*] $body)
    };

    (@go [$($vars:ident)*] [$($clauses:tt)*] $body:expr) => {{
        let mut combinations = ::std::vec::Vec::new();
        $crate::__par_for!(@first (combinations) [$($vars)*] $($clauses)* ,);
        $crate::par::map(combinations, |($($vars,)*)| $body)
    }};

    // Before the first loop there is nothing that a `while` could end.
    (@first $to:tt $vars:tt let $name:ident = $value:expr, $($rest:tt)*) => {
        { let $name = $value; $crate::__par_for!(@first $to $vars $($rest)*) }
    };
    (@first $to:tt $vars:tt let ($($name:ident),+ $(,)?) = $value:expr, $($rest:tt)*) => {
        { let ($($name,)+) = $value; $crate::__par_for!(@first $to $vars $($rest)*) }
    };
    (@first $to:tt $vars:tt if $condition:expr, $($rest:tt)*) => {
        if $condition { $crate::__par_for!(@first $to $vars $($rest)*) }
    };
    (@first $to:tt $vars:tt while $condition:expr, $($rest:tt)*) => {
        if $condition { $crate::__par_for!(@first $to $vars $($rest)*) }
    };
    (@first $to:tt $vars:tt $($rest:tt)*) => {
        $crate::__par_for!(@loop $to $vars $($rest)*)
    };

    // The loops.
    (@loop ($to:ident) [$($vars:ident)*] $(,)?) => {
        $to.push(($(::std::clone::Clone::clone(&$vars),)*))
    };
    (@loop $to:tt $vars:tt let $name:ident = $value:expr, $($rest:tt)*) => {
        { let $name = $value; $crate::__par_for!(@loop $to $vars $($rest)*) }
    };
    (@loop $to:tt $vars:tt let ($($name:ident),+ $(,)?) = $value:expr, $($rest:tt)*) => {
        { let ($($name,)+) = $value; $crate::__par_for!(@loop $to $vars $($rest)*) }
    };
    (@loop $to:tt $vars:tt if $condition:expr, $($rest:tt)*) => {
        if $condition { $crate::__par_for!(@loop $to $vars $($rest)*) }
    };
    (@loop $to:tt $vars:tt while $condition:expr, $($rest:tt)*) => {
        if $condition { $crate::__par_for!(@loop $to $vars $($rest)*) } else { break }
    };
    (@loop $to:tt $vars:tt $name:ident in $items:expr, $($rest:tt)*) => {
        for $name in $items { $crate::__par_for!(@loop $to $vars $($rest)*) }
    };
    (@loop $to:tt $vars:tt ($($name:ident),+ $(,)?) in $items:expr, $($rest:tt)*) => {
        for ($($name,)+) in $items { $crate::__par_for!(@loop $to $vars $($rest)*) }
    };
}
