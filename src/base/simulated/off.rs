//! The answers where there are no simulations: in a build without the feature `sim`. `on` describes
//! the functions.

use std::time::Instant;

#[inline(always)]
pub(crate) fn is_simulated() -> bool {
    false
}

#[inline(always)]
pub(crate) fn now() -> Option<Instant> {
    None
}

#[inline(always)]
pub(crate) fn aside<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[inline(always)]
pub(crate) fn task_number() -> Option<u64> {
    None
}

#[inline(always)]
pub(crate) fn shown_number(number: u64) -> u64 {
    number
}

#[inline(always)]
pub(crate) fn object_name(object: *const ()) -> String {
    format!("{object:p}")
}

#[inline(always)]
pub(crate) fn forget_objects() {}

#[inline(always)]
pub(crate) fn is_silent() -> bool {
    false
}

#[inline(always)]
pub(crate) fn note_reported(_message: Option<&str>) {}

#[inline(always)]
pub(crate) fn is_cut_off() -> bool {
    false
}

#[derive(Clone, Copy)]
pub(crate) struct Moment;

impl Moment {
    #[inline(always)]
    pub(crate) fn now() -> Moment {
        Moment
    }
}

#[derive(Debug, Default)]
pub(crate) struct Untaken(());

impl Untaken {
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        false
    }
}

#[inline(always)]
pub(crate) fn hold(_: Moment, _: u64, _: Option<&str>, _: impl FnOnce() -> String) -> Untaken {
    Untaken(())
}

#[inline(always)]
pub(crate) fn lose(_: Moment, _: Option<&str>, _: impl FnOnce() -> String) {}
