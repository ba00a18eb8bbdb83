//! Takes jobs that have priorities.
//!
//! Each priority has a consumer. A *watch* is a request at one of them that is answered when there
//! is a job, and asks for one. Other requests are answered at once, also if there is none: the
//! server is *asked*. A priority is watched, or it may have jobs.
//!
//! - While there is room, the priority that is next by the [`Picker`] is asked, among those that
//!   may have jobs. If it has none, and all that are more urgent are watched, it is watched, too.
//!   So an idle process watches all of them, and one that works on a priority watches the more
//!   urgent ones.
//! - A job that answers a watch when there is no room is given back at once, so that another
//!   process gets it, and its priority is not watched until there is room.
//!
//! If the queue has a limit, there is room only for as many jobs as there are places of it here:
//! see [`permits`](super::permits). A place that is not used is given back after a third of a
//! lease.

use std::array;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecru::channel::RecvError;
use ecru::source::WaitList;
use ecru::{Source, select};
use ecru_nats::jetstream::{Ack, Consumer, Deliveries, Delivery, Slot};

use super::failure::{NO_CONSUMER, failed, is_passing, repeated};
use super::permits::Permit;
use super::pull::{self, Arrivals};
use super::workers::{self, Workers};
use crate::engine::{self, PRIORITIES, Picker, priorities};
use crate::errors::disconnected;

/// How long the server may take to say that there is no job. It does not answer while the queue is
/// paused.
const ANSWER: Duration = Duration::from_millis(500);

/// How much is asked for at once, at most. A larger window is filled by several questions.
const MOST: usize = 256;

/// The pause after a question that could not be asked.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest wait, after which all is looked at again.
const LOOK: Duration = Duration::from_secs(60);

/// The index of the watch for places of the limit, after those of the priorities.
const PERMITS: usize = PRIORITIES;

pub(super) struct Ranked {
    workers: Workers,
    window: usize,
    places: Arc<Places>,
    /// Those of the priorities, and the one of the limit. Replaced when their consumers are created
    /// again.
    watches: Mutex<Watches>,
    stopped: AtomicBool,
    /// Locked by the task that takes jobs.
    state: ecru::sync::Mutex<State>,
}

type Watches = [Option<Arc<Deliveries>>; PRIORITIES + 1];

/// The places of the window.
#[derive(Default)]
struct Places {
    taken: AtomicUsize,
    /// Grows with each change that may let a job be taken.
    version: AtomicU64,
    list: WaitList,
}

impl Places {
    fn change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.list.notify_all();
    }
}

/// Ready when the places have changed.
struct Changed<'a> {
    places: &'a Places,
    seen: u64,
}

impl Source for Changed<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        (self.places.version.load(Ordering::Acquire) != self.seen).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.places.list);
    }
}

/// What a job takes as long as it is held.
pub(super) struct Room {
    pub(super) permit: Option<Permit>,
    _place: Place,
}

/// A place of the window.
struct Place(Arc<Places>);

impl Place {
    fn take(places: &Arc<Places>) -> Place {
        places.taken.fetch_add(1, Ordering::AcqRel);
        Place(Arc::clone(places))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.change();
    }
}

/// Whether a watch asks for a message.
#[derive(Default)]
enum Watched {
    #[default]
    Never,
    Now,
    /// It asks for another one when this is dropped.
    Before(#[expect(dead_code, reason = "it is only dropped")] Option<Slot>),
}

struct State {
    picker: Picker,
    /// Jobs that have come and were not returned.
    ready: VecDeque<(Delivery, Room)>,
    /// The watches of the priorities, and the one of the limit.
    watched: [Watched; PRIORITIES + 1],
    /// The priority had more jobs when the last one came.
    has_more: [bool; PRIORITIES],
    /// Places of the limit that no job has.
    permits: VecDeque<Permit>,
}

impl State {
    fn new() -> State {
        State {
            picker: Picker::default(),
            ready: VecDeque::new(),
            watched: Default::default(),
            has_more: [true; PRIORITIES],
            permits: VecDeque::new(),
        }
    }

