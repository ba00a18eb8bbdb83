//! The state of a simulation's thread, and what the code of that thread asks of it.
//!
//! A simulation has one thread. The cell [`simulated`](crate::base::local::Local::simulated) names
//! its state, and is null on every other thread. So the state consists of plain cells. Only the
//! alarms may be dropped on another thread.
//!
//! - The *virtual time* is the time when the simulation began and what has passed since. It stands
//!   still while tasks run. Only the scheduler and its driver move it, when no task can run.
//! - Each host has a *clock*, which shows the virtual time, or drifts from it ([`Drift`]). The code
//!   of a host reads that clock, and the times of its timers and alarms are those of that clock.
//!   They are converted when they are set. A clock has the number of its host.
//! - The *wall clock* of a simulation advances with the virtual time. It begins at [`BEGIN`] if
//!   std's clock has been replaced, and otherwise at the machine's time when the first simulation of
//!   the process began.
//! - *Alarms* are in a [module](mod@super::alarms) of their own, as the [panics](super::untaken) are
//!   that the program has not taken.
//! - *Tasks* are numbered from 0 in each simulation, so that their numbers are the same in each
//!   run. The numbers remain unique in the process by what is added to them ([`task_number`]).
//! - The crate `ecru-sim-libc` replaces functions of libc. On a simulation's thread they show the
//!   wall clock and draw from [`entropy`]. Code of this library that needs the real ones there, or
//!   starts a thread, does so in [`aside`].
#![expect(unsafe_code, reason = "the thread-local block stores an untyped pointer")]

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alarms::Alarms;
use super::untaken::Held;
use crate::base::drift::Drift;
use crate::base::sync::StaticU64;
use crate::base::sync::atomic::Ordering;
use crate::base::{local, random};

/// When simulations begin, by std's clock if the crate `ecru-sim-libc` replaces it: on 1 January
/// 2000, after the epoch.
pub(crate) const BEGIN: Duration = Duration::from_secs(946_684_800);

/// Returns the name of the host of a task, whose header this is.
type HostOf = fn(*const ()) -> Option<Arc<str>>;

/// The state of a simulation's thread. See the module.
pub(crate) struct Simulated {
    pub(super) held: Held,
    start: Cell<Instant>,
    pub(super) now: Cell<Instant>,
    /// What the wall clock showed at the start, as the time since the epoch.
    wall_start: Cell<Duration>,
    /// The state of the generator behind [`entropy`].
    entropy: Cell<u64>,
    /// The clocks that drift.
    clocks: RefCell<BTreeMap<u16, Drift>>,
    /// By how many milliseconds wall clocks are ahead, or behind.
    jumps: RefCell<BTreeMap<u16, i64>>,
    /// Returns the number of the clock of the running code. Set by the layer that starts
    /// simulations.
    here: Cell<fn() -> u16>,
    /// Returns the name of the host of a task, whose header this is. Set by the layer that starts
    /// simulations.
    host_of: Cell<HostOf>,
    /// The clock of the alarm that rings.
    pub(super) ringing: Cell<Option<u16>>,
    pub(super) alarms: Arc<Alarms>,
    /// What the numbers of its tasks begin with.
    prefix: u64,
    tasks: Cell<u32>,
    /// The addresses of objects, by the numbers that stand for them: see [`object_name`].
    objects: RefCell<BTreeMap<usize, usize>>,
    /// Panics of tasks are not reported.
    is_silent: Cell<bool>,
    /// The message of the last panic that was reported.
    reported: RefCell<Option<String>>,
    /// See [`ends_by_force`].
    ends_by_force: Cell<bool>,
    /// See [`set_cut_off`].
    cut_off: Cell<CutOff>,
    /// See [`interrupts_by_force`].
    interrupts_by_force: Cell<bool>,
    /// See [`capture_places`].
    captures_places: Cell<bool>,
    place: RefCell<Option<Backtrace>>,
    /// Says what is known of the run, when the process is about to end. Set by the layer that
    /// starts simulations.
    last_words: Cell<fn(&mut dyn fmt::Write)>,
    /// The part that belongs to the driver.
    world: RefCell<Option<Arc<dyn Any + Send + Sync>>>,
    /// The part that belongs to the layer that starts simulations.
    course: RefCell<Option<Rc<dyn Any>>>,
}

/// Whether the running task is *cut off*: its host has crashed, and nothing that it does counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutOff {
    No,
    /// Its waits are cancelled.
    Cancelled,
    /// Its waits are ended by force.
    ByForce,
}

/// Set in each number of a simulated task. One bit above it is left, which
/// [`current_identity`](crate::task) needs.
const MARK: u64 = 1 << 62;

