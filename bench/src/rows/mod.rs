//! The rows. Each module has the peers of a few related rows; ecru's own contenders are in `ecru_side`.

mod coroutines;
mod fan_out;
mod parking;
mod spawning;
mod switching;
mod timers;
mod yielding;

// What ecru's contenders share with the peers'.
#[cfg(feature = "ecru")]
pub(crate) use {
    coroutines::whole_rounds,
    fan_out::per_task,
    parking::{CREATE_PARK_TASKS, create, growth, sample},
    spawning::{BATCH, second_batch},
    timers::{NEVER, SLEEP, cpu_of, crowd},
};

use crate::harness::Row;

/// Family and number of every row that a run without a selection has, in the order of running.
pub(crate) const ALL: &[(&str, Option<usize>)] = &[
    ("switch", None),
    ("recycle", None),
    ("yield", None),
    ("spawn-join", Some(1)),
    ("spawn-join", Some(2)),
    ("spawn-batch", Some(1)),
    ("spawn-batch", Some(2)),
    ("create-park", None),
    ("coroutines", Some(100_000)),
    ("coroutines", Some(1_000_000)),
    ("parked", Some(10_000)),
    ("parked", Some(1_000_000)),
    ("given-back", Some(1_000_000)),
    ("timer", Some(0)),
    ("timer", Some(100_000)),
    ("sleeps", Some(1_000_000)),
    ("lone-timeout", None),
    ("fan-out", None),
];

/// One row with all its contenders, ecru first; `None` if there is no such family or it takes another kind of number.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let mut row = match (family, number) {
        ("switch", None) => switching::switch(),
        ("recycle", None) => switching::recycle(),
        ("yield", None) => yielding::row(),
        ("spawn-join", Some(workers @ 1..=2)) => spawning::one_after_another(workers),
        ("spawn-batch", Some(workers @ 1..=2)) => spawning::batch(workers),
        ("create-park", None) => parking::create_park(),
        ("coroutines", Some(count)) => coroutines::row(count),
        ("parked", Some(count)) => parking::parked(count),
        ("given-back", Some(count)) => parking::given_back(count),
        ("timer", Some(live)) => timers::set_and_cancel(live),
        ("sleeps", Some(count)) => timers::sleeps(count),
        ("lone-timeout", None) => timers::lone_timeout(),
        ("fan-out", None) => fan_out::row(),
        _ => return None,
    };
    if let Some(contender) = crate::ecru_side::contender(family, number.unwrap_or_default()) {
        row.contenders.insert(0, contender);
    }
    Some(row)
}

/// The row of a full name, such as `parked-10000`.
pub(crate) fn named(name: &str) -> Option<Row> {
    build(name, None).or_else(|| {
        let (family, number) = name.rsplit_once('-')?;
        build(family, Some(number.parse().ok()?))
    })
}
