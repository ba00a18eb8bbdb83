//! The calibration spin: a fixed amount of work that takes longer only on a slower or a shared
//! core.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use super::super::pin::pin_to;

/// The number of steps of the spin: about three milliseconds, long compared with a timer interrupt.
const STEPS: u64 = 2_000_000;

/// How often each core spins, one after another.
const TIMES: usize = 3;

/// Spins on these cores at the same time, and returns the nanoseconds of the slowest one.
pub(crate) fn spin_on(cores: &[usize]) -> Result<f64, String> {
    thread::scope(|threads| {
        let spinning: Vec<_> = cores
            .iter()
            .map(|&core| threads.spawn(move || pin_to(core).map(|()| spin())))
            .collect();
        spinning.into_iter().try_fold(0.0, |slowest: f64, thread| {
            Ok(slowest.max(thread.join().expect("it only computes")?))
        })
    })
}

/// Performs the fixed amount of work a few times and returns the nanoseconds of the fastest. The
/// kernel may still be busy with what the child has left, which says nothing about the core.
fn spin() -> f64 {
    (0..TIMES).map(|_| spin_once()).fold(f64::INFINITY, f64::min)
}

/// Performs the fixed amount of work and returns its nanoseconds. The work is a chain of
/// multiplications, each of which depends on the previous one.
fn spin_once() -> f64 {
    let start = Instant::now();
    let mut value = black_box(1_u64);
    for _ in 0..STEPS {
        value = (value ^ (value >> 7)).wrapping_mul(6_364_136_223_846_793_005);
    }
    black_box(value);
    start.elapsed().as_secs_f64() * 1e9
}
