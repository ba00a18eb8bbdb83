//! The jobs that are held here, and what is known of their leases.
//!
//! A *holding* belongs to one call of `jobs`. It has the jobs that were handed out to it and are
//! not settled. Two tasks look after it, one of them on a thread of its own: see `keeper`.
//!
//! The locks are taken in this order: the jobs of a holding, then the state of one job. Neither is
//! held while something waits or user code runs.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecru::CancelHandle;
use ecru::Source;
use ecru::source::WaitList;

use crate::core::{Core, Phase};
use crate::engine::Delivery;
use crate::errors::LeaseLost;
use crate::id::JobId;
use crate::progress::Reports;

/// The pause before an engine is asked again that has not answered.
const AGAIN: Duration = Duration::from_millis(100);

/// For how long an engine is asked to count an attempt.
const COUNTING: Duration = Duration::from_secs(5);

/// The jobs of one call of `jobs`.
pub(crate) struct Holding {
    pub(crate) core: Arc<Core>,
    lease: AtomicU64,
    /// Returns whether jobs can still be received.
    is_open: Box<dyn Fn() -> bool + Send + Sync>,
    jobs: Mutex<Jobs>,
    /// It was told that leases are renewed too late.
    pub(crate) is_late: AtomicBool,
    /// Grows with each change that concerns a task that waits for one.
    version: AtomicU64,
    list: WaitList,
}

#[derive(Default)]
struct Jobs {
    held: BTreeMap<u64, Arc<Held>>,
    last: u64,
    /// No further job will be handed out.
    finished: bool,
    /// The leases are not looked after any more.
    abandoned: bool,
}

/// A job that was handed out.
pub(crate) struct Held {
    pub(crate) id: JobId,
    /// What the engine has handed out.
    pub(crate) given: Delivery,
    holding: Arc<Holding>,
    key: u64,
    state: Mutex<State>,
    /// How often the work has begun, this time included.
    attempt: AtomicU32,
    /// The program has looked at the job.
    looked: AtomicBool,
    /// This attempt took longer than its time limit.
    exceeded: AtomicBool,
    /// This attempt is recorded. The lock is held while it is being recorded.
    begun: AtomicBool,
    beginning: ecru::sync::Mutex<()>,
    pub(crate) reports: Reports,
}

struct State {
    /// Until when the lease is known to be in force, by this process's clock.
    valid_until: Instant,
    /// Until when no one else can have been handed the job, if it was handed out here first.
    certain_until: Option<Instant>,
    renew_at: Instant,
    lost: Option<LeaseLost>,
    /// `run` was called, or the job is being settled.
    started: bool,
    settled: bool,
    /// The calls that are cancelled if the lease is lost.
    inside: BTreeMap<u64, CancelHandle>,
    last_inside: u64,
}

fn nanoseconds(lease: Duration) -> u64 {
    u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ready when a holding or the phase of the fleet has changed.
pub(crate) struct Changed<'a> {
    holding: &'a Holding,
    seen: (u64, Phase),
}

impl Source for Changed<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        (self.holding.moment() != self.seen).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.holding.list);
        each(self.holding.core.list());
    }
}

impl Holding {
    pub(crate) fn new(
        core: Arc<Core>,
        lease: Duration,
        is_open: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Arc<Holding> {
        let (jobs, version) = (Mutex::new(Jobs::default()), AtomicU64::new(0));
        let lease = AtomicU64::new(nanoseconds(lease));
        Arc::new(Holding {
            core,
            lease,
            is_open,
            jobs,
            version,
            is_late: AtomicBool::new(false),
            list: WaitList::new(),
        })
    }

    /// Returns the lease that is in force.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    /// Notes that another lease is in force. A shorter one may have ended the leases that are held,
    /// so these are renewed at once.
    pub(crate) fn set_lease(&self, lease: Duration) {
        let jobs = locked(&self.jobs);
        let old = self.lease.swap(nanoseconds(lease), Ordering::AcqRel);
        if nanoseconds(lease) < old {
            let now = ecru::time::now();
            for held in jobs.held.values() {
                let mut state = locked(&held.state);
                state.renew_at = now;
                state.valid_until = state.valid_until.min(now + lease);
                // It may have ended before this was heard.
                state.certain_until = None;
            }
        }
        drop(jobs);
        self.change();
    }

    fn moment(&self) -> (u64, Phase) {
        (self.version.load(Ordering::Acquire), self.core.phase())
    }

    /// Returns a source that is ready after the next change. What is looked at afterwards is not
    /// older than the source.
    pub(crate) fn changed(&self) -> Changed<'_> {
        Changed { holding: self, seen: self.moment() }
    }

