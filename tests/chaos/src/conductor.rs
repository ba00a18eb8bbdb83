//! Carries out a plan, waits until everything is settled, and collects the evidence.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ecru::Scope;
use ecru_fleet::{Fleet, Function, Queue, Update};

use crate::crew::Crew;
use crate::field::Field;
use crate::journal::{self, Journal, Line};
use crate::plan::{Act, Kind, LONGEST_LEASE, Step};
use crate::proof::{End, Evidence, Process};
use crate::roles::{Way, send_one};
use crate::shop::{self, ITEMS, LEASE, Name, WINDOW, WORKERS, Work};

/// How often the conductor looks at its processes.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// How often it asks the brokers what is left. They have more to do after a kill.
const ASK: Duration = Duration::from_millis(300);

/// How many senders there are.
const SENDERS: usize = 2;

/// A kill that is later than this is left out, so that kills do not pile up.
const LATE: Duration = Duration::from_millis(400);

/// What a run of chaos has shown.
pub(crate) struct Shown {
    pub(crate) happened: BTreeMap<Kind, usize>,
    pub(crate) aborts: usize,
    pub(crate) broker_kills: usize,
    pub(crate) failed_maps: usize,
    pub(crate) evidence: Evidence,
    pub(crate) unexpected: Vec<String>,
}

struct Conductor<'s> {
    field: &'s Field,
    crew: Crew,
    jobs: Queue<Work>,
    poison: Queue<Work>,
    square: Function<'s, u64, String>,
    /// What the conductor itself has sent.
    journal: Journal,
    begun: Instant,
    length: Duration,
    happened: Mutex<BTreeMap<Kind, usize>>,
    broker_kills: AtomicUsize,
    /// See the evidence.
    blind: Mutex<Vec<(u64, u64)>>,
    /// How many workers there should be.
    workers: AtomicUsize,
    /// How many jobs of the conductor's own there are so far.
    own: AtomicU64,
    /// No further map begins.
    closing: AtomicBool,
    maps: Mutex<Maps>,
}

/// One map after another.
#[derive(Default)]
struct Maps {
    coordinator: Option<u32>,
    ended: Vec<String>,
    failed: usize,
}

impl Maps {
    fn current(&self) -> String {
        format!("map-{}", self.ended.len())
    }
}

/// Carries out the steps.
pub(crate) fn conduct<'s>(
    s: &'s Scope<'s, '_>,
    field: &'s Field,
    folder: &Path,
    steps: &[Step],
    length: Duration,
) -> io::Result<Shown> {
    let fleet: Fleet<'s> = shop::connect(s, field.direct_urls())?;
    let conductor = Conductor {
        field,
        crew: Crew::new(&folder.join("chaos"), &field.urls())?,
        jobs: shop::queue(&fleet, Name::Jobs)?,
        poison: shop::queue(&fleet, Name::Poison)?,
        square: shop::square(&fleet)?,
        journal: Journal::create(&folder.join("conductor.journal"))?,
        begun: ecru::time::now(),
        length,
        happened: Mutex::default(),
        broker_kills: AtomicUsize::new(0),
        blind: Mutex::default(),
        workers: AtomicUsize::new(WORKERS),
        own: AtomicU64::new(0),
        closing: AtomicBool::new(false),
        maps: Mutex::default(),
    };
    for number in 0..SENDERS {
        conductor.crew.start("sender", &[&number.to_string(), Name::Jobs.text()])?;
    }
    let conductor = &conductor;
    let (left, dead) = ecru::try_scope(|s| {
        s.spawn_daemon(move || conductor.look_after());
        s.spawn_daemon(move || conductor.report());
        conductor.carry_out(steps)?;
        conductor.settle()
    })?;
    conductor.shown(folder, left, dead)
}

