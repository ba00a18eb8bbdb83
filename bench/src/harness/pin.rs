//! Pinning: a row for one worker runs on one core, a row for two workers on two.

use std::sync::OnceLock;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the numbers of the cores that this thread may use, in their order.
///
/// # Errors
///
/// Returns an error if the kernel does not report them.
pub(crate) fn usable_cores() -> Result<Vec<usize>, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

/// Pins this thread, and every thread and program that it starts, to the first `cores` of the cores
/// that it may use.
///
/// # Errors
///
/// Returns an error if the machine has fewer cores, or refuses.
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

/// The second core that this process may use, determined before the process was pinned. A server's
/// load runs on it.
static SECOND: OnceLock<usize> = OnceLock::new();

/// Determines [`second_core`]. It is called before [`pin`].
pub(crate) fn note_second_core() {
    let allowed = sched_getaffinity(None).expect("a thread may ask where it may run");
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = usable.next().expect("it runs somewhere");
    SECOND.get_or_init(|| usable.next().unwrap_or(first));
}

/// Returns the number of the second core, or of the only core.
pub(crate) fn second_core() -> usize {
    *SECOND.get().expect("noted when the child began")
}

/// Runs `start` while this thread is pinned to the second core, so that the programs which it
/// starts run there.
///
/// # Panics
///
/// Panics if the machine refuses.
pub(crate) fn on_second_core<T>(start: impl FnOnce() -> T) -> T {
    let own = sched_getaffinity(None).expect("a thread may ask where it may run");
    pin_to(second_core()).expect("the core is one of this machine's");
    let started = start();
    sched_setaffinity(None, &own).expect("this thread ran there before");
    started
}

/// Pins this thread, and what it starts, to one core, whatever it was pinned to before.
///
/// # Errors
///
/// Returns an error if the machine refuses.
pub(crate) fn pin_to(core: usize) -> Result<(), String> {
    let mut chosen = CpuSet::new();
    chosen.set(core);
    sched_setaffinity(None, &chosen).map_err(|error| format!("sched_setaffinity: {error}"))
}

/// Runs both on threads of their own, the first pinned to the first of the row's cores and the
/// second to the second.
///
/// # Panics
///
/// Panics if one of them panics, or if the row has only one core.
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
