//! The tasks that look after leases: one renews them, the other gives up those that have ended.
//!
//! They are two because a renewal waits for its confirmation, and a lease may end meanwhile.
//!
//! Renewals must not stand behind code of the program, so they have a thread: see `renewals`.
//! Giving a lease up cancels work of the program, which may run its code, so that is a task of the
//! program's runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ecru::select;

use crate::held::Holding;
use crate::renewals;
use crate::wall::is_simulated;

/// Starts to look after the leases of a holding, until it is over.
pub(crate) fn start(holding: &Arc<Holding>) -> io::Result<()> {
    let started = begin(holding);
    if started.is_err() {
        holding.finish();
    }
    started
}

fn begin(holding: &Arc<Holding>) -> io::Result<()> {
    let own = Arc::clone(holding);
    let keep = |task| holding.core.keep(task);
    keep(Box::new(move || until_over(&own, Holding::next_end, Holding::give_up, |_, _| {})))?;
    if is_simulated() {
        let own = Arc::clone(holding);
        return keep(Box::new(move || renew_until_over(&own)));
    }
    let over = renewals::begin(holding)?;
    // The fleet does not end before.
    keep(Box::new(move || over.wait()))
}

/// Renews the leases of a holding until it is over.
pub(crate) fn renew_until_over(holding: &Holding) {
    until_over(holding, Holding::next_renewal, renew, note_delay);
}

/// Calls `act` each time that `when` says, and `late` with the delay of each wait.
fn until_over(
    holding: &Holding,
    when: impl Fn(&Holding) -> Option<Instant>,
    act: impl Fn(&Holding, Instant),
    late: impl Fn(&Holding, Duration),
) {
    loop {
        let changed = holding.changed();
        if holding.is_over() {
            return;
        }
        let now = ecru::time::now();
        // A job that comes meanwhile is due no sooner than a third of a lease later.
        let (next, handed_out) = (when(holding), holding.handed_out());
        let due = next.unwrap_or(now + holding.lease() / 3);
        if due <= now {
            act(holding, now);
            continue;
        }
        select! {
            wait(&changed) -> result => if result.is_err() { return },
            default(due - now) => {},
        }
        // Without a job it does not matter. One may have come meanwhile, and may have gone or lost
        // its lease since.
        if next.is_some() || holding.handed_out() > handed_out {
            late(holding, ecru::time::now().saturating_duration_since(due));
        }
    }
}

/// Renews what is due. The requests are all made before the first answer is waited for.
fn renew(holding: &Holding, now: Instant) {
    let begun: Vec<_> = holding
        .take_due(now)
        .into_iter()
        .map(|held| {
            let renewal = held.given.lease.begin_renew();
            (held, ecru::time::now(), renewal)
        })
        .collect();
    // Whatever is not answered until then is asked again.
    let limit = now + holding.lease() / 3;
    for (held, asked, renewal) in begun {
        held.flush_report();
        let answer = renewal.and_then(|renewal| {
            ecru::timeout_at(limit, || renewal.wait()).unwrap_or_else(|elapsed| Err(elapsed.into()))
        });
        match answer {
            Ok(true) => held.renewed(asked),
            Ok(false) => held.expire(),
            Err(_) => held.renew_soon(ecru::time::now()),
        }
    }
}

/// Tells once if leases are renewed so late that they may be lost. The program is told by a task of
/// its own runtime.
fn note_delay(holding: &Holding, delay: Duration) {
    if delay < holding.lease() / 3 || holding.is_late.swap(true, Ordering::Relaxed) {
        return;
    }
    let text = format!(
        "leases of {:?} were renewed {delay:?} too late, so jobs may run twice: the process stood \
         still, or the machine has too few processors for it; raise the lease",
        holding.lease()
    );
    let core = Arc::clone(&holding.core);
    // At the end of the fleet there is nothing left to do about it.
    let _ = holding.core.keep(Box::new(move || core.warn(&text)));
}
