//! `par_for!`: nested loops whose bodies run as tasks.

/// A parallel comprehension: loops, bindings and conditions run on the caller, in order; each combination that gets through
/// becomes a task that runs the body, all at once; the results come in the order of the loops.
///
/// ```text
/// par_for!(x in xs, y in ys, let z = .., if condition, while condition => body)
/// ```
/// - `pattern in iterable`: a loop. Patterns are identifiers, or tuples of them.
/// - `let pattern = expression`: a binding, for what stands to its right.
/// - `if condition`: passes over the combination.
/// - `while condition`: ends the loop to its left. Without a loop to its left it is an `if`.
///
/// The values of the loops and bindings are cloned into each task. Every body is run, cancelled or not, as with
/// [`par::map`](crate::par::map).
///
/// # Panics
/// As [`par::map`](crate::par::map).
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let products = ecru::par_for!(a in 1..=3, b in 1..=3, if a != b, let c = a * b => (a, b, c));
///     assert_eq!(products, [(1, 2, 2), (1, 3, 3), (2, 1, 2), (2, 3, 6), (3, 1, 3), (3, 2, 6)]);
/// });
/// ```
#[macro_export]
macro_rules! par_for {
    ($($clauses:tt)*) => {
        $crate::__par_for!(@split [] $($clauses)*)
    };
}

/// Splits the body off, then hands the clauses over to the two passes: one that says which variables there are, one that loops.
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

    // Before the first loop: there is none that a `while` could end.
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
