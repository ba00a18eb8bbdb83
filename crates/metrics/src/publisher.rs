//! What publishes the numbers of one runtime.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use ecru::diag::{Histogram, Metrics};
use ecru::{Cancelled, RuntimeHandle};
use metrics::{Key, Label, Level, Metadata, Recorder, SharedString};

use crate::families::{self, describe};

/// Each published quantile, as its label and as a share.
const QUANTILES: [(&str, f64); 5] =
    [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)];

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// What publishes the numbers of one runtime to the current recorder of the crate `metrics`.
///
/// It remembers which labels it has published, so that those which are gone become 0.
///
/// # Examples
/// The numbers are published when they are wanted:
/// ```
/// let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
/// let page = exporter.handle();
/// metrics::set_global_recorder(exporter)?;
///
/// let mut publisher = ecru_metrics::Publisher::new();
/// ecru::run(|| {
///     publisher.publish(&ecru::diag::metrics());
///     assert!(page.render().contains("\necru_tasks{state=\"running\"} 1\n"));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Publisher {
    labels: Vec<Label>,
    is_described: bool,
    /// The gauges of the last call whose labels may vanish.
    shown: HashSet<Key>,
}

impl Publisher {
    /// Creates a publisher that adds no labels.
    #[must_use]
    pub fn new() -> Publisher {
        Publisher::default()
    }

    /// Adds a label to everything that is published, such as the name of the runtime.
    ///
    /// # Examples
    /// ```
    /// let publisher = ecru_metrics::Publisher::new().label("runtime", "workers");
    /// ```
    #[must_use]
    pub fn label(
        mut self,
        name: impl Into<SharedString>,
        value: impl Into<SharedString>,
    ) -> Publisher {
        self.labels.push(Label::new(name, value));
        self
    }

    /// Publishes the numbers. Does not wait.
    ///
    /// The recorder is the thread's own within `metrics::with_local_recorder`, and otherwise the
    /// global one. Without a recorder this does nothing. The descriptions go to the recorder of the
    /// first call.
    ///
    /// # Examples
    /// See [`Publisher`].
    pub fn publish(&mut self, numbers: &Metrics) {
        metrics::with_recorder(|recorder| {
            if !self.is_described {
                describe(recorder);
                self.is_described = true;
            }
            let mut round = Round { recorder, labels: &self.labels, shown: HashSet::new() };
            round.publish(numbers);
            let shown = round.shown;
            for gone in self.shown.difference(&shown) {
                recorder.register_gauge(gone, &METADATA).set(0.0);
            }
            self.shown = shown;
        });
    }

    /// Publishes the numbers of a runtime at once, and again after each pause, until the calling
    /// task is cancelled.
    ///
    /// On a plain thread nothing cancels it, except a time limit around it. Such a thread publishes
    /// while all workers are blocked, too, and ends with the process. If the runtime has been
    /// dropped, everything is 0.
    ///
    /// # Errors
    /// Returns [`Cancelled`] when it is cancelled. It does not return otherwise.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](ecru::no_suspend).
    ///
    /// # Cancellation
    /// The pauses are cancellation points.
    ///
    /// # Examples
    /// ```
    /// use std::{thread, time::Duration};
    ///
    /// let runtime = ecru::Runtime::builder().build()?;
    /// let handle = runtime.handle();
    /// thread::spawn(move || {
    ///     ecru_metrics::Publisher::new().publish_every(Duration::from_secs(10), &handle)
    /// });
    /// runtime.run(|| println!("hello"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn publish_every(
        mut self,
        pause: Duration,
        runtime: &RuntimeHandle,
    ) -> Result<(), Cancelled> {
        loop {
            self.publish(&runtime.metrics());
            ecru::sleep(pause)?;
        }
    }
}