impl Simulated {
    /// Creates the state of a simulation that begins at this time.
    pub(crate) fn new(start: Instant) -> Simulated {
        static RUNS: StaticU64 = StaticU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed) % (1 << 30);
        Simulated {
            held: Held::default(),
            start: Cell::new(start),
            now: Cell::new(start),
            wall_start: Cell::new(BEGIN),
            entropy: Cell::new(0),
            clocks: RefCell::default(),
            jumps: RefCell::default(),
            here: Cell::new(|| 0),
            host_of: Cell::new(|_| None),
            ringing: Cell::new(None),
            alarms: Arc::default(),
            prefix: MARK | run << 32,
            tasks: Cell::new(0),
            objects: RefCell::default(),
            is_silent: Cell::new(false),
            reported: RefCell::new(None),
            ends_by_force: Cell::new(false),
            cut_off: Cell::new(CutOff::No),
            interrupts_by_force: Cell::new(false),
            captures_places: Cell::new(false),
            place: RefCell::new(None),
            last_words: Cell::new(|_| {}),
            world: RefCell::new(None),
            course: RefCell::new(None),
        }
    }

    /// Returns the number of the clock that the running code reads.
    fn clock_here(&self) -> u16 {
        self.ringing.get().unwrap_or_else(|| (self.here.get())())
    }

    /// Returns the clock that the running code reads, if it drifts.
    fn drift_here(&self) -> Option<Drift> {
        // The clocks are borrowed while one of them is set, which allocates. An allocator that
        // reads the time then sees the virtual time.
        if self.clocks.try_borrow().ok()?.is_empty() {
            return None;
        }
        let clock = self.clock_here();
        self.clocks.try_borrow().ok()?.get(&clock).copied()
    }

    /// Returns by how many milliseconds the wall clock is ahead that the running code reads.
    fn jump_here(&self) -> Option<i64> {
        // Borrowed for the reason above.
        if self.jumps.try_borrow().ok()?.is_empty() {
            return None;
        }
        let clock = self.clock_here();
        self.jumps.try_borrow().ok()?.get(&clock).copied()
    }

    /// Sets when the simulation begins, before its clock has been moved, and what the wall clock
    /// shows then.
    pub(crate) fn begin_at(&self, start: Instant, wall_start: Duration) {
        self.wall_start.set(wall_start);
        self.start.set(start);
        self.now.set(start);
    }

    /// Sets what decides the numbers of [`entropy`].
    pub(crate) fn seed_entropy(&self, seed: u64) {
        self.entropy.set(seed);
    }

    /// Makes the current thread the simulation's, until the returned guard is dropped.
    ///
    /// # Panics
    /// Panics if the thread is that of a simulation already.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let before = local::with(|local| local.simulated.replace(ptr::from_ref(self).cast()));
        assert!(before.is_null(), "a thread has one simulation at a time");
        Entered { simulated: PhantomData }
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Ends the simulation of a thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'s> {
    /// Neither `Send` nor longer than the state.
    simulated: PhantomData<(&'s Simulated, *const ())>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        local::with(|local| local.simulated.set(ptr::null()));
    }
}

/// Returns whether the current thread is that of a simulation.
#[inline(always)]
pub(crate) fn is_simulated() -> bool {
    !local::with(|local| local.simulated.get()).is_null()
}

/// Calls `f` with the state of the current thread's simulation. Returns `None` on other threads.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&Simulated) -> R) -> Option<R> {
    let simulated = local::with(|local| local.simulated.get()).cast::<Simulated>();
    // SAFETY: V2: the state stays as long as the cell names it.
    unsafe { simulated.as_ref() }.map(f)
}

/// Returns the virtual time as the clock of the running code shows it. Returns `None` outside of
/// simulations.
#[inline(always)]
pub(crate) fn now() -> Option<Instant> {
    if is_simulated() { virtual_now() } else { None }
}

#[cold]
#[inline(never)]
fn virtual_now() -> Option<Instant> {
    with(|simulated| {
        let now = simulated.now.get();
        simulated.drift_here().map_or(now, |drift| drift.shown_at(now))
    })
}

/// Returns the virtual time. Returns `None` outside of simulations.
pub(crate) fn common_now() -> Option<Instant> {
    with(|simulated| simulated.now.get())
}

/// Returns the virtual time at which the clock of the running code shows this time. Outside of
/// simulations this is the time itself.
pub(crate) fn common_time(shown: Instant) -> Instant {
    with(Simulated::drift_here).flatten().map_or(shown, |drift| drift.time_of(shown))
}

/// Returns the number of the clock of the running code.
pub(crate) fn clock_here() -> u16 {
    with(Simulated::clock_here).unwrap_or(0)
}

/// Returns the number of the host to which the running code belongs. `None` outside of simulations.
pub(super) fn here() -> Option<u16> {
    with(|simulated| (simulated.here.get())())
}

