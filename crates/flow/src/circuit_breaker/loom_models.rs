//! Models of a breaker that several threads use. It lets no more than its probes through, and stays
//! half open for no longer than they take.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{CircuitBreaker, CircuitError, CircuitState};

fn broken() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Creates a breaker that is half open, because no time has to pass.
fn half_open(probes: u32) -> Arc<CircuitBreaker> {
    let breaker = CircuitBreaker::new().min_calls(1).open_for(Duration::ZERO).probes(probes);
    breaker.call(broken).unwrap_err();
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    Arc::new(breaker)
}

/// The call of another thread either is refused, or comes after the probe.
#[test]
fn one_probe_is_made_at_a_time() {
    for probe in [|| Ok(()), broken] {
        loom::model(move || {
            let breaker = half_open(1);
            let probing = Arc::new(AtomicU32::new(0));
            let call = move |breaker: &CircuitBreaker, probing: &AtomicU32| {
                breaker.call(|| {
                    assert_eq!(probing.fetch_add(1, Ordering::Relaxed), 0, "two probes");
                    let outcome = probe();
                    probing.fetch_sub(1, Ordering::Relaxed);
                    outcome
                })
            };
            let other = (Arc::clone(&breaker), Arc::clone(&probing));
            let calling = thread::spawn(move || call(&other.0, &other.1));
            let outcomes = [call(&breaker, &probing), calling.join().unwrap()];
            assert!(!outcomes.iter().all(|out| matches!(out, Err(CircuitError::Open { .. }))));
        });
    }
}

/// Of two probes one fails, or both succeed. In any order of their ends, the breaker does not stay
/// half open without probes to come.
#[test]
fn probes_end_in_any_order() {
    for second in [|| Ok(()), broken] {
        loom::model(move || {
            let breaker = half_open(2);
            let other = Arc::clone(&breaker);
            let calling = thread::spawn(move || drop(other.call(second)));
            breaker.call(|| Ok::<_, io::Error>(())).unwrap();
            calling.join().unwrap();
            breaker.call(|| Ok::<_, io::Error>(())).unwrap();
        });
    }
}
