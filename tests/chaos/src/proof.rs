//! The proof: a function of what the processes wrote, what the conductor did to them, and what is
//! left on the brokers.
//!
//! No clause depends on the speed of the machine. A lease may end because a worker or a broker got
//! no time. Then the worker has written so, or the job was handed out again with a higher attempt,
//! and the run that it cost is allowed. What is not allowed is an extra run without a reason that
//! was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::journal::{Handout, Line};
use crate::shop::POISON_ATTEMPTS;

/// Everything that the proof looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) processes: Vec<Process>,
    /// How many workers there were at once, and how many jobs each had at most.
    pub(crate) workers: usize,
    pub(crate) window: usize,
    /// How often a worker was stopped, a broker killed, and the consumer deleted.
    pub(crate) stops: usize,
    pub(crate) broker_kills: usize,
    pub(crate) deletions: usize,
    /// When the brokers could not know or record who has a job, by the clock of the journals: while
    /// one was dead or there was no room, after the consumer was deleted, and for some time after.
    pub(crate) blind: Vec<(u64, u64)>,
    /// How many jobs and calls are left in the queues.
    pub(crate) left: u64,
    /// The jobs among the dead.
    pub(crate) dead: Vec<String>,
    /// The maps that have ended, and the number of items that each has.
    pub(crate) maps: Vec<String>,
    pub(crate) items: u64,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) end: End,
    pub(crate) lines: Vec<Line>,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself.
    Finished,
    /// By `kill -9`.
    Killed,
    /// By poison.
    Aborted,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clause {
    Lost,
    Dead,
    Left,
    Results,
    Unfinished,
    Fence,
    Afterwards,
    Settled,
    Extra,
}

impl Clause {
    pub(crate) const ALL: [Clause; 9] = [
        Clause::Lost,
        Clause::Dead,
        Clause::Left,
        Clause::Results,
        Clause::Unfinished,
        Clause::Fence,
        Clause::Afterwards,
        Clause::Settled,
        Clause::Extra,
    ];
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clause::Lost => "each job that was sent was worked on or is dead",
            Clause::Dead => "the dead are exactly the poison, and jobs of another release",
            Clause::Left => "the queues are empty",
            Clause::Results => "each index of a map has one result",
            Clause::Unfinished => {
                "only a process that was killed leaves jobs, and at most a window"
            }
            Clause::Fence => {
                "no two holders have one fence, but for killed brokers and deleted consumers"
            }
            Clause::Afterwards => {
                "no process that started after a job was done gets it, but for killed brokers and \
                 deleted consumers"
            }
            Clause::Settled => "one attempt at a job is told that it has settled it",
            Clause::Extra => "each extra run has a reason that was observed",
        })
    }
}

/// A clause that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) clause: Clause,
    pub(crate) text: String,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: usize,
    /// Runs of innocent jobs that were begun, and those beyond the first one of each job.
    pub(crate) runs: usize,
    pub(crate) extra: usize,
    /// How many extra runs the observed reasons allow.
    pub(crate) allowed: usize,
    pub(crate) killed: usize,
    pub(crate) aborted: usize,
    /// Runs that have no end, because their process was killed.
    pub(crate) unfinished: usize,
    pub(crate) lost: usize,
    pub(crate) unsure: usize,
    /// Runs that were done although the job was handed out again, by the number of attempts.
    pub(crate) expired: usize,
    /// Sends that were repeated because there was no answer.
    pub(crate) again: usize,
    /// Fences that two holders had.
    pub(crate) repeated: usize,
    /// Jobs that several attempts have settled, while the brokers could not know better.
    pub(crate) twice: usize,
    /// Jobs that came again although they were done, because brokers that were killed, or whose
    /// consumer was deleted, had forgotten what they had confirmed.
    pub(crate) forgotten: usize,
    pub(crate) poison: usize,
    pub(crate) results: usize,
}

/// Returns whether a job aborts its process.
pub(crate) fn is_poison(job: &str) -> bool {
    job.starts_with("poison-")
}

/// Returns whether a job must end among the dead.
fn must_die(job: &str) -> bool {
    is_poison(job) || job.starts_with("alien-")
}

/// Returns whether a job is innocent, and is handed out beside poison. A worker works on one of them
/// at a time.
fn is_neighbour(job: &str) -> bool {
    job.starts_with("neighbour-")
}

/// Checks every clause.
pub(crate) fn check(evidence: &Evidence) -> (Counts, Vec<Violation>) {
    let mut proof = Proof { evidence, counts: Counts::default(), violations: Vec::new() };
    proof.lost();
    proof.dead();
    proof.left();
    proof.results();
    proof.unfinished();
    proof.fences();
    proof.afterwards();
    proof.settled();
    proof.extra();
    (proof.counts, proof.violations)
}

