//! An ABA in a lease protocol: a write is accepted if the writer's host holds the lease. A slow job
//! of host `a` loses the lease to `b`. When another job of `a` has the lease again, the slow job's
//! write is accepted, and undoes that of `b`.

use super::{Form, is_found, passes};
use ecru::sync::Mutex;
use ecru::time::{now, sleep};
use ecru::{Cancelled, sim};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(40);

struct Lease {
    host: &'static str,
    expires: Instant,
}

/// A counter that is changed by the holder of its lease.
#[derive(Default)]
struct Counter {
    lease: Option<Lease>,
    /// The number of leases so far. The current lease has this number.
    leases: u64,
    value: u64,
    accepted: u64,
}

impl Counter {
    /// Returns the number of the new lease, if no other lease is in force.
    fn acquire(&mut self, host: &'static str) -> Option<u64> {
        if self.lease.as_ref().is_some_and(|lease| now() < lease.expires) {
            return None;
        }
        self.lease = Some(Lease { host, expires: now() + LEASE });
        self.leases += 1;
        Some(self.leases)
    }

    /// Changes the value and ends the lease, if the writer has it.
    fn write(&mut self, form: Form, host: &'static str, lease: u64, value: u64) {
        let is_of_host = self.lease.as_ref().is_some_and(|lease| lease.host == host);
        if is_of_host && (form == Form::Buggy || lease == self.leases) {
            self.accepted += 1;
            self.value = value;
            self.lease = None;
        }
    }
}

/// Adds 1 to the counter, unless it loses the lease before it can.
fn job(form: Form, counter: &Mutex<Counter>, host: &'static str) -> Result<(), Cancelled> {
    let lease = loop {
        if let Some(lease) = counter.lock().acquire(host) {
            break lease;
        }
        sleep(Duration::from_millis(5))?;
    };
    let value = counter.lock().value;
    sleep(Duration::from_millis(sim::random_u64() % 60))?;
    counter.lock().write(form, host, lease, value + 1);
    Ok(())
}

fn program(form: Form) {
    let counter = Mutex::default();
    ecru::scope(|s| {
        for (name, host) in [("job 1 of a", "a"), ("job of b", "b"), ("job 2 of a", "a")] {
            let counter = &counter;
            s.builder().name(name).spawn(move || job(form, counter, host));
        }
    });
    let Counter { value, accepted, .. } = counter.into_inner();
    assert_eq!(value, accepted, "each accepted write added 1");
}

#[test]
fn aba_in_a_lease_is_found() {
    is_found(program, &["each accepted write added 1"]);
}

#[test]
fn aba_in_a_lease_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("ABA in a lease protocol", program);