    fn is_watched(&self, index: usize) -> bool {
        matches!(self.watched[index], Watched::Now)
    }

    fn may_have_jobs(&self, priority: u8) -> bool {
        !self.is_watched(priority.into())
    }
}

impl Ranked {
    pub(super) fn begin(workers: &Workers, window: usize) -> io::Result<Ranked> {
        // They are there, or are created.
        workers.with_each(Consumer::info)?;
        Ok(Ranked {
            workers: workers.clone(),
            window,
            places: Arc::default(),
            watches: Mutex::default(),
            stopped: AtomicBool::new(false),
            state: ecru::sync::Mutex::new(State::new()),
        })
    }

    /// Watches a priority, or the limit.
    fn watch(&self, state: &mut State, index: usize) -> io::Result<()> {
        if self.watches()[index].is_none() {
            let consumer = self.consumer(index)?;
            let watch = repeated(|| consumer.messages(1))?;
            self.watches()[index] = Some(Arc::new(watch));
            if self.is_stopped() {
                self.stop();
            }
        }
        state.watched[index] = Watched::Now;
        Ok(())
    }

    fn consumer(&self, index: usize) -> io::Result<Consumer> {
        match u8::try_from(index) {
            Ok(priority) if index < PERMITS => Ok(self.workers.consumer(priority)),
            _ => self.workers.permits(),
        }
    }

    fn watches(&self) -> std::sync::MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.watches().iter().flatten().for_each(|watch| watch.stop());
        self.places.change();
    }