struct Proof<'a> {
    evidence: &'a Evidence,
    counts: Counts,
    violations: Vec<Violation>,
}

impl<'a> Proof<'a> {
    fn lines(&self) -> impl Iterator<Item = &'a Line> + use<'a> {
        self.evidence.processes.iter().flat_map(|process| &process.lines)
    }

    fn jobs(&self, of: impl Fn(&'a Line) -> Option<&'a String>) -> BTreeSet<&'a str> {
        self.lines().filter_map(of).map(String::as_str).collect()
    }

    fn require(&mut self, clause: Clause, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { clause, text: text() });
        }
    }

    fn sent(&self) -> BTreeSet<&'a str> {
        self.jobs(|line| if let Line::Sent { job } = line { Some(job) } else { None })
    }

    fn lost(&mut self) {
        let sent = self.sent();
        self.counts.sent = sent.len();
        let worked = self.jobs(|line| match line {
            Line::Worked { handout, .. } => Some(&handout.job),
            _ => None,
        });
        let dead: BTreeSet<&str> = self.evidence.dead.iter().map(String::as_str).collect();
        for job in sent {
            let is_there = worked.contains(job) || dead.contains(job);
            self.require(Clause::Lost, is_there, || format!("{job} was sent and is lost"));
        }
    }

    fn dead(&mut self) {
        let intended =
            self.jobs(|line| if let Line::Intent { job } = line { Some(job) } else { None });
        let dead: BTreeSet<&str> = self.evidence.dead.iter().map(String::as_str).collect();
        self.counts.poison = dead.len();
        let mut begun: BTreeMap<&str, u32> = BTreeMap::new();
        for line in self.lines() {
            if let Line::Begun { handout, .. } = line {
                *begun.entry(&handout.job).or_default() += 1;
            }
        }
        for job in &dead {
            // A neighbour may itself have been worked on each time that its process was killed.
            let has_tried = begun.get(job).is_some_and(|times| *times >= POISON_ATTEMPTS);
            let is_allowed = must_die(job) || is_neighbour(job) && has_tried;
            let is_allowed = is_allowed && intended.contains(job);
            self.require(Clause::Dead, is_allowed, || format!("{job} is dead, and is no poison"));
        }
        for job in self.sent().into_iter().filter(|job| must_die(job)) {
            self.require(Clause::Dead, dead.contains(job), || format!("{job} is not dead"));
        }
    }

    fn left(&mut self) {
        let left = self.evidence.left;
        self.require(Clause::Left, left == 0, || format!("{left} jobs are left"));
    }

    fn results(&mut self) {
        let mut values: BTreeMap<(&str, u64), BTreeSet<&str>> = BTreeMap::new();
        for line in self.lines() {
            if let Line::Got { run, index, value } = line {
                values.entry((run, *index)).or_default().insert(value);
            }
        }
        self.counts.results = values.len();
        for ((run, index), values) in &values {
            self.require(Clause::Results, values.len() == 1, || {
                format!("index {index} of {run} has {} results: {values:?}", values.len())
            });
            self.require(Clause::Results, *index < self.evidence.items, || {
                format!("{run} has a result with the index {index}")
            });
        }
        let mapped =
            self.jobs(|line| if let Line::Mapped { run } = line { Some(run) } else { None });
        for run in &self.evidence.maps {
            self.require(Clause::Results, mapped.contains(&**run), || format!("{run} has no end"));
            for index in 0..self.evidence.items {
                let is_there = values.contains_key(&(run, index));
                let text = || format!("index {index} of {run} has no result");
                self.require(Clause::Results, is_there, text);
            }
        }
    }

    fn unfinished(&mut self) {
        let window = self.evidence.window;
        for process in &self.evidence.processes {
            let mut begun: BTreeSet<&Handout> = BTreeSet::new();
            let is_of_window = |handout: &Handout| !is_neighbour(&handout.job);
            for line in &process.lines {
                match line {
                    Line::Begun { handout, .. } if !is_poison(&handout.job) => {
                        begun.insert(handout);
                    }
                    Line::Done { handout, .. }
                    | Line::Lost { handout }
                    | Line::Unsure { handout } => {
                        begun.remove(handout);
                    }
                    _ => {}
                }
            }
            let allowed = if process.end == End::Finished { 0 } else { window };
            let neighbours = begun.iter().filter(|handout| !is_of_window(handout)).count();
            begun.retain(|handout| is_of_window(handout));
            self.counts.unfinished += begun.len();
            self.require(Clause::Unfinished, neighbours <= allowed.min(1), || {
                format!("a process that was {:?} has left {neighbours} neighbours", process.end)
            });
            self.counts.killed += usize::from(process.end == End::Killed && is_worker(process));
            self.counts.aborted += usize::from(process.end == End::Aborted);
            self.require(Clause::Unfinished, begun.len() <= allowed, || {
                format!("a process that was {:?} has left {begun:?}", process.end)
            });
        }
    }

    /// A server that is killed may forget what it has handed out last. Then it hands that out
    /// again with the same attempt.
    fn fences(&mut self) {
        let mut holders: BTreeMap<&Handout, usize> = BTreeMap::new();
        for line in self.lines() {
            if let Line::Begun { handout, .. } = line {
                *holders.entry(handout).or_default() += 1;
            }
        }
        let repeated: Vec<_> = holders.into_iter().filter(|(_, count)| *count > 1).collect();
        let count: usize = repeated.iter().map(|(_, count)| count - 1).sum();
        self.counts.repeated = count;
        let Evidence { broker_kills, deletions, workers, window, .. } = self.evidence;
        // Beside the jobs, each worker may hold one that is poison. A new consumer counts anew.
        let allowed = (broker_kills + deletions) * workers * (window + 1);
        self.require(Clause::Fence, count <= allowed, || {
            format!("{count} fences are repeated, and {allowed} are allowed: {repeated:?}")
        });
    }

    fn afterwards(&mut self) {
        let mut done: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        for line in self.lines() {
            if let Line::Done { handout, at } = line {
                let first = done.entry((&handout.job, handout.sequence)).or_insert(*at);
                *first = (*first).min(*at);
            }
        }
        for process in &self.evidence.processes {
            let Some(Line::Start { at: start, .. }) = process.lines.first() else { continue };
            for line in &process.lines {
                let Line::Begun { handout, at: begun } = line else { continue };
                let Some(done) = done.get(&(&*handout.job, handout.sequence)) else { continue };
                if start <= done {
                    continue;
                }
                let is_blind = self.is_blind(*done, *begun);
                self.counts.forgotten += usize::from(is_blind);
                self.require(Clause::Afterwards, is_blind, || {
                    format!("{handout:?} was handed to a process that started after it was done")
                });
            }
        }
    }

    /// Returns whether there was a time in between in which brokers may have forgotten what they
    /// had confirmed.
    fn is_blind(&self, first: u64, last: u64) -> bool {
        self.evidence.blind.iter().any(|(from, to)| *from <= last && first <= *to)
    }

    /// Of all attempts at a job one is told by `done` that it has settled it.
    fn settled(&mut self) {
        let mut done: BTreeMap<(&str, u64), Vec<u64>> = BTreeMap::new();
        for line in self.lines() {
            if let Line::Done { handout, at } = line {
                done.entry((&handout.job, handout.sequence)).or_default().push(*at);
            }
        }
        for ((job, sequence), times) in done.iter().filter(|(_, times)| times.len() > 1) {
            let first = times.iter().min().copied().unwrap_or(0);
            let last = times.iter().max().copied().unwrap_or(0);
            let is_blind = self.is_blind(first, last);
            self.counts.twice += usize::from(is_blind);
            self.require(Clause::Settled, is_blind, || {
                format!("{job} with the number {sequence} was settled at {times:?}")
            });
        }
    }

    fn extra(&mut self) {
        let mut done: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        for line in self.lines() {
            match line {
                Line::Begun { handout, .. }
                    if !is_poison(&handout.job) && !is_neighbour(&handout.job) =>
                {
                    *begun.entry(&handout.job).or_default() += 1;
                }
                Line::Done { handout, .. } => {
                    let key = (&*handout.job, handout.sequence);
                    done.entry(key).or_default().insert(handout.attempt);
                }
                Line::Lost { .. } => self.counts.lost += 1,
                Line::Unsure { .. } => self.counts.unsure += 1,
                Line::Again { job } if !is_poison(job) => self.counts.again += 1,
                _ => {}
            }
        }
        let Evidence { window, stops, deletions, workers, .. } = *self.evidence;
        let counts = &mut self.counts;
        counts.runs = begun.values().sum();
        counts.extra = counts.runs - begun.len();
        counts.expired = done.values().map(|attempts| attempts.len() - 1).sum();
        let killed = (counts.killed + counts.aborted) * window;
        let ended = counts.lost + counts.unsure + counts.expired;
        counts.allowed = killed + stops * window + ended + counts.again + counts.repeated;
        // Counts of attempts begin anew with a consumer, so not each of them is seen.
        counts.allowed += deletions * workers * window;
        let (extra, allowed) = (counts.extra, counts.allowed);
        self.require(Clause::Extra, extra <= allowed, || {
            format!("{extra} extra runs, and the observed reasons allow {allowed}")
        });
    }
}

fn is_worker(process: &Process) -> bool {
    process.lines.iter().any(|line| matches!(line, Line::Begun { .. }))
}

#[cfg(test)]
mod tests;