/// Sets the function that returns the number of the clock of the running code.
pub(crate) fn set_here(here: fn() -> u16) {
    with(|simulated| simulated.here.set(here));
}

/// Returns the name of the host to which a task belongs. `None` for tasks of the program of the run,
/// and on other threads. `task` is the header of a task that exists.
pub(crate) fn host_of(task: *const ()) -> Option<Arc<str>> {
    with(|simulated| (simulated.host_of.get())(task))?
}

/// Sets what [`host_of`] calls.
pub(crate) fn set_host_of(host_of: HostOf) {
    with(|simulated| simulated.host_of.set(host_of));
}

/// Sets by how many microseconds a clock advances in a second of virtual time. Returns the clock as
/// it was and as it is.
pub(crate) fn set_rate(clock: u16, rate: u64) -> Option<(Drift, Drift)> {
    with(|simulated| {
        let now = simulated.now.get();
        let mut clocks = simulated.clocks.borrow_mut();
        let old = clocks.get(&clock).copied().unwrap_or_else(|| Drift::none(now));
        let new = old.at_rate(now, rate);
        clocks.insert(clock, new);
        simulated.alarms.move_those_of(clock, |time| new.time_of(old.shown_at(time)));
        (old, new)
    })
}

/// Returns when the simulation began.
pub(crate) fn start() -> Option<Instant> {
    with(|simulated| simulated.start.get())
}

/// Returns what the wall clock of the running code shows, as the time since the epoch. Returns
/// `None` outside of simulations. Never panics and never allocates, because libc's functions call
/// this anywhere.
pub(crate) fn wall_clock() -> Option<Duration> {
    with(|simulated| {
        let now = simulated.now.get();
        let shown = simulated.drift_here().map_or(now, |drift| drift.shown_at(now));
        let shown =
            simulated.wall_start.get() + shown.saturating_duration_since(simulated.start.get());
        match simulated.jump_here() {
            None => shown,
            Some(ahead @ 0..) => shown.saturating_add(Duration::from_millis(ahead.unsigned_abs())),
            Some(behind) => shown.saturating_sub(Duration::from_millis(behind.unsigned_abs())),
        }
    })
}

/// Moves the wall clock of a host forward, or back. Its other clock goes on as before.
pub(crate) fn jump(clock: u16, milliseconds: i64) {
    with(|simulated| {
        let mut jumps = simulated.jumps.borrow_mut();
        let ahead = jumps.entry(clock).or_insert(0);
        *ahead = ahead.saturating_add(milliseconds);
    });
}

/// Returns a number that takes the place of the operating system's randomness. Returns `None`
/// outside of simulations. Never panics and never allocates, as [`wall_clock`].
pub(crate) fn entropy() -> Option<u64> {
    with(|simulated| random::any_of(&simulated.entropy))
}

/// Calls `f` as if the current thread were not that of a simulation. So std's clocks, its waits
/// with a time limit and its threads are real in it, whatever has been interposed.
pub(crate) fn aside<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the cell, also during unwinding.
    struct Back(*const ());
    impl Drop for Back {
        fn drop(&mut self) {
            local::with(|local| local.simulated.set(self.0));
        }
    }
    let _back = Back(local::with(|local| local.simulated.replace(ptr::null())));
    f()
}

/// Moves the virtual clock forward to this time, unless it is later already.
pub(crate) fn advance_to(time: Instant) {
    with(|simulated| simulated.now.set(simulated.now.get().max(time)));
}

/// Returns the number for a new task, which is unique in the process. Returns `None` outside of
/// simulations.
pub(crate) fn task_number() -> Option<u64> {
    with(|simulated| {
        let number = simulated.tasks.get();
        simulated.tasks.set(number + 1);
        simulated.prefix | u64::from(number)
    })
}

/// Returns a task's number as a person is to see it: without what makes it unique in the process.
pub(crate) fn shown_number(number: u64) -> u64 {
    if number & MARK == 0 { number } else { number & u64::from(u32::MAX) }
}

/// Returns whether a task's number was given by a simulation.
pub(crate) fn has_number(number: u64) -> bool {
    number & MARK != 0
}

/// Returns what stands for an object in a dump. That is its address, or in a simulation a number,
/// so that each run with a seed has the same text. The objects are numbered as a dump names them.
#[cold]
pub(crate) fn object_name(object: *const ()) -> String {
    let number = with(|simulated| {
        let mut objects = simulated.objects.borrow_mut();
        let next = objects.len() + 1;
        *objects.entry(object.addr()).or_insert(next)
    });
    number.map_or_else(|| format!("{object:p}"), |number| format!("#{number}"))
}

/// Begins to number objects from 1, for another dump: an object may be where another one was.
pub(crate) fn forget_objects() {
    with(|simulated| simulated.objects.borrow_mut().clear());
}

