//! The task that takes jobs from an engine.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ecru::channel::{self, Receiver, Sender};
use ecru::{Cancelled, Source, select};

use crate::codec::{self, Wire};
use crate::engine::{self, Announced, Announcements, Delivery};
use crate::errors::{LeaseLost, invalid};
use crate::gate::Gate;
use crate::held::Holding;
use crate::job::{self, Job};
use crate::keeper;
use crate::shared::Shared;

/// How long the end of a pull waits for jobs that are on their way. A server that does not answer
/// must not keep a program from ending.
const LATE: Duration = Duration::from_secs(2);

/// A channel for the jobs of a larger window has no limit of its own.
const LARGE: usize = 1024;

/// The program's side of a pull.
pub(crate) struct Begun<T> {
    pub(crate) jobs: Receiver<Job<T>>,
    pub(crate) control: Control,
}

/// What ends a pull, and what has ended it.
pub(crate) struct Control {
    pull: Arc<dyn engine::Pull>,
    holding: Arc<Holding>,
    ended: Arc<OnceLock<io::Error>>,
}

impl Control {
    /// Takes no more jobs. Those that were not begun have not failed.
    pub(crate) fn stop(&self) {
        self.holding.finish();
        self.pull.stop();
    }

    /// Returns why no more jobs come, if it is an error.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.ended.get()
    }
}

/// Begins to take jobs.
pub(crate) fn begin<T: Wire>(queue: &Arc<Shared>, window: usize) -> io::Result<Begun<T>> {
    if window == 0 {
        return Err(invalid("the window is 0, so no job would come; it must be at least 1"));
    }
    let engine = queue.engine()?;
    // Listening comes first, so that no cancellation of a job that is handed out is missed.
    let announcements = engine.announcements()?;
    let (give, jobs) = if queue.is_rated() {
        // A job gets its place by the rate when a receiver takes it, and not before.
        channel::bounded::<Job<T>>(0)
    } else if queue.has_priorities() {
        // What is not in the channel can still be overtaken.
        channel::bounded::<Job<T>>(1)
    } else if window <= LARGE {
        // The window bounds it, too. See the gate for why it has this bound.
        channel::bounded::<Job<T>>(window)
    } else {
        channel::unbounded::<Job<T>>()
    };
    let own = give.clone();
    let is_open = Box::new(move || !own.is_closed());
    let holding = Holding::new(Arc::clone(&queue.core), queue.lease(), is_open);
    keeper::start(&holding)?;
    let finish = Finish(Arc::clone(&holding));
    let pull: Arc<dyn engine::Pull> = Arc::from(engine.pull(window)?);
    let ended = Arc::default();
    let task = Pull {
        queue: Arc::clone(queue),
        jobs: Arc::clone(&pull),
        holding: finish,
        give: Close(give),
        ended: Arc::clone(&ended),
    };
    queue.core.pull(Box::new(move || task.run(&*announcements)))?;
    Ok(Begun { jobs, control: Control { pull, holding, ended } })
}

struct Pull<T> {
    queue: Arc<Shared>,
    jobs: Arc<dyn engine::Pull>,
    // Dropped in this order, also if the task never runs.
    holding: Finish,
    give: Close<T>,
    ended: Arc<OnceLock<io::Error>>,
}

