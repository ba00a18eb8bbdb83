//! The measurements: time, CPU time, the share of the busiest worker, wake-ups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

use super::shape::{FOREIGN, Shape};
use super::words;
use crate::harness::{Metric, Sample, Unit, cpu_seconds};

/// The metrics of each contender of a shape.
pub(super) const METRICS: &[Metric] = &[
    Metric::TIME,
    Metric { name: "cpu", unit: Unit::Nanoseconds },
    Metric { name: "busiest", unit: Unit::Percent },
    Metric { name: "wake-ups", unit: Unit::Count },
];

/// These metrics, plus the operations that were not done when the foreign code returned.
pub(super) const BLOCKED_METRICS: &[Metric] = &[
    METRICS[0],
    METRICS[1],
    METRICS[2],
    METRICS[3],
    Metric { name: "stranded", unit: Unit::Count },
];

/// The counts of one thread. Only that thread writes, so plain loads and stores are enough. The
/// alignment keeps the slot on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    hits: AtomicU64,
    checksum: AtomicU64,
}

/// The slots of all threads. They are never freed, because a child process ends soon.
static SLOTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: &'static Slot = {
        let slot: &Slot = Box::leak(Box::default());
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        slot
    };
}

/// Counts an operation of the calling thread, and combines its result.
pub(super) fn hit(value: u64) {
    OWN.with(|slot| {
        slot.hits.store(slot.hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        slot.checksum.store(slot.checksum.load(Ordering::Relaxed) ^ value, Ordering::Relaxed);
    });
}

/// Returns hits and checksum of each thread.
fn slots() -> Vec<[u64; 2]> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let both = |slot: &&Slot| [&slot.hits, &slot.checksum].map(|cell| cell.load(Ordering::Relaxed));
    slots.iter().map(both).collect()
}

/// The state of the process at one moment.
pub(super) struct Moment {
    at: Instant,
    cpu: f64,
    waits: i64,
    slots: Vec<[u64; 2]>,
}

impl Moment {
    pub(super) fn now() -> Moment {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the process may ask about itself");
        Moment {
            at: Instant::now(),
            cpu: cpu_seconds(),
            waits: usage.voluntary_context_switches(),
            slots: slots(),
        }
    }

    /// Returns the sample of the work since this moment.
    ///
    /// # Panics
    ///
    /// Panics if an operation was not done, was done twice, or had a wrong result.
    pub(super) fn sample_since(self, shapes: &[Shape]) -> Sample {
        let now = Moment::now();
        let mut before = self.slots;
        // Threads may have been added, and none has left the list.
        before.resize(now.slots.len(), [0, 0]);
        let own: Vec<u64> =
            now.slots.iter().zip(&before).map(|(after, before)| after[0] - before[0]).collect();
        let checksum = now.slots.iter().chain(&before).fold(0, |all, slot| all ^ slot[1]);
        let hits: u64 = own.iter().sum();
        assert_eq!(hits, shapes.iter().map(|shape| shape.hits()).sum::<u64>(), "operations");
        let expected = shapes.iter().fold(0, |all, shape| all ^ shape.checksum());
        assert_eq!(checksum, expected, "checksum of the results");
        let operations = shapes.iter().map(|shape| shape.operations()).sum::<u64>() as f64;
        let busiest = own.into_iter().max().unwrap_or_default();
        vec![
            (METRICS[0].name, (now.at - self.at).as_secs_f64() * 1e9 / operations),
            (METRICS[1].name, (now.cpu - self.cpu) * 1e9 / operations),
            (METRICS[2].name, busiest as f64 * 100.0 / hits as f64),
            (METRICS[3].name, (now.waits - self.waits) as f64 * 1000.0 / operations),
        ]
    }
}

/// Measures `work`, which runs all of these shapes.
pub(super) fn measure(shapes: &[Shape], work: impl FnOnce()) -> Sample {
    if shapes.iter().any(|shape| matches!(shape, Shape::Words)) {
        words::file();
    }
    let before = Moment::now();
    work();
    before.sample_since(shapes)
}

/// Observes the tasks beside foreign code that blocks a worker.
pub(super) struct Watch {
    begun: Instant,
    left: AtomicU64,
    /// Nanoseconds until the last task had ended.
    done_after: AtomicU64,
    stranded: AtomicU64,
}

impl Watch {
    pub(super) fn over(tasks: u64) -> Watch {
        let [done_after, stranded] = [0, tasks].map(AtomicU64::new);
        Watch { begun: Instant::now(), left: AtomicU64::new(tasks), done_after, stranded }
    }

    /// Called at the end of each task.
    pub(super) fn done(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let nanos = self.begun.elapsed().as_nanos() as u64;
            self.done_after.store(nanos, Ordering::Relaxed);
        }
    }

    /// Blocks the calling thread, as foreign code would.
    pub(super) fn foreign_code(&self) {
        std::thread::sleep(FOREIGN);
        self.stranded.store(self.left.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the sample with the time until the last task had ended. The time after that is the
    /// end of the foreign code.
    pub(super) fn amend(&self, mut sample: Sample, tasks: u64) -> Sample {
        let done_after = self.done_after.load(Ordering::Relaxed) as f64;
        sample[0].1 = done_after / tasks as f64;
        sample.push(("stranded", self.stranded.load(Ordering::Relaxed) as f64));
        sample
    }
}