/// Returns whether panics are not to be reported, because the run is over, or because the running
/// task is [cut off](CutOff).
pub(crate) fn is_silent() -> bool {
    with(|simulated| simulated.is_silent.get() || simulated.cut_off.get() != CutOff::No)
        .unwrap_or(false)
}

/// Sets whether panics of tasks are reported.
pub(crate) fn set_silent(is_silent: bool) {
    with(|simulated| simulated.is_silent.set(is_silent));
}

/// Keeps the message of a panic that was reported by the panic hook.
pub(crate) fn note_reported(message: Option<&str>) {
    with(|simulated| simulated.reported.replace(message.map(String::from)));
}

/// Takes the message that was kept last.
pub(crate) fn take_reported() -> Option<String> {
    with(|simulated| simulated.reported.take()).flatten()
}

/// Sets whether the places are captured at which tasks are preempted or wait for I/O.
pub(crate) fn capture_places(captures: bool) {
    with(|simulated| simulated.captures_places.set(captures));
}

/// Returns whether they are.
pub(crate) fn captures_places() -> bool {
    with(|simulated| simulated.captures_places.get()).unwrap_or(false)
}

/// Keeps the place at which the running task is about to switch away.
pub(crate) fn set_place(place: Backtrace) {
    with(|simulated| simulated.place.replace(Some(place)));
}

/// Takes the place that was kept last.
pub(crate) fn take_place() -> Option<Backtrace> {
    with(|simulated| simulated.place.take()).flatten()
}

/// Returns whether the waits of the simulation's tasks are ended by force. That is so when the run
/// has failed and its tasks do not end by themselves. A wait that cannot return an error then ends
/// by [`unwind`].
pub(crate) fn ends_by_force() -> bool {
    with(|simulated| simulated.ends_by_force.get()).unwrap_or(false)
}

/// Makes [`ends_by_force`] return `true` from now on.
pub(crate) fn end_by_force() {
    with(|simulated| simulated.ends_by_force.set(true));
}

/// Returns whether the running task is [cut off](CutOff).
pub(crate) fn is_cut_off() -> bool {
    with(|simulated| simulated.cut_off.get() != CutOff::No).unwrap_or(false)
}

/// Returns whether the waits of the running task are ended by force because it is
/// [cut off](CutOff).
pub(crate) fn is_cut_off_by_force() -> bool {
    with(|simulated| simulated.cut_off.get() == CutOff::ByForce).unwrap_or(false)
}

/// Sets whether the task whose turn it is has been cut off.
pub(crate) fn set_cut_off(cut_off: CutOff) {
    with(|simulated| simulated.cut_off.set(cut_off));
}

/// Returns whether a request to cancel also ends waits that cannot return an error.
pub(crate) fn interrupts_by_force() -> bool {
    with(|simulated| simulated.ends_by_force.get() || simulated.interrupts_by_force.get())
        .unwrap_or(false)
}

/// Makes [`interrupts_by_force`] return `true` during a call of `f`, which does not panic.
pub(crate) fn interrupting_by_force(f: impl FnOnce()) {
    with(|simulated| simulated.interrupts_by_force.set(true));
    f();
    with(|simulated| simulated.interrupts_by_force.set(false));
}

/// Unwinds a task whose wait was ended by force. No panic is reported.
#[cold]
pub(crate) fn unwind() -> ! {
    let text = "the simulation has failed, or the host has crashed: this wait ends by a panic";
    panic::resume_unwind(Box::new(String::from(text)))
}

/// Writes what is known of the run of the current thread, of which nothing else will be left.
/// Called in signal handlers: it neither waits nor allocates.
pub(crate) fn last_words(out: &mut dyn fmt::Write) {
    with(|simulated| (simulated.last_words.get())(out));
}

/// Sets what [`last_words`] calls.
pub(crate) fn set_last_words(last_words: fn(&mut dyn fmt::Write)) {
    with(|simulated| simulated.last_words.set(last_words));
}

/// Stores the driver's part of the simulation.
pub(crate) fn set_world(world: Arc<dyn Any + Send + Sync>) {
    with(|simulated| simulated.world.replace(Some(world)));
}

/// Returns the driver's part of the simulation, or `None` outside of simulations.
#[cold]
pub(crate) fn world<T: Send + Sync + 'static>() -> Option<Arc<T>> {
    with(|simulated| simulated.world.borrow().clone())??.downcast().ok()
}

/// Stores the part of the layer that starts simulations.
pub(crate) fn set_course(course: Rc<dyn Any>) {
    with(|simulated| simulated.course.replace(Some(course)));
}

/// Returns the part of the layer that starts simulations, or `None` outside of simulations.
pub(crate) fn course<T: 'static>() -> Option<Rc<T>> {
    with(|simulated| simulated.course.borrow().clone())??.downcast().ok()
}
