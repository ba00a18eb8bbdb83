//! Pinning: a row for one worker runs on one core, a row for two workers on two.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, and every thread and program it starts, on the first `cores` of the cores it may use.
///
/// # Errors
///
/// When the machine has fewer cores, or refuses.
pub(crate) fn pin(cores: usize) -> Result<(), String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    let mut chosen = CpuSet::new();
    let usable = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    usable.take(cores).for_each(|core| chosen.set(core));
    if (chosen.count() as usize) < cores {
        return Err(format!(
            "this row wants {cores} cores, and only {} may be used here",
            chosen.count()
        ));
    }
    sched_setaffinity(None, &chosen).map_err(|error| format!("sched_setaffinity: {error}"))
}
