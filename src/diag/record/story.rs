//! What the events of a recorder tell: which worker ran which task from when to when, why the task
//! stopped, and what made it ready again.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
#[cfg(feature = "sim")]
use std::sync::Arc;

#[cfg(feature = "sim")]
use super::hosts::HostEvent;
use crate::base::hash::HashMap;
use crate::base::record::{self, Event, Kind, Rings, Subject};
use crate::task::is_hidden_place;

/// A place in the program.
pub(super) type Place = &'static Location<'static>;

/// Times are in nanoseconds since the rings were made.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) workers: usize,
    /// The times are those of a simulation.
    pub(super) is_virtual: bool,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) tasks: BTreeMap<u64, Task>,
    /// In the order of their ends. Those of one task are in the order of time.
    pub(super) stretches: Vec<Stretch>,
    pub(super) notes: Vec<Note>,
    /// What has happened to the hosts of a simulation.
    #[cfg(feature = "sim")]
    pub(super) hosts: Option<Arc<[HostEvent]>>,
}

/// What is known of a task.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) name: Option<String>,
    pub(super) spawned_at: Option<Place>,
    /// The number of the task that has spawned it.
    pub(super) parent: Option<u64>,
    pub(super) host: Option<String>,
}

/// A time in which a worker runs a task without a switch.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) worker: usize,
    pub(super) task: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) stop: Stop,
    /// What made the task ready, if it is known.
    pub(super) ready: Option<Ready>,
}

/// Why a stretch is over.
#[derive(Debug)]
pub(super) enum Stop {
    Waits {
        what: &'static str,
        about: About,
        at: Option<Place>,
    },
    Yields,
    /// Another task runs in its place: a child that it joins.
    Lends,
    Ends,
    /// It is not over.
    Runs,
}

/// What a wait is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Nothing,
    /// The objects of a story are numbered in the order of their first waits.
    Object(usize),
    Fd(i32),
    Task(u64),
}

/// The moment in which a task became ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) at: u64,
    pub(super) cause: Cause,
    /// When the task arrived in its worker's queue, if another thread has woken it.
    pub(super) arrived: Option<u64>,
}

/// What has made a task ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was spawned or woken by this task, which ran on that worker.
    Spawn {
        by: u64,
        worker: usize,
    },
    Wake {
        by: u64,
        worker: usize,
    },
    /// A timer, an operation or a cancellation was handled by its worker between two tasks.
    Worker,
    /// A thread that is no worker has woken it.
    Outside,
    /// It has yielded.
    Own,
}

