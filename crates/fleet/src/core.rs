//! What all handles of a fleet share, and the tasks that live as long as it does.
//!
//! A fleet has two daemons in the scope that it was opened in:
//!
//! - *pulls* hosts what stops at once when the scope is cancelled: taking jobs, watching results,
//!   feeding maps.
//! - *keep* hosts what must go on until the jobs that were begun have ended: the engine itself and
//!   what looks after leases. It is shielded from the cancellation.
//!
//! The phases: `Open`, until *pulls* has ended. `Draining`, until *keep* has ended. `Ended`: every
//! call answers that the fleet is disconnected.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ecru::channel::{self, Receiver, Sender};
use ecru::source::WaitList;
use ecru::{CancelHandle, Scope, Source, select};
use ecru_nats::Options;

use crate::engine::{self, Engine};
use crate::errors::disconnected;
use crate::every::Schedules;
use crate::metrics::Opened;
use crate::renewals::Renewals;
use ecru::Daemons;

/// A task of a fleet.
pub(crate) type Task<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// What all handles of a fleet share.
pub(crate) struct Core {
    engine: Box<dyn Engine>,
    keep: Sender<Task<'static>>,
    pulls: Sender<Task<'static>>,
    phase: AtomicU8,
    list: WaitList,
    warn: Mutex<Warn>,
    pub(crate) schedules: Schedules,
    pub(crate) opened: Opened,
    pub(crate) renewals: Renewals,
    #[cfg(feature = "tracing")]
    pub(crate) carrier: crate::trace::Carrier,
}

/// Is called with warnings.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// How far a fleet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    Open,
    Draining,
    Ended,
}

/// Ready when a fleet has reached a phase.
struct Reached<'a> {
    core: &'a Core,
    phase: Phase,
}

impl Source for Reached<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        (self.core.phase() >= self.phase).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.core.list);
    }
}

impl Core {
    /// Returns the core of a fleet with this engine, and what its two daemons run.
    fn new(engine: Box<dyn Engine>) -> (Arc<Core>, Keep, Pulls) {
        let (keep, to_keep) = channel::unbounded();
        let (pulls, to_pull) = channel::unbounded();
        let phase = AtomicU8::new(Phase::Open as u8);
        let warn: Warn = Arc::new(|text| {
            // A closed stderr is no reason to fail.
            let _ = writeln!(io::stderr(), "ecru-fleet: {text}");
        });
        let (list, warn, schedules) = (WaitList::new(), Mutex::new(warn), Schedules::default());
        let (opened, renewals) = (Opened::default(), Renewals::default());
        let core = Core {
            engine,
            keep,
            pulls,
            phase,
            list,
            warn,
            schedules,
            opened,
            renewals,
            #[cfg(feature = "tracing")]
            carrier: crate::trace::Carrier::default(),
        };
        let core = Arc::new(core);
        let keep = Keep { core: Arc::clone(&core), tasks: to_keep };
        let pulls = Pulls { core: Arc::clone(&core), tasks: to_pull };
        (core, keep, pulls)
    }

    /// Returns the engine, unless the fleet has ended.
    pub(crate) fn engine(&self) -> io::Result<&dyn Engine> {
        self.check().map(|()| &*self.engine)
    }

    /// Opens what the engine needs to renew leases on the thread of the scope.
    pub(crate) fn attend<'scope>(&self, s: &'scope Scope<'scope, '_>) -> io::Result<()> {
        self.engine.attend(s)
    }

    /// Tells the program, or its operator, of something that it should know.
    pub(crate) fn warn(&self, text: &str) {
        let warn = Arc::clone(&self.warn.lock().unwrap_or_else(PoisonError::into_inner));
        warn(text);
    }

    pub(crate) fn set_warn(&self, warn: Warn) {
        let mut place = self.warn.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, warn);
        drop(place);
        drop(old);
    }

    /// Fails if the fleet has ended.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.phase() == Phase::Ended { Err(disconnected()) } else { Ok(()) }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            _ => Phase::Ended,
        }
    }

    fn reach(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.list.notify_all();
    }

    /// The list that is notified when the phase changes.
    pub(crate) fn list(&self) -> &WaitList {
        &self.list
    }

    /// Runs a task until the jobs that were begun have ended. It is not cancelled.
    pub(crate) fn keep(&self, task: Task<'static>) -> io::Result<()> {
        self.keep.try_send(task).map_err(|_| disconnected())
    }

    /// Runs a task until the scope is cancelled.
    pub(crate) fn pull(&self, task: Task<'static>) -> io::Result<()> {
        self.pulls.try_send(task).map_err(|_| disconnected())
    }
}

/// The daemon that lasts until the jobs that were begun have ended.
struct Keep {
    core: Arc<Core>,
    tasks: Receiver<Task<'static>>,
}

