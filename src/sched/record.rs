//! What a worker tells its recorder and the switch hook at each switch.
//!
//! The functions are out of line and cold. The hot paths only look whether the thread
//! [`is_hooked`](crate::task::is_hooked), which is true if it has a hook or a recorder.
#![expect(unsafe_code, reason = "looks at tasks and waiters by pointer")]

use crate::base::record::{self, Ring, Subject};
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::driver::Op;
use crate::park::Intent;
use crate::task::{self, Header, Kept, LeaveReason};

/// Why a worker stops running a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop<'a> {
    /// It has switched away with this intent.
    Switches(&'a Header, Intent),
    /// It is a root that waits or yields.
    Root(&'a Header),
    /// Its future is pending.
    Pending,
    Ended,
}

/// A task starts. If the current task starts it in place, that task is suspended.
#[cold]
#[inline(never)]
pub(super) fn starts(header: &Header, kept: &Kept, in_place: bool) {
    record::with(|ring| runs(ring, header, true));
    if in_place && let Some(outer) = task::current_header() {
        outer.running().kept.leave(LeaveReason::Suspended);
    }
    if let Some(extra) = &header.extra {
        kept.take_from(&extra.kept);
    }
    kept.enter();
}

/// The first stretch of a task is over. If the current task started it in place, that task goes on.
#[cold]
#[inline(never)]
pub(super) fn first_stop(kept: &Kept, stop: Stop<'_>, in_place: bool) {
    stops(kept, stop);
    if in_place && let Some(outer) = task::current_header() {
        record::with(|ring| runs(ring, outer, false));
        outer.running().kept.enter();
    }
}

/// A task goes on.
#[cold]
#[inline(never)]
pub(super) fn goes_on(header: &Header, kept: &Kept) {
    // What has to be called afterwards would have to be kept meanwhile.
    if task::calls_hook() {
        goes_on_with_hook(header, kept);
    } else {
        record::with(|ring| runs(ring, header, false));
    }
}

#[inline(never)]
fn goes_on_with_hook(header: &Header, kept: &Kept) {
    record::with(|ring| runs(ring, header, false));
    kept.enter();
}

/// A task stops.
#[cold]
#[inline(never)]
pub(super) fn stops(kept: &Kept, stop: Stop<'_>) {
    kept.leave(if matches!(stop, Stop::Ended) {
        LeaveReason::Ended
    } else {
        LeaveReason::Suspended
    });
    record::with(|ring| match stop {
        Stop::Switches(header, Intent::Park) => parks(ring, header),
        Stop::Root(header) if !header.running().parker.parked_on().is_null() => parks(ring, header),
        Stop::Switches(..) | Stop::Root(_) => ring.yields(),
        Stop::Pending => ring.park("its future to be woken", Subject::Nothing, None),
        Stop::Ended => ring.end(),
    });
}

/// Tells the recorder that a task runs.
pub(super) fn runs(ring: &Ring, header: &Header, is_first: bool) {
    let is_root = header.scope.is_null();
    let name = header.name().or(is_root.then_some("root"));
    ring.run(header.id(), is_first, header.spawned_at(), name);
    #[cfg(feature = "sim")]
    note_host(ring, header);
}

/// Notes the host of a task of a simulation that does not run. The first task of a host belongs to
/// it from its first stretch on.
#[cfg(feature = "sim")]
fn note_host(ring: &Ring, header: &Header) {
    if let Some(host) = simulated::host_of(std::ptr::from_ref(header).cast()) {
        ring.host(header.id(), &host);
    }
}

fn parks(ring: &Ring, header: &Header) {
    #[cfg(feature = "sim")]
    note_host(ring, header);
    // SAFETY: S4: the task has switched away and has not been resumed, so the frame of its wait
    // stays.
    match unsafe { header.running().parker.parked_on().as_ref() } {
        Some(waiter) => {
            let (what, subject, at) = waiter.brief();
            // An operation's wait begins in this library, not at a place of the program.
            let at = (!matches!(subject, Subject::Fd(_))).then_some(at);
            ring.park(what, subject, at);
        }
        None => ring.park("", Subject::Nothing, None),
    }
}

/// The running code has woken a task that is parked.
#[cold]
#[inline(never)]
pub(super) fn wakes(header: &Header) {
    record::with(|ring| ring.wake(header.id()));
}

/// A task has arrived that another thread has woken.
#[cold]
#[inline(never)]
pub(super) fn arrives(header: &Header) {
    record::with(|ring| ring.arrive(header.id()));
}

/// An operation is over.
#[cold]
#[inline(never)]
pub(super) fn performed(op: &Op<'_>, result: &std::io::Result<u32>) {
    record::with(|ring| {
        let result = match result {
            Ok(count) => i32::try_from(*count).unwrap_or(i32::MAX),
            Err(error) => error.raw_os_error().map_or(i32::MIN, |number| -number),
        };
        ring.io(op.name(), op.descriptor().number(), result);
    });
}

/// The worker has stolen tasks.
#[cold]
pub(super) fn steals(victim: usize, count: usize) {
    record::with(|ring| ring.steal(victim, count));
}