    /// Wakes the tasks that wait for a change.
    pub(crate) fn change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.list.notify_all();
    }

    /// Looks after a job that was handed out.
    pub(crate) fn hold(self: &Arc<Holding>, delivery: Delivery) -> Arc<Held> {
        let id = JobId::from_token(&delivery.id);
        let (received, requested, begun) = (delivery.received, delivery.requested, delivery.begun);
        let lease_length = self.lease();
        let state = State {
            valid_until: received + lease_length,
            certain_until: requested.filter(|_| delivery.delivery == 1).map(|at| at + lease_length),
            renew_at: received + lease_length / 3,
            lost: None,
            started: false,
            settled: false,
            inside: BTreeMap::new(),
            last_inside: 0,
        };
        let mut jobs = locked(&self.jobs);
        jobs.last += 1;
        let key = jobs.last;
        let held = Arc::new(Held {
            id,
            given: delivery,
            holding: Arc::clone(self),
            key,
            state: Mutex::new(state),
            attempt: AtomicU32::new(begun.saturating_add(1)),
            looked: AtomicBool::new(false),
            exceeded: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            beginning: ecru::sync::Mutex::new(()),
            reports: Reports::default(),
        });
        // The tasks that look after it look often enough, so they need not be woken.
        jobs.held.insert(key, Arc::clone(&held));
        drop(jobs);
        held
    }

    /// Returns how many jobs were handed out so far.
    pub(crate) fn handed_out(&self) -> u64 {
        locked(&self.jobs).last
    }

    /// Says that no further job will be handed out.
    pub(crate) fn finish(&self) {
        locked(&self.jobs).finished = true;
        self.change();
    }

    /// Returns whether no further job is handed out.
    pub(crate) fn is_finished(&self) -> bool {
        locked(&self.jobs).finished
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.jobs).held.is_empty()
    }

    /// Returns whether the leases need not be looked after any more. They never need it again
    /// then.
    pub(crate) fn is_over(&self) -> bool {
        let mut jobs = locked(&self.jobs);
        let is_over = match self.core.phase() {
            Phase::Open => jobs.finished && jobs.held.is_empty(),
            Phase::Draining | Phase::Ended => !jobs.held.values().any(|held| {
                let state = locked(&held.state);
                state.started && state.lost.is_none()
            }),
        };
        jobs.abandoned |= is_over;
        jobs.abandoned
    }

    /// Cancels the job with this id, if it is held here.
    pub(crate) fn cancel(&self, id: &str, sequence: Option<u64>) {
        let is_meant = |held: &Held| {
            held.given.id == id && sequence.is_none_or(|number| number == held.given.sequence)
        };
        for held in self.select(|held, _| is_meant(held)) {
            held.lose(LeaseLost::Cancelled);
        }
    }

    /// Returns the jobs whose leases are not lost and for which `is_wanted` is true.
    fn select(&self, is_wanted: impl Fn(&Held, &State) -> bool) -> Vec<Arc<Held>> {
        let jobs = locked(&self.jobs);
        let wanted = jobs.held.values().filter(|held| {
            let state = locked(&held.state);
            state.lost.is_none() && is_wanted(held, &state)
        });
        wanted.cloned().collect()
    }

    /// Returns the earliest of these times of the jobs whose leases are not lost.
    fn earliest(&self, when: impl Fn(&State) -> Option<Instant>) -> Option<Instant> {
        let jobs = locked(&self.jobs);
        let times = jobs.held.values().filter_map(|held| {
            let state = locked(&held.state);
            if state.lost.is_none() { when(&state) } else { None }
        });
        times.min()
    }

    /// Returns when the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.earliest(|state| Some(state.valid_until))
    }

    /// Gives up the jobs whose leases have ended.
    pub(crate) fn give_up(&self, now: Instant) {
        for held in self.select(|_, state| state.valid_until <= now) {
            held.lose(LeaseLost::Expired);
        }
    }

    /// Returns when the next lease is to be renewed. While the fleet drains, only the leases of
    /// jobs that are worked on are.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        let drains = self.core.phase() != Phase::Open;
        self.earliest(|state| state.is_renewed(drains).then_some(state.renew_at))
    }

    /// Returns the jobs whose leases are to be renewed. They are due again a third of a lease
    /// later.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<Arc<Held>> {
        let drains = self.core.phase() != Phase::Open;
        let due = self.select(|_, state| state.is_renewed(drains) && state.renew_at <= now);
        for held in &due {
            locked(&held.state).renew_at = now + self.lease() / 3;
        }
        due
    }
}

