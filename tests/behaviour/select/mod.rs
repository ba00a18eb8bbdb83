//! Rows of `doc/behaviour/select.md`: `select!`, `select_biased!` and `Select`.

mod arms;
mod cancellation;
mod conditions;
mod dynamic;
mod ends;
mod expressions;
mod meetings;
mod sends;
mod views;

/// A value that must not be evaluated.
fn no_value() -> u8 {
    crate::support::quiet_panic("no value")
}