impl Conductor<'_> {
    /// Replaces processes that have ended.
    fn look_after(&self) -> io::Result<()> {
        loop {
            self.crew.reap()?;
            for _ in self.crew.running("worker").len()..self.workers.load(Ordering::Relaxed) {
                self.crew.start("worker", &[])?;
            }
            self.look_after_maps()?;
            ecru::sleep(LOOK)?;
        }
    }

    fn look_after_maps(&self) -> io::Result<()> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = maps.coordinator {
            let Some(ended) = self.crew.ended(number) else { return Ok(()) };
            maps.coordinator = None;
            maps.failed += usize::from(ended.map_failed);
            if self.crew.count(number, "\"Mapped\"") > 0 {
                let run = maps.current();
                maps.ended.push(run);
                if self.closing.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        } else if self.closing.load(Ordering::Relaxed) && !maps.ended.is_empty() {
            return Ok(());
        }
        maps.coordinator = Some(self.crew.start("coordinator", &[&maps.current()])?);
        Ok(())
    }

    /// Prints now and then what is going on.
    fn report(&self) -> io::Result<()> {
        loop {
            ecru::sleep(Duration::from_secs(10))?;
            let seconds = self.begun.elapsed().as_secs();
            let stats = [self.jobs.stats(), self.poison.stats(), self.square.stats()];
            let stats = stats.map(|stats| match stats {
                Ok(stats) => format!("{}+{}", stats.queued, stats.running),
                Err(error) => error.kind().to_string(),
            });
            let happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
            let happened: Vec<_> = happened.values().collect();
            println!("{seconds:4} s: happened {happened:?}, jobs, poison and calls {stats:?}");
        }
    }

    /// Carries out all steps, those of a kind one after another. Kills of brokers are one kind.
    fn carry_out(&self, steps: &[Step]) -> io::Result<()> {
        let lanes: [&[Kind]; 12] = [
            &[Kind::WorkerKills],
            &[Kind::WorkerStops],
            &[Kind::LeaderKills, Kind::ClusterKills],
            &[Kind::Partitions],
            &[Kind::CoordinatorKills],
            &[Kind::Poisons],
            &[Kind::WorkerEnds],
            &[Kind::SettingChanges],
            &[Kind::Deletions],
            &[Kind::OtherReleases],
            &[Kind::Blocks],
            &[Kind::Fills],
        ];
        ecru::try_scope(|s| {
            for lane in lanes {
                s.spawn(move || {
                    let of_lane = steps.iter().filter(|step| lane.contains(&step.act.kind()));
                    of_lane.into_iter().try_for_each(|step| self.step(step))
                });
            }
            Ok(())
        })
    }

    fn step(&self, step: &Step) -> io::Result<()> {
        let kind = step.act.kind();
        let early = step.at.saturating_sub(self.begun.elapsed());
        ecru::sleep(early)?;
        let now = self.begun.elapsed();
        let is_late = now > self.length || (kind == Kind::WorkerKills && now > step.at + LATE);
        if is_late && self.times(kind) > 0 {
            return Ok(());
        }
        self.act(step.act)?;
        *self.happened.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
        Ok(())
    }

    /// Returns how often something of a kind has happened.
    fn times(&self, kind: Kind) -> usize {
        let happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        happened.get(&kind).copied().unwrap_or(0)
    }

    fn act(&self, act: Act) -> io::Result<()> {
        match act {
            Act::KillWorker { pick } => self.crew.kill(self.busy_worker(pick)?),
            Act::StopWorker { pick, asleep } => {
                let worker = self.busy_worker(pick)?;
                self.crew.stop(worker, true)?;
                let slept = ecru::sleep(asleep);
                self.crew.stop(worker, false)?;
                Ok(slept?)
            }
            Act::KillLeader { down } => {
                self.broker_kills.fetch_add(1, Ordering::Relaxed);
                self.blindly(|| {
                    self.field.kill_leader(down)?;
                    self.field.recover()
                })
            }
            Act::KillBrokers { down } => {
                self.broker_kills.fetch_add(crate::brokers::COUNT, Ordering::Relaxed);
                self.blindly(|| {
                    self.field.kill_all(down)?;
                    self.field.recover()
                })
            }
            Act::Partition { broker, direction, lasts, cut } => {
                self.field.partition(broker, direction, lasts, cut)
            }
            Act::KillCoordinator { results } => self.kill_coordinator(results),
            Act::Poison => self.send_poison(),
            Act::EndWorker { pick } => self.crew.terminate_one(self.busy_worker(pick)?),
            Act::ChangeSettings { lease, limit } => {
                let update = Update::new().lease(lease);
                let update = match limit {
                    Some(limit) => update.limit(limit),
                    None => update.no_limit(),
                };
                shop::until(|| self.jobs.update(update.clone()))
            }
            Act::DeleteConsumer => self.blindly(|| self.field.delete_consumer()),
            Act::OtherRelease => {
                let job = self.name("alien");
                self.journal.note(&Line::Intent { job: job.clone() })?;
                self.field.send_alien(&job)?;
                self.journal.keep(&Line::Sent { job })
            }
            Act::Block => {
                let millis = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX) * 5 / 2;
                let work = Work { id: self.name("block"), millis, blocks: true };
                send_one(&self.journal, &self.jobs, work, Way::Random)
            }
            Act::Fill { lasts } => self.blindly(|| self.field.fill(lasts)),
        }
    }

    /// Does something after which the brokers do not know for some time who has a job.
    fn blindly<T>(&self, f: impl FnOnce() -> T) -> T {
        let from = journal::now();
        let value = f();
        let after = u64::try_from((2 * LONGEST_LEASE).as_nanos()).unwrap_or(u64::MAX);
        let to = journal::now().saturating_add(after);
        self.blind.lock().unwrap_or_else(PoisonError::into_inner).push((from, to));
        value
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}-{}", self.own.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits for a worker that has begun a job.
    fn busy_worker(&self, pick: usize) -> io::Result<u32> {
        loop {
            let busy = self.crew.busy("worker");
            if !busy.is_empty() {
                return Ok(busy[pick % busy.len()]);
            }
            ecru::sleep(LOOK)?;
        }
    }

    /// Waits for a coordinator that has so many results of its map and not all, and kills it.
    fn kill_coordinator(&self, results: u64) -> io::Result<()> {
        let wanted = usize::try_from(results).unwrap_or(usize::MAX);
        loop {
            let coordinator = self.maps.lock().unwrap_or_else(PoisonError::into_inner).coordinator;
            if let Some(number) = coordinator
                && self.crew.count(number, "\"Got\"") >= wanted
            {
                self.crew.kill(number)?;
                let ended = self.wait_for(number)?;
                if ended == End::Killed && self.crew.count(number, "\"Mapped\"") == 0 {
                    return Ok(());
                }
            }
            ecru::sleep(LOOK)?;
        }
    }

    fn wait_for(&self, number: u32) -> io::Result<End> {
        loop {
            match self.crew.ended(number) {
                Some(ended) => return Ok(ended.end),
                None => ecru::sleep(LOOK)?,
            }
        }
    }

    /// Sends a job that aborts its process, and others that are handed out with it.
    fn send_poison(&self) -> io::Result<()> {
        for kind in ["neighbour", "poison", "neighbour", "neighbour"] {
            let work = Work { id: self.name(kind), millis: 0, blocks: false };
            send_one(&self.journal, &self.poison, work, Way::Random)?;
        }
        Ok(())
    }

    /// Waits until all work is done. Returns how many jobs are left, and which are dead.
    fn settle(&self) -> io::Result<(u64, Vec<String>)> {
        self.say("the plan has ended");
        self.crew.terminate("sender")?;
        self.until_gone("sender")?;
        self.say("the senders have ended");
        self.field.cut();
        self.closing.store(true, Ordering::Relaxed);
        while self.maps.lock().unwrap_or_else(PoisonError::into_inner).coordinator.is_some() {
            ecru::sleep(LOOK)?;
        }
        self.say("the last map has ended");
        loop {
            self.until_empty()?;
            if self.crew.ends("worker", End::Aborted) > 0 {
                break;
            }
            // Each poison so far has met a process that was killed before it could abort.
            self.send_poison()?;
        }
        self.say("the queues are empty");
        // What a connection that was cut had on its way may be stored late.
        loop {
            self.workers.store(0, Ordering::Relaxed);
            while !self.crew.running("worker").is_empty() {
                // Workers that have just started do not listen yet, and are asked again.
                self.crew.terminate("worker")?;
                ecru::sleep(LOOK)?;
            }
            self.say("the workers have ended");
            let left = shop::until(|| self.left())?;
            if left == 0 {
                return Ok((left, self.dead()?));
            }
            self.workers.store(WORKERS, Ordering::Relaxed);
            self.until_empty()?;
        }
    }

    fn say(&self, what: &str) {
        println!("{:4} s: {what}", self.begun.elapsed().as_secs());
    }

    fn until_gone(&self, role: &str) -> io::Result<()> {
        while !self.crew.running(role).is_empty() {
            ecru::sleep(LOOK)?;
        }
        Ok(())
    }

    fn until_empty(&self) -> io::Result<()> {
        while shop::until(|| self.left())? > 0 {
            ecru::sleep(ASK)?;
        }
        Ok(())
    }

    fn left(&self) -> io::Result<u64> {
        let stats = [self.jobs.stats()?, self.poison.stats()?, self.square.stats()?];
        Ok(stats.iter().map(|stats| stats.queued + stats.running).sum())
    }

    fn dead(&self) -> io::Result<Vec<String>> {
        let mut dead = dead(&self.jobs)?;
        dead.extend(self::dead(&self.poison)?);
        let calls = shop::until(|| self.square.stats())?.dead;
        dead.extend((0..calls).map(|number| format!("call-{number}")));
        Ok(dead)
    }

    fn shown(&self, folder: &Path, left: u64, dead: Vec<String>) -> io::Result<Shown> {
        let mut processes = self.crew.processes()?;
        let lines = journal::read(&folder.join("conductor.journal"))?;
        processes.push(Process { end: End::Finished, lines });
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let broker_kills = self.broker_kills.load(Ordering::Relaxed);
        let evidence = Evidence {
            processes,
            workers: WORKERS,
            window: WINDOW,
            stops: self.times(Kind::WorkerStops),
            broker_kills,
            deletions: self.times(Kind::Deletions),
            blind: self.blind.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            left,
            dead,
            maps: maps.ended.clone(),
            items: ITEMS,
        };
        Ok(Shown {
            happened: self.happened.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            aborts: self.crew.ends("worker", End::Aborted),
            broker_kills,
            failed_maps: maps.failed,
            evidence,
            unexpected: self.crew.unexpected(),
        })
    }
}

/// Returns the names of the dead. The receiver is disconnected early if a broker does not answer,
/// so the number is compared.
fn dead(queue: &Queue<Work>) -> io::Result<Vec<String>> {
    loop {
        let expected = shop::until(|| queue.stats())?.dead;
        let found: Vec<_> = shop::until(|| queue.dead())?
            .iter()
            .map(|dead| dead.job().map_or_else(|| dead.id().to_string(), |job| job.id.clone()))
            .collect();
        if u64::try_from(found.len()).is_ok_and(|count| count == expected) {
            return Ok(found);
        }
        ecru::sleep(LOOK)?;
    }
}
