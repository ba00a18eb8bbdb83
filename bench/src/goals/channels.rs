//! Goals of channels, selects and races.

use super::Bound::{CostAtMostBest, SpeedAtLeast};
use super::{Goal, NO_WORSE_THAN_GO, time};

/// The channels between plain threads.
const THREADS: &[&str] = &["kanal", "flume", "crossbeam", "std"];

/// All goals of this module.
pub(crate) const GOALS: &[Goal] = &[
    time("channel-rendezvous-1", SpeedAtLeast(2.2, "kanal"), "30 M/s, kanal 13.9"),
    time("channel-rendezvous-1", SpeedAtLeast(5.0, "go"), "30 M/s, Go 6.15"),
    time("channel-one-1", SpeedAtLeast(1.9, "kanal"), "36 M/s, kanal 18.8"),
    time("channel-128-1", SpeedAtLeast(1.35, "kanal"), "80 M/s, kanal 59.6"),
    time("channel-unbounded-1", SpeedAtLeast(1.4, "kanal"), "85 M/s, kanal 61"),
    time("channel-rendezvous-2", SpeedAtLeast(3.0, "kanal"), "25 M/s, kanal 6.6"),
    time("channel-one-2", SpeedAtLeast(3.0, "kanal"), "30 M/s, kanal 9.1"),
    time("channel-128-2", SpeedAtLeast(3.0, "kanal"), "65 M/s, kanal 27.6"),
    time("channel-unbounded-2", SpeedAtLeast(3.0, "kanal"), "70 M/s, kanal 36.6"),
    time("apart-rendezvous", SpeedAtLeast(1.0, "go-locked"), "a free Go 6.05 M/s on two workers"),
    time("apart-one", SpeedAtLeast(1.0, "go-locked"), "a free Go 8.4 M/s on two workers"),
    time("apart-128", SpeedAtLeast(1.0, "go-locked"), "a free Go 25.9 M/s on two workers"),
    time("apart-unbounded", SpeedAtLeast(1.0, "go-locked"), "a free Go 27.6 M/s on two workers"),
    time(
        "threads-rendezvous",
        CostAtMostBest(1.0, THREADS),
        "kanal 1.9 M/s, crossbeam 0.16, std 0.18",
    ),
    time("threads-one", CostAtMostBest(1.0, THREADS), "kanal 2.2 M/s, crossbeam 1.9, std 0.08"),
    time("threads-128", CostAtMostBest(1.0, THREADS), "kanal 8.4 M/s, crossbeam 11.9, std 15"),
    time("forward-rendezvous-1", SpeedAtLeast(3.3, "go"), "10 M/s, Go 3.0"),
    time("forward-128-1", SpeedAtLeast(2.1, "go"), "30 M/s, Go 14.2"),
    time("forward-rendezvous-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("forward-128-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("select-ready", SpeedAtLeast(1.4, "crossbeam"), "30 M/s, crossbeam 21.3"),
    time("select-producers-1", SpeedAtLeast(2.9, "go"), "15 M/s, Go 5.1"),
    time("select-producers-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
    time("race-1", SpeedAtLeast(3.4, "tokio"), "3 M/s, tokio 0.88"),
    time("race-2", SpeedAtLeast(4.0, "go"), "2 M/s, Go 0.455"),
    time("ping-pong-1", SpeedAtLeast(2.6, "tokio"), "90 ns, tokio 236"),
    time("ping-pong-2", SpeedAtLeast(1.0, "go"), NO_WORSE_THAN_GO),
];
