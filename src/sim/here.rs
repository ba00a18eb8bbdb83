//! What a program may ask of the simulation that it runs in.

use std::time::Duration;

use super::course::Course;
use super::hosts;
use crate::base::{clock, random, simulated};
use crate::sched;

/// Waits until every other task of the simulation is blocked until time advances. So everything
/// that can happen at this moment has then happened.
///
/// # Panics
/// Panics outside of a simulation, and inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is not a cancellation point.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let report = Simulation::new(1).run(|| {
///     let done = AtomicBool::new(false);
///     ecru::scope(|s| {
///         s.spawn(|| done.store(true, Ordering::Relaxed));
///         sim::settle();
///         assert!(done.load(Ordering::Relaxed));
///     });
/// });
/// report.unwrap();
/// ```
#[track_caller]
pub fn settle() {
    assert!(
        sched::settle(),
        "`sim::settle` called outside of a simulation; call it in a task of `Simulation::run`"
    );
}

/// Lets the simulation run another task here, as at the beginning of each call that may wait. It is
/// for code between the operations of atomics, where the library has no call of its own. Does
/// nothing outside of a simulation, and where a call that waits would panic.
///
/// # Cancellation
/// This is not a cancellation point.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// /// Adds 1, but not atomically.
/// fn increment(counter: &AtomicU32) {
///     let seen = counter.load(Ordering::SeqCst);
///     sim::point();
///     counter.store(seen + 1, Ordering::SeqCst);
/// }
/// let is_lost = |seed| {
///     let report = Simulation::new(seed).run(|| {
///         let counter = AtomicU32::new(0);
///         ecru::scope(|s| {
///             s.spawn(|| increment(&counter));
///             s.spawn(|| increment(&counter));
///         });
///         counter.into_inner()
///     });
///     report.unwrap() == 1
/// };
/// assert!((0..100).any(is_lost));
/// ```
pub fn point() {
    sched::decision_point();
}

/// Returns the virtual time since the simulation began. Returns zero outside of a simulation.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     ecru::sleep(Duration::from_secs(600)).unwrap();
///     sim::elapsed()
/// });
/// assert_eq!(report.unwrap(), Duration::from_secs(600));
/// ```
#[must_use]
pub fn elapsed() -> Duration {
    simulated::start()
        .map_or(Duration::ZERO, |start| clock::common_now().saturating_duration_since(start))
}

/// Returns whether the current thread is that of a simulation.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
///
/// assert!(!sim::is_simulated());
/// assert!(Simulation::new(1).run(sim::is_simulated).unwrap());
/// ```
#[must_use]
pub fn is_simulated() -> bool {
    simulated::is_simulated()
}

/// Returns `true` with this probability, as the seed decides. Returns `false` outside of a
/// simulation. It is for faults of the program's own: like other faults, those without which a run
/// fails as well are taken away from its trace, and [`calm`](super::calm) ends them.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
///
/// fn send(packet: u32) -> Option<u32> {
///     // One in ten packets is lost.
///     (!sim::chance(0.1)).then_some(packet)
/// }
/// let arrived = Simulation::new(1).run(|| (0..1_000).filter_map(send).count()).unwrap();
/// assert!((800..1_000).contains(&arrived));
/// assert_eq!((0..1_000).filter_map(send).count(), 1_000);
/// ```
#[must_use]
pub fn chance(probability: f64) -> bool {
    Course::here().is_some_and(|course| {
        !course.is_calm.get() && course.world.chance(hosts::current(), probability)
    })
}

/// Returns a number that the seed decides. Outside of a simulation it is any number.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
///
/// let draw = |seed| Simulation::new(seed).run(sim::random_u64).unwrap();
/// assert_eq!(draw(1), draw(1));
/// assert_ne!(draw(1), draw(2));
/// ```
#[must_use]
pub fn random_u64() -> u64 {
    Course::here().map_or_else(random::any, |course| course.random().any())
}

/// Checks after each step of the simulation that `holds` returns `true`. If it does not, the run
/// ends with [`Failure::Invariant`](super::Failure::Invariant). Does nothing outside of a
/// simulation.
///
/// A step ends when a task waits, ends, or is interrupted at a decision point. `holds` runs under
/// [`no_suspend`](crate::no_suspend), so it looks at locks by `try_lock`. If it panics, the run
/// ends with [`Failure::Panicked`](super::Failure::Panicked).
///
/// # Examples
/// ```
/// use ecru::sim::{self, Failure, Simulation};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI32, Ordering};
///
/// let report = Simulation::new(1).run(|| {
///     let balance = Arc::new(AtomicI32::new(10));
///     let seen = Arc::clone(&balance);
///     sim::invariant("the balance is not negative", move || seen.load(Ordering::SeqCst) >= 0);
///     ecru::scope(|s| {
///         for _ in 0..2 {
///             s.spawn(|| balance.fetch_sub(7, Ordering::SeqCst));
///         }
///     });
/// });
/// assert!(matches!(report.result, Err(Failure::Invariant { .. })));
/// ```
pub fn invariant(name: &str, holds: impl Fn() -> bool + 'static) {
    if let Some(course) = Course::here() {
        course.add_invariant(name, holds);
    }
}
