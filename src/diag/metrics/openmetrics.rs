//! Metrics as text, in the format of OpenMetrics 1.0.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::{Histogram, Metrics};

impl Metrics {
    /// Returns the numbers in the text format of [OpenMetrics](https://openmetrics.io), which
    /// Prometheus and others read. The content type is
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    ///
    /// The names begin with `ecru_`. Times are in seconds, and sizes in bytes.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let text = ecru::diag::metrics().to_openmetrics();
    ///     assert!(text.contains("\necru_tasks{state=\"running\"} 1\n"));
    /// });
    /// ```
    #[must_use]
    pub fn to_openmetrics(&self) -> String {
        let mut out = String::new();
        let waiting: usize = self.waiting.values().sum();
        family(&mut out, "tasks", "gauge", "Tasks that have not ended.");
        for (state, count) in [
            ("running", self.running),
            ("ready", self.ready),
            ("unstarted", self.unstarted),
            ("waiting", waiting),
            ("unknown", self.unknown),
        ] {
            sample(&mut out, "tasks", Some(("state", state)), count);
        }
        family(&mut out, "tasks_waiting", "gauge", "Tasks that wait, by what they wait for.");
        for (what, count) in &self.waiting {
            sample(&mut out, "tasks_waiting", Some(("for", what)), count);
        }
        for (name, help, count) in [
            ("tasks_spawned", "Tasks that have been spawned.", self.spawned),
            ("tasks_ended", "Tasks that have ended.", self.ended),
        ] {
            family(&mut out, name, "counter", help);
            sample(&mut out, &format!("{name}_total"), None, count);
        }
        for (name, help, count) in [
            ("operations_in_flight", "Operations that the kernel has.", self.in_flight),
            ("timers", "Timers that are set.", self.timers),
            ("scopes", "Scopes that have tasks.", self.scopes),
            ("unblock_queued", "Closures that wait for a thread.", self.unblock_queued),
        ] {
            family(&mut out, name, "gauge", help);
            sample(&mut out, name, None, count);
        }
        family(&mut out, "unblock_threads", "gauge", "Threads that may block.");
        let busy = self.unblock_threads.saturating_sub(self.unblock_idle);
        sample(&mut out, "unblock_threads", Some(("state", "busy")), busy);
        sample(&mut out, "unblock_threads", Some(("state", "idle")), self.unblock_idle);
        family(&mut out, "stacks", "gauge", "Stacks of tasks.");
        sample(&mut out, "stacks", Some(("state", "live")), self.stacks.live);
        sample(&mut out, "stacks", Some(("state", "idle")), self.stacks.idle);
        family(&mut out, "stacks_mapped_bytes", "gauge", "Address space of the stacks.");
        unit(&mut out, "stacks_mapped_bytes", "bytes");
        sample(&mut out, "stacks_mapped_bytes", None, self.stacks.mapped);
        family(&mut out, "workers_busy", "gauge", "Workers that do not switch tasks.");
        sample(&mut out, "workers_busy", None, self.busy_workers.len());
        let name = "worker_processor_seconds";
        family(&mut out, name, "counter", "Time on a processor.");
        unit(&mut out, name, "seconds");
        for (worker, time) in self.worker_times.iter().enumerate() {
            let label = Some(("worker", &*worker.to_string()));
            sample(&mut out, &format!("{name}_total"), label, time.as_secs_f64());
        }
        if let Some(delays) = &self.delays {
            let help = "Times from the queue to the turn, of the events that are recorded.";
            histogram(&mut out, "ready_to_run_seconds", help, &delays.ready_to_run);
            let help = "Times from the wake-up to the turn, of the events that are recorded.";
            histogram(&mut out, "wake_to_run_seconds", help, &delays.wake_to_run);
            let name = "longest_run_seconds";
            family(&mut out, name, "gauge", "Longest run without a switch, by place of the spawn.");
            unit(&mut out, name, "seconds");
            for (place, time) in &delays.longest_runs {
                let label = Some(("spawned_at", &*place.to_string()));
                sample(&mut out, name, label, time.as_secs_f64());
            }
        }
        out.push_str("# EOF\n");
        out
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(out, "# TYPE ecru_{name} {kind}\n# HELP ecru_{name} {help}\n");
}

fn unit(out: &mut String, name: &str, unit: &str) {
    let _ = writeln!(out, "# UNIT ecru_{name} {unit}");
}

fn sample(out: &mut String, name: &str, label: Option<(&str, &str)>, value: impl Display) {
    let _ = match label {
        None => writeln!(out, "ecru_{name} {value}"),
        Some((key, said)) => writeln!(out, "ecru_{name}{{{key}=\"{}\"}} {value}", Escaped(said)),
    };
}

/// The limits of the buckets, in seconds.
const LIMITS: [&str; 16] = [
    "0.000001", "0.000002", "0.000005", "0.00001", "0.00002", "0.00005", "0.0001", "0.0002",
    "0.0005", "0.001", "0.002", "0.005", "0.01", "0.1", "1.0", "10.0",
];

/// Writes a histogram that may shrink, because its times are those of the last events.
fn histogram(out: &mut String, name: &str, help: &str, times: &Histogram) {
    family(out, name, "gaugehistogram", help);
    unit(out, name, "seconds");
    let bucket = format!("{name}_bucket");
    for limit in LIMITS {
        let seconds = Duration::from_secs_f64(limit.parse().unwrap_or(0.0));
        sample(out, &bucket, Some(("le", limit)), times.up_to(seconds));
    }
    sample(out, &bucket, Some(("le", "+Inf")), times.count());
    sample(out, &format!("{name}_gcount"), None, times.count());
    sample(out, &format!("{name}_gsum"), None, times.sum().as_secs_f64());
}

/// A label's value.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            _ => f.write_char(letter),
        })
    }
}