    pub(super) fn next(&self, arrivals: &Arrivals) -> io::Result<Option<engine::Delivery>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        loop {
            let seen = self.places.version.load(Ordering::Acquire);
            let settings = self.workers.changed();
            if let Some((delivery, room)) = state.ready.pop_front() {
                match arrivals.handed_out(delivery, Some(room))? {
                    None => continue,
                    job => return Ok(job),
                }
            }
            if self.is_stopped() {
                return self.late(arrivals);
            }
            ecru::checkpoint()?;
            self.collect(state);
            if state.ready.is_empty() {
                let room = self.room(state)?;
                if room == 0 || !self.ask(state, room)? {
                    self.wait(state, seen, &settings)?;
                }
            }
        }
    }

    /// Takes what has come to the watches.
    fn collect(&self, state: &mut State) {
        for index in 0..=PERMITS {
            let watch = self.watches()[index].clone();
            while let Some(watch) = &watch
                && let Ok(delivery) = watch.try_recv()
            {
                self.came(state, index, delivery);
            }
        }
    }

    /// Takes what has come to a watch. Another message is not asked for yet.
    fn came(&self, state: &mut State, index: usize, mut delivery: Delivery) {
        state.watched[index] = Watched::Before(delivery.take_slot());
        if index == PERMITS {
            state.permits.push_back(Permit::new(delivery));
            return;
        }
        state.has_more[index] = delivery.pending() > 0;
        if let Some(delivery) = self.take(state, delivery) {
            // It is there when this consumer is asked the next time.
            let _ = ecru::shield(|| delivery.confirm(&Ack::Retry(None)));
            state.has_more[index] = true;
        }
    }

    /// Takes a job, if there is room. Otherwise returns it.
    fn take(&self, state: &mut State, delivery: Delivery) -> Option<Delivery> {
        if self.places.taken.load(Ordering::Acquire) >= self.window {
            return Some(delivery);
        }
        self.forget_old(state);
        let permit = match self.workers.is_limited() {
            true => match state.permits.pop_front() {
                None => return Some(delivery),
                permit => permit,
            },
            false => None,
        };
        state.picker.took(super::names::priority_of_job(delivery.subject()));
        let room = Room { permit, _place: Place::take(&self.places) };
        state.ready.push_back((delivery, room));
        None
    }

    /// Gives back the places of the limit that were not used for some time.
    fn forget_old(&self, state: &mut State) {
        let (now, lease) = (ecru::time::now(), self.workers.lease());
        state.permits.retain(|permit| permit.good_until(lease) > now);
    }

    /// Returns how many jobs there is room for.
    fn room(&self, state: &mut State) -> io::Result<usize> {
        let free = self.window.saturating_sub(self.places.taken.load(Ordering::Acquire));
        if !self.workers.is_limited() {
            state.permits.clear();
            return Ok(free);
        }
        self.forget_old(state);
        // One is enough as long as all priorities are watched.
        let is_busy = priorities().any(|priority| state.may_have_jobs(priority));
        let wanted = if is_busy { free } else { free.min(1) };
        state.permits.truncate(wanted);
        let missing = wanted.saturating_sub(state.permits.len()).min(MOST);
        if missing > 0 && !state.is_watched(PERMITS) {
            let found = self.answered(PERMITS, missing)?;
            if found.len() < missing {
                self.watch(state, PERMITS)?;
            }
            state.permits.extend(found.into_iter().map(Permit::new));
        }
        Ok(free.min(state.permits.len()))
    }

    /// Asks for jobs. Returns whether one has come. Otherwise all priorities are watched.
    fn ask(&self, state: &mut State, room: usize) -> io::Result<bool> {
        while let Some(priority) = state.picker.pick(|priority| state.may_have_jobs(priority)) {
            let index = usize::from(priority);
            let is_first = (0..index).all(|other| state.is_watched(other));
            if is_first && !state.has_more[index] {
                // The answer comes at once if there is a job all the same.
                self.watch(state, index)?;
                continue;
            }
            let asked = self.questions(state, priority, room);
            let (mut has_come, mut empty) = (false, Vec::new());
            for ((priority, count), found) in asked.iter().zip(self.answers(&asked)?) {
                let index = usize::from(*priority);
                match found.last() {
                    Some(last) if found.len() == *count => {
                        state.has_more[index] = last.pending() > 0;
                    }
                    _ => empty.push(*priority),
                }
                has_come |= !found.is_empty();
                for delivery in found {
                    if let Some(refused) = self.take(state, delivery) {
                        let _ = refused.retry(None);
                        state.has_more[index] = true;
                    }
                }
            }
            for priority in empty {
                let index = usize::from(priority);
                match (0..index).all(|other| state.is_watched(other)) {
                    true => self.watch(state, index)?,
                    false => state.picker.missed(priority),
                }
            }
            if has_come {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns which priorities are asked now, and for how many jobs: the chosen one, and those that
    /// are due after that, which often have none. Asked one after another, they would cost a round
    /// trip each.
    fn questions(&self, state: &State, chosen: u8, room: usize) -> Vec<(u8, usize)> {
        let row = state.picker.row(chosen, |priority| state.may_have_jobs(priority));
        let count = row.min(room).min(MOST);
        let (mut asked, mut picker) = (vec![(chosen, count)], state.picker.clone());
        (0..count).for_each(|_| picker.took(chosen));
        for _ in count..room {
            let is_open = |priority: u8| {
                state.may_have_jobs(priority) && asked.iter().all(|(other, _)| *other != priority)
            };
            let Some(due) = picker.due(is_open) else { break };
            picker.took(due);
            asked.push((due, 1));
        }
        asked
    }

    /// Asks several priorities at once. If one cannot be asked, nothing is lost of the others.
    fn answers(&self, asked: &[(u8, usize)]) -> io::Result<Vec<Vec<Delivery>>> {
        let ask = |(priority, count): &(u8, usize)| self.answered((*priority).into(), *count);
        if let [only] = asked {
            return Ok(vec![ask(only)?]);
        }
        let answers = ecru::par::map(asked, ask);
        if answers.iter().all(Result::is_ok) {
            return answers.into_iter().collect();
        }
        let (found, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        for delivery in found.into_iter().flatten().flatten() {
            let _ = delivery.retry(None);
        }
        failed.into_iter().next().unwrap_or_else(|| Ok(Vec::new())).map(|_| Vec::new())
    }

    /// Asks a consumer for what it has now. The end of this task does not interrupt that, so
    /// nothing is lost on its way.
    fn answered(&self, index: usize, count: usize) -> io::Result<Vec<Delivery>> {
        let consumer = self.consumer(index)?;
        match ecru::shield(|| consumer.fetch(count, ANSWER)) {
            Ok(found) => Ok(found),
            Err(error) if error.code() == Some(NO_CONSUMER) => {
                self.workers.create()?;
                Ok(Vec::new())
            }
            Err(error) if is_passing(&error) => {
                ecru::sleep(PAUSE)?;
                Ok(Vec::new())
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Waits for a job, for room, or until a place of the limit must be given back.
    fn wait(
        &self,
        state: &mut State,
        seen: u64,
        settings: &workers::Changed<'_>,
    ) -> io::Result<()> {
        let watches = self.watches().clone();
        let [a, b, c, d, permits] = array::from_fn(|index| {
            watches[index]
                .as_ref()
                .map_or_else(ecru::channel::never, |watch| watch.receiver().clone())
        });
        let changed = Changed { places: &self.places, seen };
        let lease = self.workers.lease();
        let old = state.permits.front().map(|permit| permit.good_until(lease));
        let patience =
            old.map_or(LOOK, |old| old.saturating_duration_since(ecru::time::now()).min(LOOK));
        let (index, arrived) = select! {
            recv(a) -> job => (0, job),
            recv(b) -> job => (1, job),
            recv(c) -> job => (2, job),
            recv(d) -> job => (3, job),
            recv(permits) -> permit => (PERMITS, permit),
            wait(&changed) -> result => return Ok(result?),
            wait(settings) -> result => {
                // There may be fewer places now.
                state.permits.clear();
                return Ok(result?);
            },
            default(patience) => {
                self.forget_old(state);
                return Ok(());
            },
        };
        match arrived {
            Ok(delivery) => self.came(state, index, delivery),
            Err(RecvError::Disconnected) => self.go_on(state, index)?,
            Err(cancelled) => return Err(cancelled.into()),
        }
        Ok(())
    }

    /// Watches again after a consumer was deleted, or returns why no more jobs come.
    fn go_on(&self, state: &mut State, index: usize) -> io::Result<()> {
        let ended = self.watches()[index].clone();
        let Some(ended) = ended.filter(|_| !self.is_stopped()) else { return Ok(()) };
        if !pull::is_deleted(&ended) {
            return Err(pull::why_ended(&ended).unwrap_or_else(disconnected));
        }
        self.workers.create()?;
        self.watches()[index] = None;
        state.watched[index] = Watched::Never;
        Ok(())
    }

    /// Returns what was asked for before the stop and arrives now.
    fn late(&self, arrivals: &Arrivals) -> io::Result<Option<engine::Delivery>> {
        for index in 0..PRIORITIES {
            let watch = self.watches()[index].clone();
            let Some(watch) = watch else { continue };
            loop {
                match watch.recv() {
                    Ok(delivery) => match arrivals.handed_out(delivery, None)? {
                        None => {}
                        job => return Ok(job),
                    },
                    Err(RecvError::Disconnected) => break,
                    Err(cancelled) => return Err(cancelled.into()),
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Ranked {
    fn drop(&mut self) {
        self.stop();
        self.watches().iter().flatten().for_each(|watch| pull::give_back(watch));
        for (delivery, _) in std::mem::take(&mut self.state.get_mut().ready) {
            let _ = delivery.retry(None);
        }
    }
}