impl Keep {
    fn run(self) {
        let Keep { core, tasks } = self;
        ecru::scope(|s| {
            loop {
                let draining = Reached { core: &core, phase: Phase::Draining };
                select! {
                    recv(tasks) -> task => match task {
                        Ok(task) => drop(s.builder().name("fleet-keep").spawn(task)),
                        Err(_) => break,
                    },
                    wait(&draining) -> _ => break,
                }
            }
            tasks.close_now();
        });
        core.renewals.stop();
    }
}

/// Ends the fleet when the scope of its *keep* daemon has ended.
struct End(Arc<Core>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.reach(Phase::Ended);
        // It has ended already, but for a panic.
        self.0.renewals.abandon();
        self.0.engine.end();
    }
}

/// The daemon that stops when it is cancelled. The drain begins when it is dropped, even if it
/// never ran.
struct Pulls {
    core: Arc<Core>,
    tasks: Receiver<Task<'static>>,
}

impl Pulls {
    fn run<'scope>(self, scoped: &Receiver<Task<'scope>>) {
        let tasks = self.tasks.clone();
        ecru::scope(|s| {
            loop {
                let task: Task<'scope> = select! {
                    recv(tasks) -> task => match task {
                        Ok(task) => task,
                        Err(_) => break,
                    },
                    recv(scoped) -> task => match task {
                        Ok(task) => task,
                        Err(_) => break,
                    },
                };
                drop(s.builder().name("fleet-task").spawn(task));
            }
            tasks.close_now();
            scoped.close_now();
        });
    }
}

impl Drop for Pulls {
    fn drop(&mut self) {
        self.tasks.close_now();
        self.core.reach(Phase::Draining);
    }
}

/// What a fleet is made of.
pub(crate) struct Started<'scope> {
    pub(crate) core: Arc<Core>,
    /// Tasks that may borrow from outside the scope. They run until the scope is cancelled.
    pub(crate) tasks: Sender<Task<'scope>>,
}

/// Starts a fleet on an engine that does not depend on its scope.
pub(crate) fn start<'scope>(
    s: &'scope impl Daemons<'scope>,
    engine: Box<dyn Engine>,
) -> Started<'scope> {
    let (core, keep, pulls) = Core::new(engine);
    let end = End(Arc::clone(&core));
    s.spawn_boxed_daemon(
        "fleet",
        Box::new(move || {
            let _end = end;
            ecru::shield(|| keep.run());
        }),
    );
    Started { tasks: start_pulls(s, pulls), core }
}

/// What the *keep* daemon reports when it has connected, or has failed to.
type Report = io::Result<(Arc<Core>, Pulls)>;

/// Connects to NATS servers and starts a fleet there. The connection belongs to the *keep* daemon,
/// so that it lasts until the jobs that were begun have ended.
pub(crate) fn connect<'scope>(
    s: &'scope impl Daemons<'scope>,
    urls: &str,
    options: Options,
) -> io::Result<Started<'scope>> {
    let (report, reported) = channel::bounded::<Report>(1);
    // The attempt is shielded from the scope, so it is cancelled by a handle of its own.
    let (attempt, attempts) = channel::bounded::<CancelHandle>(1);
    let urls = urls.to_owned();
    s.spawn_boxed_daemon(
        "fleet",
        Box::new(move || {
            let mut end = None;
            ecru::shield(|| {
                ecru::scope(|inner| {
                    let opened = ecru::cancel_scope(|handle| {
                        let _ = attempt.try_send(handle);
                        // The caller closes the channel before it looks for the handle.
                        if report.is_closed() {
                            return Err(disconnected());
                        }
                        engine::connect(inner, &urls, options)
                    });
                    match opened {
                        Err(error) => drop(report.try_send(Err(error))),
                        Ok(engine) => {
                            let (core, keep, pulls) = Core::new(engine);
                            end = Some(End(Arc::clone(&core)));
                            // A caller that has gone drops the pulls, which ends the fleet.
                            let _ = report.try_send(Ok((core, pulls)));
                            keep.run();
                        }
                    }
                });
            });
            drop(end);
        }),
    );
    match reported.recv() {
        Ok(Ok((core, pulls))) => Ok(Started { tasks: start_pulls(s, pulls), core }),
        Ok(Err(error)) => Err(error),
        Err(error) => {
            reported.close_now();
            if let Ok(handle) = attempts.try_recv() {
                handle.cancel();
            }
            Err(error.into())
        }
    }
}

fn start_pulls<'scope>(s: &'scope impl Daemons<'scope>, pulls: Pulls) -> Sender<Task<'scope>> {
    let (tasks, scoped) = channel::unbounded();
    // The daemon has a sender of its own, so that its receiver is never disconnected.
    let own = tasks.clone();
    s.spawn_boxed_daemon(
        "fleet-pulls",
        Box::new(move || {
            let _own = own;
            pulls.run(&scoped);
        }),
    );
    tasks
}
