//! Clocks and memory.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Metrics and values.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// The wall time and the CPU time since a moment.
pub(crate) struct Cost {
    begun: Instant,
    cpu: f64,
}

impl Cost {
    pub(crate) fn begin() -> Cost {
        Cost { begun: Instant::now(), cpu: cpu_seconds() }
    }

    /// Returns both for one of `count` operations, in nanoseconds.
    pub(crate) fn per(&self, count: usize) -> Sample {
        let (wall, cpu) = (self.begun.elapsed().as_secs_f64(), cpu_seconds() - self.cpu);
        let each = |seconds: f64| seconds * 1e9 / count as f64;
        vec![("time", each(wall)), ("cpu", each(cpu))]
    }
}

/// Returns the CPU time of this process so far, in user and kernel mode, over all threads.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Returns the median, in nanoseconds.
///
/// # Panics
///
/// Panics if there are no times.
pub(crate) fn median(mut times: Vec<Duration>) -> f64 {
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    median.as_nanos() as f64
}

/// Returns the resident bytes of a process.
pub(crate) fn resident_bytes(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kibibytes.ok_or("the kernel reports no resident size")?.parse::<f64>()? * 1024.0)
}
