//! The names, the units and the descriptions of what is published.

use metrics::{Recorder, Unit};

/// The descriptions that a recorder may show.
pub(crate) fn describe(recorder: &dyn Recorder) {
    for (name, unit, what) in COUNTERS {
        recorder.describe_counter((*name).into(), Some(*unit), (*what).into());
    }
    for (name, unit, what) in GAUGES {
        recorder.describe_gauge((*name).into(), Some(*unit), (*what).into());
    }
}

pub(crate) const TASKS: &str = "ecru_tasks";
pub(crate) const WAITING: &str = "ecru_tasks_waiting";
pub(crate) const SPAWNED: &str = "ecru_tasks_spawned_total";
pub(crate) const ENDED: &str = "ecru_tasks_ended_total";
pub(crate) const IN_FLIGHT: &str = "ecru_operations_in_flight";
pub(crate) const TIMERS: &str = "ecru_timers";
pub(crate) const SCOPES: &str = "ecru_scopes";
pub(crate) const QUEUED: &str = "ecru_unblock_queued";
pub(crate) const THREADS: &str = "ecru_unblock_threads";
pub(crate) const STACKS: &str = "ecru_stacks";
pub(crate) const MAPPED: &str = "ecru_stacks_mapped_bytes";
pub(crate) const BUSY: &str = "ecru_workers_busy";
pub(crate) const PROCESSOR: &str = "ecru_worker_processor_seconds";
pub(crate) const READY: &str = "ecru_ready_to_run_seconds";
pub(crate) const READY_EVENTS: &str = "ecru_ready_to_run_events";
pub(crate) const WAKE: &str = "ecru_wake_to_run_seconds";
pub(crate) const WAKE_EVENTS: &str = "ecru_wake_to_run_events";
pub(crate) const LONGEST: &str = "ecru_longest_run_seconds";

static COUNTERS: &[(&str, Unit, &str)] = &[
    (SPAWNED, Unit::Count, "Tasks that have been spawned."),
    (ENDED, Unit::Count, "Tasks that have ended."),
];

static GAUGES: &[(&str, Unit, &str)] = &[
    (TASKS, Unit::Count, "Tasks that have not ended."),
    (WAITING, Unit::Count, "Tasks that wait, by what they wait for."),
    (IN_FLIGHT, Unit::Count, "Operations that the kernel has."),
    (TIMERS, Unit::Count, "Timers that are set."),
    (SCOPES, Unit::Count, "Scopes that have tasks."),
    (QUEUED, Unit::Count, "Closures that wait for a thread."),
    (THREADS, Unit::Count, "Threads that may block."),
    (STACKS, Unit::Count, "Stacks of tasks."),
    (MAPPED, Unit::Bytes, "Address space of the stacks."),
    (BUSY, Unit::Count, "Workers that do not switch tasks."),
    (PROCESSOR, Unit::Seconds, "Time of a worker's thread on a processor."),
    (READY, Unit::Seconds, "Times from the queue to the turn, of the events that are recorded."),
    (READY_EVENTS, Unit::Count, "Times from the queue to the turn that are recorded."),
    (WAKE, Unit::Seconds, "Times from the wake-up to the turn, of the events that are recorded."),
    (WAKE_EVENTS, Unit::Count, "Times from the wake-up to the turn that are recorded."),
    (LONGEST, Unit::Seconds, "Longest run without a switch, by place of the spawn."),
];