/// An event without a duration.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) worker: usize,
    pub(super) task: u64,
    pub(super) at: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Mark(String),
    Io { what: &'static str, fd: i32, result: i32 },
    Cancel { target: u64, reason: &'static str },
    Steal { victim: i32, count: i32 },
}

impl Story {
    /// Tells what the rings hold, or their last `most` events.
    pub(super) fn new(rings: &Rings, most: usize) -> Story {
        let story = Telling::default().tell(rings.workers(), rings.read(most));
        Story { is_virtual: rings.is_virtual(), ..story }
    }

    /// Returns how the task is called.
    pub(super) fn title(&self, task: u64) -> String {
        let shown = record::shown(task);
        match self.tasks.get(&task).and_then(|task| task.name.as_deref()) {
            Some(name) => format!("{name} #{shown}"),
            None => format!("task #{shown}"),
        }
    }

    /// Returns the time since the first event.
    pub(super) fn since_begin(&self, at: u64) -> u64 {
        at.saturating_sub(self.begin)
    }
}

/// What is known after some of the events.
#[derive(Default)]
struct Telling {
    story: Story,
    /// For each worker, the task that it runs and since when.
    open: Vec<Option<(u64, u64, Option<Ready>)>>,
    /// For each worker, the time of its first event.
    first: Vec<Option<u64>>,
    ready: HashMap<u64, Ready>,
    objects: HashMap<usize, usize>,
    /// The tasks that answer the questions of dumps and metrics. They are left out.
    own: BTreeSet<u64>,
}

impl Telling {
    fn tell(mut self, workers: usize, events: Vec<Event>) -> Story {
        self.open.resize(workers + 1, None);
        self.first.resize(workers + 1, None);
        self.story.workers = workers;
        self.story.begin = events.first().map_or(0, |event| event.at);
        self.story.end = events.last().map_or(0, |event| event.at);
        for event in events {
            self.first[event.worker].get_or_insert(event.at);
            self.add(event);
        }
        let end = self.story.end;
        for worker in 0..self.open.len() {
            self.close(worker, end, Stop::Runs);
        }
        self.story
    }

    fn task(&mut self, task: u64) -> &mut Task {
        self.story.tasks.entry(task).or_default()
    }

    fn add(&mut self, event: Event) {
        let Event { worker, at, task, .. } = event;
        if event.place.is_some_and(is_hidden_place)
            && matches!(event.kind, Kind::Spawn | Kind::Start)
        {
            self.own.insert(task);
        }
        if self.own.contains(&task) {
            if event.kind == Kind::Start {
                self.close(worker, at, Stop::Lends);
            }
            return;
        }
        match event.kind {
            Kind::Spawn => {
                let by = event.waker();
                let entry = self.task(task);
                entry.spawned_at = event.place;
                entry.parent = (by != 0).then_some(by);
                let cause = if by == 0 { Cause::Worker } else { Cause::Spawn { by, worker } };
                self.ready.insert(task, Ready { at, cause, arrived: None });
            }
            Kind::Start | Kind::Run => {
                self.task(task).spawned_at = event.place;
                self.close(worker, at, Stop::Lends);
                let ready = self.ready.remove(&task);
                self.open[worker] = Some((task, at, ready));
            }
            Kind::Park => {
                let about = self.about(event.subject());
                let stop = Stop::Waits { what: event.text, about, at: event.place };
                self.stop(&event, stop);
            }
            Kind::Yield => {
                self.stop(&event, Stop::Yields);
                self.ready.insert(task, Ready { at, cause: Cause::Own, arrived: None });
            }
            Kind::End => self.stop(&event, Stop::Ends),
            Kind::Wake => {
                let by = event.waker();
                let cause = if by == 0 { Cause::Worker } else { Cause::Wake { by, worker } };
                self.ready.insert(task, Ready { at, cause, arrived: None });
            }
            Kind::Arrive => {
                let from_outside = Ready { at, cause: Cause::Outside, arrived: None };
                self.ready.entry(task).or_insert(from_outside).arrived = Some(at);
            }
            Kind::Io => {
                let (fd, result) = event.pair();
                self.note(&event, task, What::Io { what: event.text, fd, result });
            }
            Kind::Cancel => {
                let what = What::Cancel { target: task, reason: event.text };
                self.note(&event, event.waker(), what);
            }
            Kind::Steal => {
                let (victim, count) = event.pair();
                self.note(&event, 0, What::Steal { victim, count });
            }
            Kind::Mark => self.note(&event, task, What::Mark(event.said.clone())),
            Kind::Name => self.task(task).name = Some(event.said),
            Kind::Host => self.task(task).host = Some(event.said),
            Kind::Text => {}
        }
    }

    fn note(&mut self, event: &Event, task: u64, what: What) {
        self.story.notes.push(Note { worker: event.worker, task, at: event.at, what });
    }

    /// Ends the stretch of the task that runs.
    fn stop(&mut self, event: &Event, stop: Stop) {
        let Event { worker, at, task, .. } = *event;
        if task == 0 {
            return;
        }
        if self.open[worker].is_none() {
            // Its beginning was overwritten.
            self.task(task);
            self.open[worker] = Some((task, self.first[worker].unwrap_or(at), None));
        }
        self.close(worker, at, stop);
    }

    fn close(&mut self, worker: usize, end: u64, stop: Stop) {
        if let Some((task, begin, ready)) = self.open[worker].take() {
            self.story.stretches.push(Stretch { worker, task, begin, end, stop, ready });
        }
    }

    fn about(&mut self, subject: Subject) -> About {
        match subject {
            Subject::Nothing => About::Nothing,
            Subject::Fd(fd) => About::Fd(fd),
            Subject::Task(task) => About::Task(task),
            Subject::Object(address) => {
                let next = self.objects.len() + 1;
                About::Object(*self.objects.entry(address).or_insert(next))
            }
        }
    }
}
