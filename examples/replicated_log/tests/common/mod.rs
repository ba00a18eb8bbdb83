//! Three nodes and their clients, while hosts crash, lose their power or stop for a while, and the
//! network is slow and is cut.

use ecru::schedule::Delay;
use ecru::sim::{self, Host};
use ecru::sync::Mutex;
use ecru::{Cancelled, Retry, sleep};
use replicated_log::{Client, Entry};
use std::io;
use std::path::Path;
use std::time::Duration;

const NAMES: [&str; 3] = ["a", "b", "c"];

const PORT: u16 = 7000;

/// The number of things that go wrong in a run.
const FAULTS: u32 = 8;

const CLIENTS: u64 = 3;

/// The number of entries that a client adds. It pauses after each, so that entries are added while
/// things go wrong.
const ENTRIES: u64 = 10;

/// The function that runs a node: see [`replicated_log::run`].
pub(crate) type Run = fn(usize, &str, &[String], &Path) -> io::Result<()>;

/// What the clients know.
#[derive(Default)]
struct Known {
    acknowledged: Vec<u64>,
    /// The committed entries that were read at any node. No node may ever have others.
    committed: Vec<Entry>,
}

impl Known {
    fn has_read(&mut self, entries: Vec<Entry>) {
        let common = entries.len().min(self.committed.len());
        assert_eq!(entries[..common], self.committed[..common], "the nodes disagree");
        if entries.len() > common {
            self.committed = entries;
        }
    }
}

fn addresses() -> Vec<String> {
    NAMES.iter().map(|name| format!("{name}:{PORT}")).collect()
}

fn start(me: usize, run: Run) -> Host {
    sim::host(NAMES[me], move || {
        run(me, &format!("0.0.0.0:{PORT}"), &addresses(), Path::new("/journal"))
    })
}

fn again() -> Retry {
    Retry::new().delay(Delay::Constant(Duration::from_millis(50)))
}

/// Draws a duration of less than this many milliseconds.
fn below(milliseconds: u64) -> Duration {
    Duration::from_millis(sim::random_u64() % milliseconds)
}

/// Adds entries, each until it is acknowledged.
fn add(known: &Mutex<Known>, ids: std::ops::Range<u64>) {
    let mut client = Client::new(&addresses());
    for id in ids {
        let added = again().until_ok(|| client.add(id, &format!("text {id}")));
        added.expect("only a success ends the retries");
        known.lock().acknowledged.push(id);
        let _ = sleep(below(500));
    }
}

/// Reads at all nodes, again and again.
fn read(known: &Mutex<Known>) -> Result<(), Cancelled> {
    let mut client = Client::new(&addresses());
    loop {
        for node in 0..NAMES.len() {
            if let Ok(entries) = client.read(node) {
                known.lock().has_read(entries);
            }
            sleep(Duration::from_millis(50))?;
        }
    }
}

/// Makes things go wrong, and then makes everything well.
fn make_trouble(hosts: &[Host; 3]) -> Result<(), Cancelled> {
    for _ in 0..FAULTS {
        sleep(below(1000))?;
        let one = (sim::random_u64() % 3) as usize;
        let (one, others) = (&hosts[one], [&hosts[(one + 1) % 3], &hosts[(one + 2) % 3]]);
        match sim::random_u64() % 8 {
            0 => {
                one.crash();
                sleep(below(1000))?;
                one.restart();
            }
            1 => {
                one.power_fail();
                sleep(below(1000))?;
                one.restart();
            }
            2 => {
                one.pause();
                sleep(below(1000))?;
                one.resume();
            }
            3 => sim::partition(&[one], &others),
            4 => sim::partition(&[one], &[others[0]]),
            5 => sim::partition_one_way(one, others[0]),
            6 => _ = sim::link(one, others[0]).reset(),
            _ => sim::heal(),
        }
    }
    sim::heal();
    sim::calm();
    Ok(())
}

/// No acknowledged entry is lost, no entry is added twice, the nodes agree, and in calm weather
/// everything finishes.
pub(crate) fn program(run: Run) {
    let hosts = [0, 1, 2].map(|me| start(me, run));
    // On a slow network, nodes become candidates before they hear of each other.
    let slowest = Duration::from_millis(1) + below(20);
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        sim::link(&hosts[one], &hosts[other]).latency(Duration::from_millis(1)..=slowest);
    }
    let known = Mutex::new(Known::default());
    ecru::scope(|s| {
        s.builder().name("reader").spawn_daemon(|| read(&known));
        s.builder().name("trouble").spawn(|| make_trouble(&hosts));
        for client in 0..CLIENTS {
            let known = &known;
            let ids = 1 + ENTRIES * client..1 + ENTRIES * (client + 1);
            s.builder().name(format!("client {client}")).spawn(move || add(known, ids));
        }
    });

    // Everything was acknowledged. Now each node gets to know it, and has it.
    let mut known = known.into_inner();
    let mut client = Client::new(&addresses());
    for node in 0..NAMES.len() {
        let all_there = |entries: &Vec<Entry>| {
            known.acknowledged.iter().all(|id| entries.iter().any(|entry| entry.id == *id))
        };
        let entries = again().until_ok(|| match client.read(node) {
            Ok(entries) if !all_there(&entries) => Err(io::Error::other("not yet")),
            read => read,
        });
        let entries = entries.expect("only a success ends the retries");
        for id in &known.acknowledged {
            let copies = entries.iter().filter(|entry| entry.id == *id).count();
            assert_eq!(copies, 1, "entry {id} was added once");
        }
        known.has_read(entries);
    }
}
