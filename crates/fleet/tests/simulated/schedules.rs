//! Two releases of a program with schedules of the same name, side by side.

use std::io;
use std::time::Duration;

use ecru::Cancelled;
use ecru::sim::{self, Host};
use ecru_fleet::{Fleet, Queue};

use crate::server::Broker;
use crate::support::{Ledger, SECOND, SOON, join, until};

/// A job as it was stored: its time in seconds, and what it says.
type Stored = (u64, String);

/// What the processes of a test have done and said.
struct Notes {
    jobs: Ledger<Stored>,
    told: Ledger<(String, String)>,
}

impl Notes {
    fn new() -> Notes {
        Notes { jobs: Ledger::new(), told: Ledger::new() }
    }

    /// Starts a process that has a schedule and works on jobs.
    fn process(
        &self,
        name: &'static str,
        schedule: impl Fn(&Queue<String>) -> io::Result<()> + 'static,
    ) -> Host {
        let (jobs, told) = (self.jobs.clone(), self.told.clone());
        let life = move |fleet: &Fleet<'_>| {
            let told = told.clone();
            fleet.on_warning(move |text| told.note((name.to_owned(), text.to_owned())));
            let queue = fleet.queue::<String>("mill").lease(5 * SECOND).open()?;
            schedule(&queue)?;
            for job in queue.jobs(1)? {
                let (_, time) = job.id().as_str().rsplit_once('/').unwrap();
                let time = time.parse::<u64>().unwrap() / 1000;
                let text = (*job).clone();
                // Without a connection the lease may be lost, and the job comes again.
                if job.run(|_| ()).is_ok() && job.done().is_ok() {
                    jobs.note((time, text));
                }
            }
            Ok(())
        };
        sim::host(name, move || {
            loop {
                match ecru::scope(|s| life(&join(s)?)) {
                    // The server is away.
                    Err(error) if Cancelled::find(&error).is_none() => ecru::sleep(SOON)?,
                    result => return result,
                }
            }
        })
    }

    /// Returns what was stored for times after this one, in order.
    fn after(&self, time: Duration) -> Vec<Stored> {
        let mut all = self.jobs.all();
        all.retain(|(due, _)| *due > time.as_secs());
        all.sort();
        all
    }

    fn told(&self, host: &str, text: &str) -> usize {
        self.told.count(|(own, said)| own == host && said.contains(text))
    }
}

/// Checks that jobs of one kind were stored at each multiple of a period.
#[track_caller]
fn is_every(all: &[Stored], period: u64, text: &str) {
    let first = all[0].0;
    let expected: Vec<Stored> =
        (0..all.len() as u64).map(|n| (first + n * period, text.to_owned())).collect();
    assert_eq!(all, expected);
    assert!(first.is_multiple_of(period));
}

/// - given: processes of an old release that have a schedule
/// - when: a process of a new release has another period and another job under the same name, and
///   later ends
/// - then: from then on the new jobs are stored, one at each of the new times, also by the old
///   processes, and also when the new one has ended; each old process has told of it once
#[test]
fn fleet_437_a_new_release_replaces_a_schedule() {
    sim::test(|| {
        let (_broker, notes) = (Broker::start(), Notes::new());
        let old = |queue: &Queue<String>| queue.every("tick", 2 * SECOND, "old".to_owned());
        let _olds = ["a", "b"].map(|name| notes.process(name, old));
        ecru::sleep(20 * SECOND).unwrap();
        is_every(&notes.after(4 * SECOND)[..6], 2, "old");
        let new = |queue: &Queue<String>| queue.every("tick", 3 * SECOND, "new".to_owned());
        let new = notes.process("new", new);
        until(|| notes.told("new", "was every 2s, and is every 3s") == 1);
        let replaced = sim::elapsed() + SECOND;
        ecru::sleep(20 * SECOND).unwrap();
        if sim::chance(0.5) {
            new.crash();
        } else {
            new.pause();
        }
        ecru::sleep(40 * SECOND).unwrap();
        let all = notes.after(replaced);
        assert!(all.len() >= 16, "{all:?}");
        is_every(&all, 3, "new");
        for name in ["a", "b"] {
            assert_eq!(notes.told(name, "was every 2s, and is every 3s"), 1, "{name}");
        }
        assert_eq!(notes.told.all().len(), 3, "{:?}", notes.told.all());
    });
}

/// - given: two processes that begin at the same moment with different schedules of one name
/// - when: time passes, and one of them begins anew
/// - then: one of the two schedules is in force for both processes, and then that of the process that
///   has begun anew
#[test]
fn fleet_438_two_releases_begin_at_once() {
    sim::test(|| {
        let (_broker, notes) = (Broker::start(), Notes::new());
        let _every =
            notes.process("every", |queue| queue.every("tick", 20 * SECOND, "every".to_owned()));
        let cron = notes
            .process("cron", |queue| queue.cron("tick", "* * * * *", "UTC", "cron".to_owned()));
        ecru::sleep(10 * SECOND).unwrap();
        let begun = sim::elapsed();
        ecru::sleep(300 * SECOND).unwrap();
        let all = notes.after(begun);
        let (period, text) = if all[0].1 == "every" { (20, "every") } else { (60, "cron") };
        is_every(&all, period, text);
        cron.crash();
        cron.restart();
        ecru::sleep(65 * SECOND).unwrap();
        let restarted = sim::elapsed();
        ecru::sleep(300 * SECOND).unwrap();
        let all = notes.after(restarted);
        is_every(&all, 60, "cron");
        assert!(all.len() >= 4, "{all:?}");
    });
}

/// - given: a process with a schedule
/// - when: a new release has a job with the same times and another content, while the server cannot
///   be reached for a time
/// - then: once it can, the new job is stored at each time, and none twice
#[test]
fn fleet_439_a_schedule_is_replaced_behind_a_partition() {
    sim::test(|| {
        let (broker, notes) = (Broker::start(), Notes::new());
        let _old = notes.process("old", |queue| queue.every("tick", 2 * SECOND, "old".to_owned()));
        ecru::sleep(10 * SECOND).unwrap();
        let new = notes.process("new", |queue| queue.every("tick", 2 * SECOND, "new".to_owned()));
        if sim::chance(0.5) {
            ecru::sleep(Duration::from_millis(sim::random_u64() % 500)).unwrap();
        }
        sim::partition(&[&new], &[broker.host()]);
        ecru::sleep(Duration::from_millis(sim::random_u64() % 30_000)).unwrap();
        sim::heal();
        until(|| notes.told("old", "as before, with another job") == 1);
        let replaced = sim::elapsed() + 2 * SECOND;
        ecru::sleep(60 * SECOND).unwrap();
        let all = notes.after(replaced);
        is_every(&all, 2, "new");
        assert!(all.len() >= 20, "{all:?}");
        ecru::scope(|s| {
            let queue = join(s).unwrap().queue::<String>("mill").open().unwrap();
            assert_eq!(queue.stats().unwrap().dead, 0);
        });
    });
}
