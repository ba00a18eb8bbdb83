//! A cancellation that leaks a permit: a job gives its permit back by hand, at its end. A job that
//! is cancelled in its query never gets there. After two of them, the pool has no permits.

use super::{Form, is_found, passes};
use ecru::sync::Semaphore;
use ecru::{sim, sleep};
use std::io;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

/// Takes up to 60 ms.
fn query() -> io::Result<()> {
    Ok(sleep(Duration::from_millis(sim::random_u64() % 60))?)
}

fn job(form: Form, connections: &Semaphore) -> io::Result<()> {
    match form {
        Form::Buggy => {
            connections.acquire()?.forget();
            ecru::try_timeout(LIMIT, query)?;
            connections.add_permits(1);
        }
        Form::Repaired => {
            let _connection = connections.acquire()?;
            ecru::try_timeout(LIMIT, query)?;
        }
    }
    Ok(())
}

fn program(form: Form) {
    let connections = Semaphore::new(2);
    ecru::scope(|s| {
        for number in 1..=6 {
            let connections = &connections;
            s.builder().name(format!("job {number}")).spawn(move || job(form, connections));
        }
    });
}

#[test]
fn leaked_permit_is_found() {
    // Jobs wait for a permit that no task holds.
    is_found(program, &["deadlock", "job ", "waits for a permit", "leaked_permit.rs"]);
}

/// Finds the same bug without seeds: a cancellation at the second decision point is enough.
#[test]
#[should_panic(expected = "the permit is back")]
fn leaked_permit_is_found_by_cancelling_everywhere() {
    sim::cancel_everywhere(|| {
        let connections = Semaphore::new(1);
        let _ = job(Form::Buggy, &connections);
        assert_eq!(connections.available_permits(), 1, "the permit is back");
    });
}

#[test]
fn leaked_permit_is_repaired_slow() {
    sim::cancel_everywhere(|| {
        let connections = Semaphore::new(1);
        let _ = job(Form::Repaired, &connections);
        assert_eq!(connections.available_permits(), 1, "the permit is back");
    });
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("permit leaked by a cancellation", program);
