//! CPU-bound fan-out: Fibonacci numbers, with a task for every left call.

use std::pin::Pin;

use crate::harness::{Contender, Metric, Row, seconds};
use crate::peers;

/// The number to compute: 832,039 tasks.
pub(crate) const DEPTH: u64 = 29;

/// Returns how many tasks are spawned for `fib(depth)`: one for each call with a number of two or
/// more.
pub(crate) fn tasks(depth: u64) -> u64 {
    if depth < 2 { 0 } else { 1 + tasks(depth - 1) + tasks(depth - 2) }
}

/// Two workers share the tree, and a task itself does next to nothing.
pub(crate) fn row() -> Row {
    Row {
        family: "fan-out",
        number: None,
        title: format!("CPU-bound fan-out, fib({DEPTH}) by tasks on two workers, per task"),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("rayon", rayon),
            Contender::timed("tokio", tokio),
            Contender::go(2, &["fan-out", &DEPTH.to_string()]),
        ],
        note: "no cut-off: the left call is a task (rayon: join), the right one a call",
    }
}

/// Returns the time per task of the second of two runs.
pub(crate) fn per_task(mut compute: impl FnMut(u64) -> u64) -> f64 {
    let expected = compute(DEPTH);
    let (taken, value) = seconds(|| compute(DEPTH));
    assert_eq!(value, expected, "both runs compute the same number");
    assert_eq!(value, 514_229, "fib(29)");
    taken * 1e9 / tasks(DEPTH) as f64
}

fn rayon() -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("rayon starts");
    per_task(|depth| pool.install(|| rayon_fib(depth)))
}

fn rayon_fib(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    let (left, right) = rayon::join(|| rayon_fib(number - 1), || rayon_fib(number - 2));
    left + right
}

fn tokio() -> f64 {
    let runtime = peers::tokio::runtime(2);
    per_task(|depth| peers::tokio::in_task(&runtime, tokio_fib(depth)))
}

/// The future is boxed, because it contains itself.
fn tokio_fib(number: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if number < 2 {
            return number;
        }
        let left = tokio::spawn(tokio_fib(number - 1));
        let right = tokio_fib(number - 2).await;
        left.await.expect("the task does not panic") + right
    })
}