struct Finish(Arc<Holding>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Gives back what is in the channel, once nothing is added to it any more.
struct Close<T>(Sender<Job<T>>);

impl<T> Drop for Close<T> {
    fn drop(&mut self) {
        self.0.close_now();
    }
}

impl<T: Wire> Pull<T> {
    fn run(self, announcements: &dyn Announcements) {
        let Pull { queue, jobs, holding, give, ended } = self;
        let held = Arc::clone(&holding.0);
        let watched = give.0.clone();
        let (queue_too, held_too, jobs) = (&queue, &held, &*jobs);
        ecru::scope(|s| {
            s.builder().name("fleet-announcements").spawn_daemon(move || {
                while let Ok(announced) = announcements.next() {
                    hear(queue_too, held_too, announced);
                }
            });
            s.builder().name("fleet-receiver").spawn_daemon(move || {
                watch_receiver(&watched, queue_too, held_too, jobs);
            });
            let start_gate = || {
                let (waiting, jobs) = channel::unbounded();
                let (queue, holding) = (Arc::clone(&queue), Arc::clone(&held));
                let gate = Gate { queue, holding, jobs, give: give.0.clone() };
                s.builder().name("fleet-gate").spawn_daemon(move || gate.run());
                waiting
            };
            let taking = Taking { queue: &queue, holding: &held, give: &give.0, gate: &start_gate };
            if let Err(error) = taking.work(jobs)
                && Cancelled::find(&error).is_none()
            {
                if error.kind() != io::ErrorKind::NotConnected {
                    // A receiver learns only that there are no more.
                    let (what, name) = (queue.what, &queue.name);
                    queue
                        .core
                        .warn(&format!("{what} {name:?}: no more jobs are taken here: {error}"));
                }
                let _ = ended.set(error);
            }
            jobs.stop();
            // In this order, so that jobs in the channel are known not to have failed.
            drop(holding);
            drop(give);
            give_back_late(jobs);
            // Cancellations are heard until the last job is settled.
            loop {
                let changed = held.changed();
                if held.is_empty() || changed.wait().is_err() {
                    break;
                }
            }
        });
    }
}

/// Gives back what was handed out before the stop and arrives now. Otherwise those jobs would wait
/// until their leases end.
fn give_back_late(jobs: &dyn engine::Pull) {
    ecru::shield_for(LATE, || {
        while let Ok(Some(late)) = jobs.next() {
            late.lease.give_back(Duration::ZERO);
        }
    });
}

/// The least time between two looks at the settings.
const LOOK: Duration = Duration::from_secs(1);

/// Stops taking jobs when the receivers are gone. Once in a lease looks which settings are in
/// force, which usually is announced.
fn watch_receiver<T>(
    give: &Sender<Job<T>>,
    queue: &Shared,
    holding: &Holding,
    jobs: &dyn engine::Pull,
) {
    let gone = give.disconnected();
    loop {
        select! {
            wait(&gone) -> gone => {
                if gone.is_ok() {
                    jobs.stop();
                }
                return;
            }
            default(holding.lease().max(LOOK)) => look(queue, holding),
        }
    }
}

/// Handles an announcement.
fn hear(queue: &Shared, holding: &Holding, announced: Announced) {
    match announced {
        Announced::Cancelled(id, sequence) => holding.cancel(&id, sequence),
        // It may not be in force yet. The next announcement says that it is.
        Announced::Lease(lease) if lease < holding.lease() => holding.set_lease(lease),
        Announced::Lease(_) => {
            look(queue, holding);
            // The rate may be another one.
            holding.change();
        }
    }
}

/// Looks which settings are in force. If the servers do not answer, it is looked again later.
fn look(queue: &Shared, holding: &Holding) {
    if let Ok(lease) = queue.look()
        && lease != holding.lease()
    {
        holding.set_lease(lease);
    }
}

struct Taking<'a, T> {
    queue: &'a Arc<Shared>,
    holding: &'a Arc<Holding>,
    give: &'a Sender<Job<T>>,
    /// Starts the task that hands out jobs at a rate, or the most urgent ones first. It gets them
    /// from the channel.
    gate: &'a dyn Fn() -> Sender<Job<T>>,
}

impl<T: Wire> Taking<'_, T> {
    /// Hands out jobs until the receivers are gone, or the task is cancelled.
    fn work(&self, jobs: &dyn engine::Pull) -> io::Result<()> {
        // From then on all jobs go through the gate.
        let mut gate: Option<Sender<Job<T>>> = None;
        while let Some(delivery) = jobs.next()? {
            if self.give.is_closed() {
                delivery.lease.give_back(Duration::ZERO);
                return Ok(());
            }
            let most = self.queue.settings.attempts;
            let begun = delivery.begun;
            let what = format!("the job in queue {:?}", self.queue.name);
            let decoded = codec::decode(&what, &delivery.payload);
            let is_other_release =
                decoded.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported);
            if begun >= most && !is_other_release {
                let reason = format!("{most} attempts have ended without success");
                self.bury(delivery, most, &reason)?;
                continue;
            }
            match decoded {
                Err(error) if is_other_release && begun < most => {
                    self.queue.warn_of_other_release(&error);
                    self.pass_on(delivery)?;
                }
                Err(error) => self.bury(delivery, begun, &error.to_string())?,
                Ok(value) => {
                    let held = self.holding.hold(delivery);
                    let job = Job::new(value, held, Arc::clone(self.queue));
                    if gate.is_none() && (self.queue.is_rated() || self.queue.has_priorities()) {
                        gate = Some((self.gate)());
                    }
                    if let Err(refused) = gate.as_ref().unwrap_or(self.give).send(job) {
                        // It is given back as a job that was never begun.
                        self.holding.finish();
                        drop(refused);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a job to the queue that another release can read. The attempt counts, so that a job
    /// that no release can read does not go around for ever.
    fn pass_on(&self, delivery: Delivery) -> io::Result<()> {
        match delivery.lease.begin(false) {
            Err(error) if LeaseLost::find(&error).is_some() => return Ok(()),
            Err(error) if Cancelled::find(&error).is_some() => {
                delivery.lease.give_back(Duration::ZERO);
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
        delivery.lease.give_back(self.queue.pause_after(delivery.begun.saturating_add(1)));
        self.queue.core.check()
    }

    /// Moves a job to the dead. If that fails, it is handed out again later.
    fn bury(&self, delivery: Delivery, attempts: u32, reason: &str) -> io::Result<()> {
        let Delivery { id, payload, sequence, priority, begun, lease, .. } = delivery;
        let reason = job::cut(reason).to_owned();
        let dead = engine::Dead { id, sequence, attempts, reason, payload, priority };
        let bury = || {
            lease.begin(false)?;
            self.queue.bury(&dead)?;
            if begun > 0 {
                // The last holder has died, perhaps after it had reported how far the job is.
                lease.report(None);
            }
            if lease.claim()? { lease.terminate(&dead.reason) } else { Ok(()) }
        };
        let Err(error) = bury() else { return Ok(()) };
        if LeaseLost::find(&error).is_some() {
            return Ok(());
        }
        lease.give_back(self.queue.lease());
        match Cancelled::find(&error) {
            Some(_) => Err(error),
            None => self.queue.core.check(),
        }
    }
}
