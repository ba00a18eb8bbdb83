//! The same program again and again, with one thing going wrong at each place of it.

use super::command::message;
use super::course::Course;
use super::explore::Simulated;
use super::pilot::{Plan, Record};
use super::search::{Runs, length};
use super::test::{caught_text, say_runs, seeds_or_panic, usual};

/// The seeds, if the environment does not say anything else. Each of them gives another schedule.
const SEEDS: u64 = 4;

/// Runs `f` in simulations in which one task is cancelled: at the first place of the run, at the
/// second one, and so on, until a run ends before its place comes.
///
/// There is a place before each call that may wait and before each spawn. There is another one when
/// a task has begun to wait, and one when it has been woken and has not run yet. So each task is
/// cancelled before, during and after each wait. (Before `yield_now` there is no place, because it
/// lets the others run in any case.) It is cancelled as by
/// [`JoinHandle::cancel`](crate::JoinHandle::cancel), and its children with it.
///
/// `f` must expect each of its tasks to be cancelled, its first one included. That holds also for a
/// task that a library starts for itself, which outside of a simulation is only cancelled together
/// with others. `f` panics if something is lost. The places are those of four schedules, with the
/// seeds from 0 to 3. The variables `ECRU_SIM_SEEDS` and `ECRU_SIM_SEED` change that as they do for
/// [`test`](super::test()).
///
/// # Panics
/// Panics if a run fails, with the message that [`test`](super::test()) would have, and the place.
///
/// # Examples
/// A permit that is not returned when a wait is cancelled would be missing at the end:
/// ```
/// use ecru::sync::Semaphore;
///
/// ecru::sim::cancel_everywhere(|| {
///     let permits = Semaphore::new(1);
///     ecru::scope(|s| {
///         for _ in 0..2 {
///             s.spawn(|| {
///                 let Ok(_permit) = permits.acquire() else { return };
///                 let _ = ecru::yield_now();
///             });
///         }
///     });
///     assert_eq!(permits.available_permits(), 1);
/// });
/// ```
#[track_caller]
pub fn cancel_everywhere(f: impl Fn() + Send + Sync) {
    each_place(f, |plan, place| plan.cancel = place, |record| record.cancelled.is_some());
}

/// Runs `f` in simulations in which one I/O operation fails: the first one, the second one, and so
/// on, until a run has fewer operations.
///
/// The error is `EIO`, except for two kinds of operations. Opening a socket, a pipe or an eventfd
/// fails with `EMFILE`. Binding a socket and listening fail with `EADDRINUSE`.
///
/// `f` must expect each of its operations to fail, except for those of its [`set_up`]. The schedules
/// are those of [`cancel_everywhere`].
///
/// # Panics
/// Panics if a run fails, with the message that [`test`](super::test()) would have, and the number
/// of the operation.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
///
/// ecru::sim::fault_everywhere(|| {
///     let copied = (|| {
///         let (mut reader, mut writer) = ecru::io::pipe()?;
///         writer.write_all(b"all")?;
///         drop(writer);
///         let mut text = String::new();
///         reader.read_to_string(&mut text)?;
///         std::io::Result::Ok(text)
///     })();
///     assert!(copied.is_err() || copied.unwrap() == "all");
/// });
/// ```
#[track_caller]
pub fn fault_everywhere(f: impl Fn() + Send + Sync) {
    each_place(f, |plan, number| plan.fault = number, |record| record.struck.is_some());
}

/// Calls `f`, which sets up a test. Until it returns, [`fault_everywhere`] lets no I/O operation of
/// the simulation fail, and counts none. That holds for the operations of all tasks and hosts, so
/// the set-up may use a server that runs already.
///
/// Other faults do strike: those that are drawn, and those of [links](super::link()).
/// [`cancel_everywhere`] cancels the calls of a set-up, too, unless they are inside a
/// [`shield`](crate::shield). Outside of a simulation, this only calls `f`.
///
/// # Cancellation
/// This is a cancellation point only if `f` has one.
///
/// # Examples
/// ```
/// use ecru::{fs, sim};
///
/// /// Moves the counter on by one. If it fails, the counter has its old value or the next one.
/// fn count() -> std::io::Result<()> {
///     let old: u32 = fs::read_to_string("counter")?.parse().unwrap();
///     fs::write("counter.new", (old + 1).to_string())?;
///     fs::rename("counter.new", "counter")
/// }
///
/// sim::fault_everywhere(|| {
///     sim::set_up(|| fs::write("counter", "7")).expect("this write does not fail");
///     let counted = count();
///     let counter = sim::set_up(|| fs::read_to_string("counter")).unwrap();
///     assert_eq!(counter, if counted.is_ok() { "8" } else { "7" });
/// });
/// ```
pub fn set_up<T>(f: impl FnOnce() -> T) -> T {
    let _without_fault = Course::here().map(|course| course.world.without_fault());
    f()
}

/// Runs `f` as it is, and then with each place, for each seed.
#[track_caller]
fn each_place(
    f: impl Fn() + Send + Sync,
    set: impl Fn(&mut Plan, Option<u64>),
    was_reached: impl Fn(&Record) -> bool,
) {
    let program = Simulated::new(f).of_a_test();
    let length = Some(length(&program));
    let mut runs = Runs::once();
    for seed in seeds_or_panic(SEEDS) {
        for place in 0.. {
            let mut plan = Plan { length, ..Plan::of(usual(seed)).with_marks() };
            set(&mut plan, (place > 0).then_some(place));
            match runs.check(&program, seed, &plan) {
                Err(caught) => panic!("{}", message(&caught_text(*caught, &program), seed)),
                Ok(outcome) if place > 0 && !was_reached(&outcome.record) => break,
                Ok(_) => {}
            }
        }
    }
    say_runs(runs.count);
}
