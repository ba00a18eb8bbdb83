//! Rows of `doc/behaviour/combine.md`.

mod failures;
mod first_ok;
mod handles;
mod join_all;
mod join_macro;
mod join_set;
mod zip;

use crate::support::{forever, settle, until};
use ecru::{JoinError, JoinHandle, Scope};
use std::sync::Mutex;

/// The failures of the tasks in these tests.
#[derive(Clone, Debug, PartialEq)]
enum Failure {
    Number(u32),
    /// A short name of the `JoinError`.
    None(&'static str),
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        Failure::None(match error {
            JoinError::Cancelled => "never began",
            JoinError::Panicked(_) => "panicked",
            JoinError::CallerCancelled => "caller",
            JoinError::Taken => "taken",
            JoinError::Empty => "empty",
            _ => "other",
        })
    }
}

type Outcome<T = u32> = Result<T, Failure>;

/// Gates at which tasks wait, ignoring cancellation, so that they end in the order that a test
/// needs.
#[derive(Default)]
struct Gates(Mutex<Vec<u32>>);

impl Gates {
    fn open(&self, gate: u32) {
        self.0.lock().unwrap().push(gate);
    }

    fn wait(&self, gate: u32) {
        until(|| self.0.lock().unwrap().contains(&gate));
    }
}

/// Opens the gates one after another, each when the task behind the previous one has ended.
fn one_after_another(gates: &Gates, order: &[u32], has_ended: impl Fn(u32) -> bool) {
    for gate in order {
        // By now the combining task has been notified of the last end, and has looked.
        settle();
        gates.open(*gate);
        until(|| has_ended(*gate));
    }
}

/// All orders of three.
const ORDERS: [[u32; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn good<'scope>(s: &'scope Scope<'scope, '_>, value: u32) -> JoinHandle<'scope, Outcome> {
    s.spawn(move || Ok(value))
}

fn bad<'scope>(s: &'scope Scope<'scope, '_>, value: u32) -> JoinHandle<'scope, Outcome> {
    s.spawn(move || Err(Failure::Number(value)))
}

fn parked<'scope>(s: &'scope Scope<'scope, '_>) -> JoinHandle<'scope, Outcome> {
    s.spawn(|| {
        forever();
        Err(Failure::Number(99))
    })
}

/// Starts three tasks behind gates 0 to 2, which end in a given order while `combined` waits for
/// them.
fn in_order<R>(
    order: [u32; 3],
    result_of: impl Fn(u32) -> Outcome + Copy + Send + Sync,
    combined: impl FnOnce([&JoinHandle<'_, Outcome>; 3]) -> R,
) -> R {
    let gates = Gates::default();
    ecru::scope(|s| {
        let handles = [0, 1, 2].map(|n| {
            let gates = &gates;
            s.spawn(move || {
                gates.wait(n);
                result_of(n)
            })
        });
        ecru::scope(|inner| {
            // This runs on the same worker, so it begins when this task waits. No task ends before
            // it is waited for.
            inner.spawn_local(|| {
                one_after_another(&gates, &order, |n| handles[n as usize].is_finished());
            });
            combined(handles.each_ref())
        })
    })
}

fn good_in<'scope>(s: &'scope Scope<'scope, '_>) -> impl FnMut(u32) -> JoinHandle<'scope, Outcome> {
    move |n| good(s, n)
}
