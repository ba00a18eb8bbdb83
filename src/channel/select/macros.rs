//! The macros `select!` and `select_biased!`.
//!
//! The rules below read the arms one after another into a list of
//! `(kind (operands) (pattern) (body) (condition))`. From that list they build a list of arms, which is run,
//! and a `match` on the outcome. Everything is built in the scrutinee, so that temporaries in the
//! operands live until the end of the selected arm.

/// Waits for several sends and receives and performs the first that is possible. If several are
/// possible, one of these is picked at random, each with the same probability.
///
/// ```text
/// recv(receiver) -> message => ..      message: Result<T, RecvError>
/// send(sender, value) -> result => ..  result: Result<(), SendError<T>>
/// reserve(sender) -> permit => ..      permit: Result<Permit<T>, SendError<()>>
/// wait(source) -> item => ..           item: Result<S::Item, Cancelled>
/// default => ..                        if nothing is possible now; the select does not wait
/// default(duration) => ..              if nothing becomes possible within the duration
/// cancelled => ..                      if the wait is cancelled
/// ```
///
/// Each operand is evaluated once. `value` is evaluated only when its arm is selected, with space
/// or a receiver reserved for it. If it panics or leaves by `?`, `return` or `break`, the
/// reservation is released. The same channel may be listed twice.
///
/// An arm may have a condition: `recv(receiver) -> message if open => ..`. It is evaluated once,
/// before the select waits, together with the operands. It cannot use what the pattern binds. If it
/// is false, the arm is never possible, as if its channel were [`never`](crate::channel::never()). If
/// all conditions are false, and there is no `default`, the select waits until it is cancelled.
///
/// # With a default
/// All arms are looked at as if at one moment: `default` is selected only if at some moment none of
/// them was possible.
///
/// On a channel without a buffer, these rules apply as well:
/// - A receive is possible if another select would send. It returns after that select has evaluated
///   its value, as [`try_recv`](crate::channel::Receiver::try_recv) does.
/// - A send needs a receiver that waits. With a plain `default`, a receiver with a
///   [`filter`](crate::Source::filter) does not count.
/// - The receiver may leave while the value is being made, or refuse it. Then the send succeeds all
///   the same, and the value stays in the channel for the next receiver. A select without a default
///   waits for another receiver instead.
///
/// # Cancellation
/// This is a cancellation point, except with a plain `default`. A cancelled select has sent and
/// received nothing. Without a `cancelled` arm, it selects one of the other arms, which gets its
/// own `Cancelled`.
///
/// # Panics
/// Panics inside [`no_suspend`](crate::no_suspend), except with a plain `default`.
///
/// # Examples
/// ```
/// use ecru::{channel, select};
/// use std::time::Duration;
///
/// let (numbers, n) = channel::bounded(1);
/// let (texts, t) = channel::unbounded::<&str>();
/// texts.send("hello").unwrap();
///
/// for _ in 0..2 {
///     select! {
///         recv(t) -> text => assert_eq!(text, Ok("hello")),
///         send(numbers, 6 * 7) -> sent => assert_eq!(sent, Ok(())),
///     }
/// }
/// assert_eq!(n.recv(), Ok(42));
///
/// select! {
///     recv(n) -> _ => unreachable!("there is nothing"),
///     default(Duration::from_millis(1)) => {}
/// }
///
/// // At most two numbers are kept here. While there are two, none is received.
/// let (numbers, n) = channel::unbounded();
/// (1..=3).for_each(|number| numbers.send(number).unwrap());
/// let mut kept = Vec::new();
/// for _ in 0..3 {
///     select! {
///         recv(n) -> number if kept.len() < 2 => kept.push(number.unwrap()),
///         default => assert_eq!(kept, [1, 2]),
///     }
/// }
/// ```
///
/// `select!` may be the last expression of a block, in every edition:
/// ```edition2021
/// use ecru::channel::{self, SendError, select};
///
/// fn send_once(value: String) -> Result<(), SendError<String>> {
///     let (sender, _receiver) = channel::bounded(1);
///     select! { send(sender, value) -> sent => sent }
/// }
/// fn try_both() -> bool {
///     let (sender, receiver) = channel::bounded::<String>(0);
///     select! {
///         recv(receiver) -> text => text.is_ok(),
///         send(sender, String::new()) -> sent => sent.is_ok(),
///         default => false,
///         cancelled => false,
///     }
/// }
/// assert!(send_once(String::from("hello")).is_ok() && !try_both());
/// ```
#[macro_export]
macro_rules! select {
    ($($arms:tt)*) => {
        $crate::__select_read!((false) () (wait) () $($arms)*)
    };
}