impl State {
    fn is_renewed(&self, drains: bool) -> bool {
        !drains || !self.inside.is_empty()
    }
}

impl Held {
    /// The lease was renewed by a request that began at this time. An answer that comes after the
    /// end of the lease renews nothing: the job may have been handed out again before.
    pub(crate) fn renewed(&self, begun: Instant) {
        let mut state = locked(&self.state);
        let (now, until) = (ecru::time::now(), begun + self.holding.lease());
        if now < state.valid_until {
            state.valid_until = state.valid_until.max(until);
        }
        if let Some(certain) = &mut state.certain_until
            && now < *certain
        {
            *certain = (*certain).max(until);
        }
    }

    /// The lease was not renewed. It is tried again soon.
    pub(crate) fn renew_soon(&self, now: Instant) {
        let mut state = locked(&self.state);
        state.renew_at = state.renew_at.min(now + self.holding.lease() / 12);
    }

    /// The engine knows that the lease has ended. The task that gives leases up does the rest.
    pub(crate) fn expire(&self) {
        let mut state = locked(&self.state);
        state.valid_until = state.valid_until.min(ecru::time::now());
        drop(state);
        self.holding.change();
    }

    /// Gives the job up and cancels what works on it.
    pub(crate) fn lose(&self, lost: LeaseLost) {
        let mut state = locked(&self.state);
        state.lost.get_or_insert(lost);
        let inside = std::mem::take(&mut state.inside);
        drop(state);
        // Cancelling runs the hooks of the program.
        for handle in inside.into_values() {
            handle.cancel();
        }
        self.holding.change();
    }

    /// Returns whether the lease is lost, or has ended by this process's clock.
    pub(crate) fn lost(&self) -> Option<LeaseLost> {
        let state = locked(&self.state);
        let has_ended = state.lost.is_none() && state.valid_until <= ecru::time::now();
        let lost = state.lost;
        drop(state);
        if has_ended {
            self.lose(LeaseLost::Expired);
            return locked(&self.state).lost;
        }
        lost
    }

    /// Returns whether no one else can have been handed the job, now and for some time that a
    /// message to a server takes.
    fn is_certain(&self, time: Duration) -> bool {
        let state = locked(&self.state);
        let until = state.certain_until.filter(|_| state.lost.is_none());
        until.is_some_and(|until| ecru::time::now() + time < until)
    }

    /// Removes the job, if this is the only one that can have been handed it. Returns whether it
    /// was. Otherwise it must be claimed.
    pub(crate) fn done_if_certain(&self) -> bool {
        self.is_certain(self.holding.lease() / 3)
            && self.given.lease.done_if_certain()
            && self.is_certain(Duration::ZERO)
    }