/// Publishes the numbers of the current run at once, and again after each pause, until the calling
/// task is cancelled. It is meant for a daemon.
///
/// [`Publisher::publish_every`] takes labels, and works on a plain thread.
///
/// # Errors
/// Returns [`Cancelled`] when it is cancelled. It does not return otherwise.
///
/// # Panics
/// Panics outside a run, and inside [`no_suspend`](ecru::no_suspend).
///
/// # Cancellation
/// The pauses are cancellation points.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         s.spawn_daemon(|| ecru_metrics::publish_every(Duration::from_secs(10)));
///         println!("hello");
///     });
/// });
/// ```
#[track_caller]
pub fn publish_every(pause: Duration) -> Result<(), Cancelled> {
    Publisher::new().publish_every(pause, &RuntimeHandle::current())
}

/// One call of [`Publisher::publish`].
struct Round<'r> {
    recorder: &'r dyn Recorder,
    labels: &'r [Label],
    shown: HashSet<Key>,
}

impl Round<'_> {
    fn publish(&mut self, numbers: &Metrics) {
        let waiting: usize = numbers.waiting.values().sum();
        for (state, count) in [
            ("running", numbers.running),
            ("ready", numbers.ready),
            ("unstarted", numbers.unstarted),
            ("waiting", waiting),
            ("unknown", numbers.unknown),
        ] {
            self.gauge(families::TASKS, Some(("state", state.into())), count as f64);
        }
        for (what, count) in &numbers.waiting {
            self.passing(families::WAITING, ("for", (*what).into()), *count as f64);
        }
        self.counter(families::SPAWNED, numbers.spawned);
        self.counter(families::ENDED, numbers.ended);
        for (name, count) in [
            (families::IN_FLIGHT, numbers.in_flight),
            (families::TIMERS, numbers.timers),
            (families::SCOPES, numbers.scopes),
            (families::QUEUED, numbers.unblock_queued),
            (families::MAPPED, numbers.stacks.mapped),
            (families::BUSY, numbers.busy_workers.len()),
        ] {
            self.gauge(name, None, count as f64);
        }
        let busy = numbers.unblock_threads.saturating_sub(numbers.unblock_idle);
        for (name, state, count) in [
            (families::THREADS, "busy", busy),
            (families::THREADS, "idle", numbers.unblock_idle),
            (families::STACKS, "live", numbers.stacks.live),
            (families::STACKS, "idle", numbers.stacks.idle),
        ] {
            self.gauge(name, Some(("state", state.into())), count as f64);
        }
        for (worker, time) in numbers.worker_times.iter().enumerate() {
            let label = ("worker", worker.to_string().into());
            self.passing(families::PROCESSOR, label, time.as_secs_f64());
        }
        let Some(delays) = &numbers.delays else { return };
        self.quantiles(families::READY, families::READY_EVENTS, &delays.ready_to_run);
        self.quantiles(families::WAKE, families::WAKE_EVENTS, &delays.wake_to_run);
        for (place, time) in &delays.longest_runs {
            let label = ("spawned_at", place.to_string().into());
            self.passing(families::LONGEST, label, time.as_secs_f64());
        }
    }

    fn quantiles(&self, name: &'static str, events: &'static str, times: &Histogram) {
        for (label, share) in QUANTILES {
            let time = times.quantile(share).as_secs_f64();
            self.gauge(name, Some(("quantile", label.into())), time);
        }
        self.gauge(events, None, times.count() as f64);
    }

    /// Sets a gauge whose label may be gone the next time.
    fn passing(&mut self, name: &'static str, label: (&'static str, SharedString), value: f64) {
        let key = self.gauge(name, Some(label), value);
        self.shown.insert(key);
    }

    fn gauge(
        &self,
        name: &'static str,
        label: Option<(&'static str, SharedString)>,
        value: f64,
    ) -> Key {
        let key = self.key(name, label);
        self.recorder.register_gauge(&key, &METADATA).set(value);
        key
    }

    /// Sets a counter. A recorder keeps the largest number that it has seen.
    fn counter(&self, name: &'static str, value: u64) {
        let key = self.key(name, None);
        self.recorder.register_counter(&key, &METADATA).absolute(value);
    }

    fn key(&self, name: &'static str, label: Option<(&'static str, SharedString)>) -> Key {
        let own = label.map(|(name, value)| Label::new(name, value));
        Key::from_parts(name, self.labels.iter().cloned().chain(own).collect::<Vec<_>>())
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("labels", &self.labels).finish_non_exhaustive()
    }
}