/// Behaves like [`select!`], but if several arms are possible, selects the one that is listed
/// first.
///
/// # Examples
/// ```
/// use ecru::{channel, select_biased};
///
/// let (urgent, u) = channel::unbounded();
/// let (usual, r) = channel::unbounded();
/// usual.send("later").unwrap();
/// urgent.send("now").unwrap();
/// let first = select_biased! {
///     recv(u) -> message => message,
///     recv(r) -> message => message,
/// };
/// assert_eq!(first, Ok("now"));
/// ```
#[macro_export]
macro_rules! select_biased {
    ($($arms:tt)*) => {
        $crate::__select_read!((true) () (wait) () $($arms)*)
    };
}

/// Reads arms. The arguments are
/// `(biased) (arms so far) (how to wait, and the body of default) (the body of cancelled) rest..`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_read {
    // All arms have been read.
    ($biased:tt () (wait) ()) => {
        ::core::compile_error!("`select!` has no arms: it would wait for ever")
    };
    ($biased:tt $arms:tt $default:tt $cancelled:tt) => {
        $crate::__select_build!($biased $default $cancelled () $arms () $arms)
    };

    // An operation. Its kind and its operands are read later.
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat => $body:block, $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ())) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat => $body:block $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ())) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat => $body:expr, $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ())) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat => $body:expr) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ())) $d $c)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat if $if:expr => $body:block, $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ($if))) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat if $if:expr => $body:block $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ($if))) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat if $if:expr => $body:expr, $($rest:tt)*) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ($if))) $d $c $($rest)*)
    };
    ($b:tt ($($a:tt)*) $d:tt $c:tt $kind:ident($($o:tt)*) -> $p:pat if $if:expr => $body:expr) => {
        $crate::__select_read!($b ($($a)* ($kind ($($o)*) ($p) ($body) ($if))) $d $c)
    };

    // default
    ($b:tt $a:tt (wait) $c:tt default $(())? => $body:block, $($rest:tt)*) => {
        $crate::__select_read!($b $a (now ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default $(())? => $body:block $($rest:tt)*) => {
        $crate::__select_read!($b $a (now ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default $(())? => $body:expr, $($rest:tt)*) => {
        $crate::__select_read!($b $a (now ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default $(())? => $body:expr) => {
        $crate::__select_read!($b $a (now ($body)) $c)
    };
    ($b:tt $a:tt (wait) $c:tt default($t:expr $(,)?) => $body:block, $($rest:tt)*) => {
        $crate::__select_read!($b $a (after ($t) ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default($t:expr $(,)?) => $body:block $($rest:tt)*) => {
        $crate::__select_read!($b $a (after ($t) ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default($t:expr $(,)?) => $body:expr, $($rest:tt)*) => {
        $crate::__select_read!($b $a (after ($t) ($body)) $c $($rest)*)
    };
    ($b:tt $a:tt (wait) $c:tt default($t:expr $(,)?) => $body:expr) => {
        $crate::__select_read!($b $a (after ($t) ($body)) $c)
    };
    ($b:tt $a:tt $d:tt $c:tt default $($rest:tt)*) => {
        ::core::compile_error!("`select!` takes one `default => ..` or `default(duration) => ..`")
    };

    // cancelled
    ($b:tt $a:tt $d:tt () cancelled => $body:block, $($rest:tt)*) => {
        $crate::__select_read!($b $a $d ($body) $($rest)*)
    };
    ($b:tt $a:tt $d:tt () cancelled => $body:block $($rest:tt)*) => {
        $crate::__select_read!($b $a $d ($body) $($rest)*)
    };
    ($b:tt $a:tt $d:tt () cancelled => $body:expr, $($rest:tt)*) => {
        $crate::__select_read!($b $a $d ($body) $($rest)*)
    };
    ($b:tt $a:tt $d:tt () cancelled => $body:expr) => {
        $crate::__select_read!($b $a $d ($body))
    };
    ($b:tt $a:tt $d:tt $c:tt cancelled $($rest:tt)*) => {
        ::core::compile_error!("`select!` takes one `cancelled => ..`")
    };

    ($b:tt $a:tt $d:tt $c:tt $($rest:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "`select!` does not understand this arm; it takes `recv(r) -> message => ..`, `send(s, value) -> result => ..`, ",
            "`reserve(s) -> permit => ..`, `wait(source) -> item => ..`, `default => ..`, `default(duration) => ..` and \
             `cancelled => ..`, separated by commas, and conditions as in `recv(r) -> message if open => ..`: `",
            ::core::stringify!($($rest)+),
            "`"
        ))
    };
}

/// Builds the list of arms, from the last to the first, and then the `match`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_build {
    // Reverses the arms.
    ($b:tt $d:tt $c:tt ($($reversed:tt)*) ($first:tt $($arms:tt)*) () $all:tt) => {
        $crate::__select_build!($b $d $c ($first $($reversed)*) ($($arms)*) () $all)
    };
    ($b:tt $d:tt $c:tt $reversed:tt () () $all:tt) => {
        $crate::__select_list!($b $d $c $reversed ($crate::channel::__select::NoMoreArms) $all)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select_list {
    ($b:tt $d:tt $c:tt ((recv ($r:expr $(,)?) $p:tt $body:tt $if:tt) $($more:tt)*) ($list:expr) $all:tt) => {
        $crate::__select_list!($b $d $c ($($more)*) ($crate::channel::__select::Both::new(
            $crate::__select_if!($if ($crate::channel::__select::RecvArm($crate::__select_operand!($r)))),
            $list
        )) $all)
    };
    ($b:tt $d:tt $c:tt ((wait ($s:expr $(,)?) $p:tt $body:tt $if:tt) $($more:tt)*) ($list:expr) $all:tt) => {
        $crate::__select_list!($b $d $c ($($more)*) ($crate::channel::__select::Both::new(
            $crate::__select_if!($if ($crate::channel::__select::WaitArm(&$s))),
            $list
        )) $all)
    };
    ($b:tt $d:tt $c:tt ((send ($s:expr, $v:expr $(,)?) $p:tt $body:tt $if:tt) $($more:tt)*) ($list:expr) $all:tt) => {
        $crate::__select_list!($b $d $c ($($more)*) ($crate::channel::__select::Both::new(
            $crate::__select_if!($if ($crate::channel::__select::SendArm($crate::__select_operand!($s)))),
            $list
        )) $all)
    };
    ($b:tt $d:tt $c:tt ((reserve ($s:expr $(,)?) $p:tt $body:tt $if:tt) $($more:tt)*) ($list:expr) $all:tt) => {
        $crate::__select_list!($b $d $c ($($more)*) ($crate::channel::__select::Both::new(
            $crate::__select_if!($if ($crate::channel::__select::ReserveArm($crate::__select_operand!($s)))),
            $list
        )) $all)
    };
    ($b:tt $d:tt $c:tt (($kind:ident ($($o:tt)*) $p:tt $body:tt $if:tt) $($more:tt)*) $list:tt $all:tt) => {
        ::core::compile_error!(::core::concat!(
            "`select!` does not understand the arm `", ::core::stringify!($kind), "(", ::core::stringify!($($o)*), ")`; ",
            "it takes `recv(r)`, `send(s, value)`, `reserve(s)` and `wait(source)`"
        ))
    };
    (($b:tt) $d:tt $c:tt () ($list:expr) $all:tt) => {
        $crate::__select_match!(
            ($crate::channel::__select::run(
                &$list,
                $b,
                $crate::__select_how!($d),
                $crate::__select_tells!($c),
            ))
            () $d $c $all (picked) ($crate::channel::__select::Pick::This(picked))
        )
    };
}

/// Gives an arm its condition, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_if {
    (() ($arm:expr)) => {
        $arm
    };
    (($if:expr) ($arm:expr)) => {
        $crate::channel::__select::IfArm::new($if, $arm)
    };
}

/// Borrows a sender or a receiver. The operand of a `match` is checked without an expected type.
/// Otherwise the branches of an `if` would have to be channels, and could not be references to
/// them. The temporaries of the operand live as long as those of a plain `&$operand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_operand {
    ($operand:expr) => {
        match &$operand {
            operand => operand,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select_how {
    ((wait)) => {
        $crate::channel::__select::How::Wait
    };
    ((now $body:tt)) => {
        $crate::channel::__select::How::Try
    };
    ((after ($t:expr) $body:tt)) => {
        $crate::channel::__select::How::For($t)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select_tells {
    (()) => {
        false
    };
    (($body:expr)) => {
        true
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select_send {
    ((wait) $picked:ident $v:expr) => {
        $picked.send($v)
    };
    ($default:tt $picked:ident $v:expr) => {
        $picked.send_at_once($v)
    };
}

/// Builds the arms of the `match`. The arguments are
/// `(scrutinee) (arms so far) default cancelled (arms to do) (name) (the pattern of the next arm)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_match {
    ($run:tt ($($done:tt)*) $d:tt $c:tt ((send ($s:expr, $v:expr $(,)?) ($p:pat) ($body:expr) $if:tt) $($more:tt)*) ($picked:ident) ($pattern:pat)) => {
        $crate::__select_match!($run ($($done)*
            $crate::channel::__select::Selection::Picked($pattern) => {
                let $p = $crate::__select_send!($d $picked $v);
                $body
            }
        ) $d $c ($($more)*) ($picked) ($crate::channel::__select::Pick::Rest($pattern)))
    };
    ($run:tt ($($done:tt)*) $d:tt $c:tt (($kind:ident $operands:tt ($p:pat) ($body:expr) $if:tt) $($more:tt)*) ($picked:ident) ($pattern:pat)) => {
        $crate::__select_match!($run ($($done)*
            $crate::channel::__select::Selection::Picked($pattern) => {
                let $p = $picked;
                $body
            }
        ) $d $c ($($more)*) ($picked) ($crate::channel::__select::Pick::Rest($pattern)))
    };
    // The outcome is moved out of the scrutinee at once. If the select is the last expression of a
    // block, the scrutinee outlives the block's variables in editions before 2024. So it must not
    // have a destructor that uses them.
    (($run:expr) ($($done:tt)*) (wait) () () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome { $($done)* _ => ::core::unreachable!() } }
    };
    (($run:expr) ($($done:tt)*) (wait) ($cancelled:expr) () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome {
            $($done)*
            $crate::channel::__select::Selection::Cancelled(_) => $cancelled,
            _ => ::core::unreachable!(),
        } }
    };
    (($run:expr) ($($done:tt)*) (now ($default:expr)) () () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome { $($done)* _ => $default } }
    };
    (($run:expr) ($($done:tt)*) (after $t:tt ($default:expr)) () () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome { $($done)* _ => $default } }
    };
    (($run:expr) ($($done:tt)*) (now ($default:expr)) ($cancelled:expr) () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome {
            $($done)*
            $crate::channel::__select::Selection::Cancelled(_) => $cancelled,
            _ => $default,
        } }
    };
    (($run:expr) ($($done:tt)*) (after $t:tt ($default:expr)) ($cancelled:expr) () $picked:tt $pattern:tt) => {
        match $run { outcome => match outcome {
            $($done)*
            $crate::channel::__select::Selection::Cancelled(_) => $cancelled,
            _ => $default,
        } }
    };
}

// `#[macro_export]` places the macros in the crate's root. Users of crossbeam-channel look for them
// beside the channels.
pub use {select, select_biased};
