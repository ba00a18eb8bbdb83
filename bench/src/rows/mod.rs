//! The rows. Each module has the peers of a few related rows; ecru's own contenders are in
//! `ecru_side`.

mod channels;
mod coroutines;
mod fan_out;
mod files;
mod gears;
mod parking;
mod programs;
mod selecting;
mod servers;
mod spawning;
mod switching;
mod timers;
mod yielding;

// Code that ecru's contenders share with the peers'.
#[cfg(feature = "ecru")]
pub(crate) use {
    channels::{Work, family as channel_family, runs},
    coroutines::whole_rounds,
    fan_out::per_task,
    files::{Place, Scratch, Times, Way, data, file_family, read_pieces, write_pieces},
    gears::{SLEEPS, races, spin},
    parking::{CREATE_PARK_TASKS, create, growth, sample},
    programs::measure as measure_program,
    selecting::sum_of_three,
    spawning::{BATCH, second_batch},
    timers::{NAP, NEVER, Naps, SLEEP, VALUES, compute, cpu_of, crowd},
    yielding::PAIR,
};

use crate::harness::Row;
use crate::serving::Service;

/// Family and number of a row.
pub(crate) type Id = (&'static str, Option<usize>);

/// Rows about tasks, coroutines and timers.
pub(crate) const TASKS: &[Id] = &[
    ("switch", None),
    ("recycle", None),
    ("yield", None),
    ("yield", Some(64)),
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
    ("late-timer", Some(100)),
    ("late-timer", Some(2_000)),
    ("fan-out", None),
];

/// Rows about channels, selects and races.
pub(crate) const CHANNELS: &[Id] = &[
    ("channel-rendezvous", Some(1)),
    ("channel-rendezvous", Some(2)),
    ("channel-one", Some(1)),
    ("channel-one", Some(2)),
    ("channel-128", Some(1)),
    ("channel-128", Some(2)),
    ("channel-unbounded", Some(1)),
    ("channel-unbounded", Some(2)),
    ("apart-rendezvous", None),
    ("apart-one", None),
    ("apart-128", None),
    ("apart-unbounded", None),
    ("threads-rendezvous", None),
    ("threads-one", None),
    ("threads-128", None),
    ("forward-rendezvous", Some(1)),
    ("forward-rendezvous", Some(2)),
    ("forward-128", Some(1)),
    ("forward-128", Some(2)),
    ("select-ready", None),
    ("select-producers", Some(1)),
    ("select-producers", Some(2)),
    ("race", Some(1)),
    ("race", Some(2)),
    ("ping-pong", Some(1)),
    ("ping-pong", Some(2)),
];

/// Rows about servers under load.
pub(crate) const SERVERS: &[Id] =
    &[("echo", Some(64)), ("echo", Some(1_000)), ("http", Some(64)), ("idle", Some(10_000))];

/// Rows about whole files.
pub(crate) const FILES: &[Id] = &[
    ("files-read", Some(4)),
    ("files-write", Some(4)),
    ("files-read", Some(40_000_000)),
    ("files-write", Some(40_000_000)),
    ("files-read-disk", Some(4)),
    ("files-write-disk", Some(4)),
    ("files-read-disk", Some(40_000_000)),
    ("files-write-disk", Some(40_000_000)),
];

/// Rows about whole programs.
pub(crate) const PROGRAMS: &[Id] =
    &[("downloads", None), ("task-server", None), ("cold-build", None), ("crates", None)];

/// Rows that gears' notes measure.
pub(crate) const GEARS: &[Id] = &[
    ("gears-future", None),
    ("gears-race", None),
    ("gears-sync", None),
    ("gears-one", None),
    ("gears-mux-sync", None),
    ("gears-mux-one", None),
];

/// Creates one row with all its contenders, ecru first. Returns `None` if there is no such family
/// or if it takes another kind of number.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let mut row = match (family, number) {
        ("switch", None) => switching::switch(),
        ("recycle", None) => switching::recycle(),
        ("yield", None) => yielding::row(None),
        ("yield", Some(tasks @ 1..)) => yielding::row(Some(tasks)),
        ("spawn-join", Some(workers @ 1..=2)) => spawning::one_after_another(workers),
        ("spawn-batch", Some(workers @ 1..=2)) => spawning::batch(workers),
        ("create-park", None) => parking::create_park(),
        ("coroutines", Some(count)) => coroutines::row(count),
        ("parked", Some(count)) => parking::parked(count),
        ("given-back", Some(count)) => parking::given_back(count),
        ("timer", Some(live)) => timers::set_and_cancel(live),
        ("sleeps", Some(count)) => timers::sleeps(count),
        ("lone-timeout", None) => timers::lone_timeout(),
        ("late-timer", Some(micros)) => timers::late_timer(micros),
        ("fan-out", None) => fan_out::row(),
        ("ping-pong", Some(workers @ 1..=2)) => channels::ping_pong(workers),
        ("select-ready", None) => selecting::one_ready(),
        ("select-producers", Some(workers @ 1..=2)) => selecting::producers(workers),
        ("race", Some(workers @ 1..=2)) => selecting::race(workers),
        ("echo", Some(connections)) => servers::row(Service::Echo, connections),
        ("idle", Some(connections)) => servers::row(Service::Idle, connections),
        ("http", Some(connections)) => servers::row(Service::Http, connections),
        _ => channels::build(family, number)
            .or_else(|| files::build(family, number))
            .or_else(|| programs::build(family, number))
            .or_else(|| gears::build(family).filter(|_| number.is_none()))?,
    };
    row.contenders.splice(0..0, crate::ecru_side::contenders(family, number.unwrap_or_default()));
    Some(row)
}

/// Text for the title of a row whose tasks communicate. ecru's tasks are together on one worker;
/// the rows `apart-*` show the other case.
fn together_on(workers: usize) -> &'static str {
    if workers == 1 { "one worker" } else { "two workers, ecru's tasks together on one" }
}

/// Text for a row's title.
fn on(workers: usize) -> &'static str {
    if workers == 1 { "one worker" } else { "two workers" }
}