    /// Returns how often the work has begun, this time included.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Acquire)
    }

    /// Notes that this attempt took longer than its time limit.
    pub(crate) fn exceed_limit(&self) {
        self.exceeded.store(true, Ordering::Release);
    }

    pub(crate) fn has_exceeded_limit(&self) -> bool {
        self.exceeded.load(Ordering::Acquire)
    }

    /// Returns a pair that is greater for each later holder.
    pub(crate) fn fence(&self) -> (u64, u32) {
        (self.given.sequence, self.given.delivery)
    }

    /// Has the engine record that the work begins, the first time. Not a cancellation point. The
    /// wait ends when the lease does.
    pub(crate) fn begin(&self) -> Result<(), LeaseLost> {
        ecru::shield(|| {
            ecru::cancel_scope(|handle| {
                let _inside = self.enter(handle)?;
                if self.begun.load(Ordering::Acquire) {
                    return Ok(());
                }
                let _beginning = self.beginning.lock();
                if self.begun.load(Ordering::Acquire) {
                    return Ok(());
                }
                let count = self.record()?;
                self.attempt.store(count, Ordering::Release);
                self.begun.store(true, Ordering::Release);
                Ok(())
            })
        })
    }

    /// Asks the engine again until it answers.
    fn record(&self) -> Result<u32, LeaseLost> {
        loop {
            let is_certain = self.is_certain(self.holding.lease() / 3);
            let error = match self.given.lease.begin(is_certain) {
                // It was recorded too late for the next holder to see it.
                Ok(_) if is_certain && !self.is_certain(Duration::ZERO) => continue,
                Ok(count) => return self.lost().map_or(Ok(count), Err),
                Err(error) => error,
            };
            if let Some(lost) = LeaseLost::find(&error) {
                self.lose(lost);
            }
            if let Some(lost) = self.lost() {
                return Err(lost);
            }
            let is_unanswered =
                matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::ConnectionAborted);
            if !is_unanswered || ecru::sleep(AGAIN).is_err() {
                return Err(self.lost().unwrap_or(LeaseLost::Expired));
            }
        }
    }

    /// Begins without waiting, because the program looks at the job.
    pub(crate) fn look(self: &Arc<Held>) {
        if !self.looked.load(Ordering::Relaxed) && !self.looked.swap(true, Ordering::AcqRel) {
            let own = Arc::clone(self);
            let _ = self.core().keep(Box::new(move || {
                let _ = own.begin();
            }));
        }
    }

    /// Returns the job to the queue without waiting, when it is dropped. A job that was received
    /// has failed in this attempt, which is recorded before.
    pub(crate) fn give_back(self: &Arc<Held>, is_fresh: bool, pause: Duration) {
        if self.begun.load(Ordering::Acquire) && !self.given.lease.must_count() {
            return self.given.lease.give_back(pause);
        }
        let is_unseen = is_fresh && !self.looked.load(Ordering::Acquire);
        if is_unseen && (self.is_finished() || !(self.holding.is_open)()) {
            return self.given.lease.give_back(Duration::ZERO);
        }
        let own = Arc::clone(self);
        let recorded = self.core().keep(Box::new(move || {
            let _ = own.begin();
            own.count();
            own.given.lease.give_back(pause);
        }));
        if recorded.is_err() {
            self.given.lease.give_back(pause);
        }
    }

    /// Sees to it that an attempt that has not settled the job counts, without waiting.
    pub(crate) fn count_later(self: &Arc<Held>) {
        if self.given.lease.must_count() {
            let own = Arc::clone(self);
            // After the end of the fleet it counts anyway.
            let _ = self.core().keep(Box::new(move || own.count()));
        }
    }

    fn count(&self) {
        let count = || {
            while self.given.lease.count().is_err() {
                ecru::sleep(AGAIN)?;
            }
            Ok::<(), ecru::Cancelled>(())
        };
        // The end of the fleet waits for this. Without an answer, the attempt counts as long as the
        // list of this process is stored, which it stays.
        let _ = ecru::timeout(COUNTING, count);
    }

    /// Begins a call that is cancelled if the lease is lost.
    pub(crate) fn enter(&self, handle: CancelHandle) -> Result<Inside<'_>, LeaseLost> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let jobs = locked(&self.holding.jobs);
        let mut state = locked(&self.state);
        if let Some(lost) = state.lost {
            return Err(lost);
        }
        if jobs.abandoned {
            state.lost = Some(LeaseLost::Disconnected);
            return Err(LeaseLost::Disconnected);
        }
        state.started = true;
        state.last_inside += 1;
        let key = state.last_inside;
        state.inside.insert(key, handle);
        Ok(Inside { held: self, key })
    }

    /// Marks the job as settled, or says why it cannot be.
    pub(crate) fn settle(&self) -> Result<(), LeaseLost> {
        let mut state = locked(&self.state);
        match state.lost {
            Some(lost) => Err(lost),
            None => {
                state.settled = true;
                Ok(())
            }
        }
    }

    /// Ends the holding of a job. Returns whether it must be given back, and if so, whether it was
    /// never begun.
    pub(crate) fn release(&self) -> Option<bool> {
        let mut jobs = locked(&self.holding.jobs);
        jobs.held.remove(&self.key);
        let is_awaited = jobs.finished || self.holding.core.phase() != Phase::Open;
        drop(jobs);
        let mut state = locked(&self.state);
        let give_back = !state.settled && state.lost.is_none();
        state.settled = true;
        let fresh = !state.started;
        drop(state);
        if is_awaited {
            self.holding.change();
        }
        give_back.then_some(fresh)
    }

    /// Returns whether the holding gets no further jobs.
    pub(crate) fn is_finished(&self) -> bool {
        self.holding.is_finished()
    }

    pub(crate) fn core(&self) -> &Core {
        &self.holding.core
    }
}

/// A call that is cancelled if the lease is lost.
pub(crate) struct Inside<'a> {
    held: &'a Held,
    key: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let handle = locked(&self.held.state).inside.remove(&self.key);
        if handle.is_some() && self.held.core().phase() != Phase::Open {
            self.held.holding.change();
        }
    }
}
