//! The tasks that look after leases: one renews them, the other gives up those that have ended.
//!
//! They are two because a renewal waits for its confirmation, and a lease may end meanwhile.
//!
//! They are tasks of the program's runtime, so code that blocks a thread of it can hold them up.
//! They notice that, and tell.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use ecru::select;

use crate::errors::LeaseLost;
use crate::held::Holding;

/// Starts the two tasks. They end when the holding is over.
pub(crate) fn start(holding: &Arc<Holding>) -> io::Result<()> {
    let own = Arc::clone(holding);
    holding.core.keep(Box::new(move || until_over(&own, Holding::next_renewal, renew)))?;
    let own = Arc::clone(holding);
    holding.core.keep(Box::new(move || until_over(&own, Holding::next_end, Holding::give_up)))
}

/// Calls `act` each time that `when` says.
fn until_over(
    holding: &Holding,
    when: impl Fn(&Holding) -> Option<Instant>,
    act: impl Fn(&Holding, Instant),
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
            holding.note_delay(ecru::time::now().saturating_duration_since(due));
        }
    }
}

/// Renews what is due. The requests are all made before the first answer is waited for.
fn renew(holding: &Holding, now: Instant) {
    let begun: Vec<_> = holding
        .take_due(now)
        .into_iter()
        .map(|held| {
            let renewal = held.lease.begin_renew();
            (held, ecru::time::now(), renewal)
        })
        .collect();
    // Whatever is not answered until then is asked again.
    let limit = now + holding.lease() / 3;
    for (held, asked, renewal) in begun {
        let answer = renewal.and_then(|renewal| {
            ecru::timeout_at(limit, || renewal.wait()).unwrap_or_else(|elapsed| Err(elapsed.into()))
        });
        match answer {
            Ok(true) => held.renewed(asked),
            Ok(false) => held.lose(LeaseLost::Expired),
            Err(_) => held.renew_soon(ecru::time::now()),
        }
    }
}
