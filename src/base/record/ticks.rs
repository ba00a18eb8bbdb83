//! The clock of the recorder. A switch between tasks takes some ten nanoseconds, and the system's
//! clock takes twice as long.

use std::time::Instant;

use crate::base::clock;

/// What counts the time of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    /// The processor's counter. It counts at a constant rate, which is the same on all cores.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    Processor,
    /// The nanoseconds since this moment. In a simulation these are virtual.
    Clock(Instant),
}

impl Counter {
    pub(super) fn choose() -> Counter {
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        if !crate::base::simulated::is_simulated() && processor::is_constant() {
            return Counter::Processor;
        }
        Counter::Clock(now())
    }

    /// Reads the processor's counter, if that is what counts.
    #[inline(always)]
    pub(super) fn ticks(self) -> Option<u64> {
        match self {
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            Counter::Processor => Some(processor::read()),
            Counter::Clock(_) => None,
        }
    }

    pub(super) fn read(self) -> u64 {
        match self {
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            Counter::Processor => processor::read(),
            Counter::Clock(since) => nanos(now(), since),
        }
    }
}

/// Returns the current time. In a simulation it is the same on all hosts.
fn now() -> Instant {
    #[cfg(feature = "sim")]
    return clock::common_now();
    #[cfg(not(feature = "sim"))]
    clock::now()
}

fn nanos(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_nanos()).unwrap_or(u64::MAX)
}

/// Two moments, between which ticks are turned into nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    ticks: u64,
    time: Instant,
}

impl Origin {
    pub(super) fn now(counter: Counter) -> Origin {
        Origin { ticks: counter.read(), time: now() }
    }

    /// Returns a function that turns the counter's ticks into nanoseconds since this moment.
    pub(super) fn scale(self, counter: Counter) -> impl Fn(u64) -> u64 + Copy {
        let end = Origin::now(counter);
        let ticks = u128::from(end.ticks.saturating_sub(self.ticks)).max(1);
        let passed = u128::from(nanos(end.time, self.time));
        let is_scaled = !matches!(counter, Counter::Clock(_));
        move |time: u64| {
            let since = time.saturating_sub(self.ticks);
            if is_scaled {
                u64::try_from(u128::from(since) * passed / ticks).unwrap_or(u64::MAX)
            } else {
                since
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod processor {
    #![expect(unsafe_code, reason = "reads the processor's counter")]

    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Returns whether the counter's rate is constant, also while a core sleeps. The system then
    /// keeps the counters of all cores equal, and reads them itself for its clock.
    pub(super) fn is_constant() -> bool {
        #[allow(unused_unsafe, reason = "newer compilers declare the function as safe")]
        // SAFETY: every processor of this architecture has the instruction, which reads no memory.
        let leaf = |number| unsafe { __cpuid(number) };
        leaf(0x8000_0000).eax >= 0x8000_0007 && (leaf(0x8000_0007).edx >> 8) & 1 == 1
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every processor of this architecture has the instruction, which reads no memory.
        unsafe { _rdtsc() }
    }
}
