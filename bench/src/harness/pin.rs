//! Pinning: a row for one worker runs on one core, a row for two workers on two.

use std::sync::OnceLock;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that this thread may use, in their order.
///
/// # Errors
///
/// When the kernel does not say.
pub(crate) fn usable_cores() -> Result<Vec<usize>, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

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

/// The second core that this process may use, found before it was pinned. For a load that is to run beside it.
static SECOND: OnceLock<usize> = OnceLock::new();

/// Remembers [`second_core`]; called before [`pin`].
pub(crate) fn note_second_core() {
    let allowed = sched_getaffinity(None).expect("a thread may ask where it may run");
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = usable.next().expect("it runs somewhere");
    SECOND.get_or_init(|| usable.next().unwrap_or(first));
}

/// The number of the second core; on a machine with one core it is that.
pub(crate) fn second_core() -> usize {
    *SECOND.get().expect("noted when the child began")
}

/// Keeps this thread, and what it starts, on one core, whatever it was pinned to before.
///
/// # Errors
///
/// When the machine refuses.
pub(crate) fn pin_to(core: usize) -> Result<(), String> {
    let mut chosen = CpuSet::new();
    chosen.set(core);
    sched_setaffinity(None, &chosen).map_err(|error| format!("sched_setaffinity: {error}"))
}

/// Runs both on threads of their own, the first pinned to the first of the row's cores and the second to the second.
///
/// # Panics
///
/// When one of them does, or the row has one core only.
pub(crate) fn on_two_cores(first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    thread::scope(|threads| {
        threads.spawn(|| on_core(0, first));
        threads.spawn(|| on_core(1, second));
    });
}

/// Runs `work` on this thread, pinned to one of the cores that it may use.
fn on_core(index: usize, work: impl FnOnce()) {
    let allowed = sched_getaffinity(None).expect("a thread may ask where it may run");
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let mut chosen = CpuSet::new();
    chosen.set(usable.nth(index).expect("the row has as many cores"));
    sched_setaffinity(None, &chosen).expect("the core is one of its own");
    work();
}
