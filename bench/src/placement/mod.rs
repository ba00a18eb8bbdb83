//! The suite of shapes: kinds of programs that show where a scheduler puts their tasks.
//!
//! `bench/rows/placement.md` says what is compared, where each side runs, and what is not counted.

mod clients;
mod goals;
mod measure;
#[cfg(feature = "ecru")]
mod on_ecru;
mod on_rayon;
mod on_threads;
mod on_tokio;
mod shape;
mod spin;
mod words;

pub(crate) use clients::{LOAD, clients_main};
pub(crate) use goals::GOALS;

use measure::{BLOCKED_METRICS, METRICS};
use shape::Arrival::{Early, Late, Trickling};
use shape::Shape::{
    self, Accept, Actors, Blocked, Map, Nested, Pairs, Pipeline, Pool, Short, Words,
};
use shape::{Spawner, micros};

use crate::harness::{Contender, Row};
use crate::rows::Id;

/// A family of rows. A row's number is the number of workers, which is two by default.
struct Family {
    name: &'static str,
    title: &'static str,
    /// The shapes. If there are several, they run at the same time.
    shapes: &'static [Shape],
    /// Additional contenders of ecru.
    further: Further,
    note: &'static str,
}

/// Contenders of ecru in addition to the default and the two fixed placements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Further {
    None,
    /// With `near()`, in rows whose tasks communicate and do not compute.
    Near,
    /// On one worker, where two workers must be nearly twice as fast.
    One,
}

/// Creates a family with only ecru's usual contenders, and without a note.
const fn family(name: &'static str, title: &'static str, shapes: &'static [Shape]) -> Family {
    Family { name, title, shapes, further: Further::None, note: "" }
}

impl Family {
    const fn further(mut self, further: Further) -> Family {
        self.further = further;
        self
    }

    const fn note(mut self, note: &'static str) -> Family {
        self.note = note;
        self
    }
}

const HUNDRED: u64 = micros(100);

/// All shapes, in the order of the list.
const FAMILIES: &[Family] = &[
    family(
        "placement-pool-early",
        "eight tasks on a channel, jobs of 100 us that come at once",
        &[Pool { jobs: 3_000, steps: HUNDRED, arrival: Early }],
    )
    .further(Further::One),
    family(
        "placement-pool-late",
        "eight tasks on a channel, jobs of 100 us that come when all have waited 10 ms",
        &[Pool { jobs: 3_000, steps: HUNDRED, arrival: Late }],
    )
    .further(Further::One)
    .note("the time includes the 10 ms"),
    family(
        "placement-pool-trickling",
        "eight tasks on a channel, bursts of 20 jobs of 100 us with pauses of 1 ms",
        &[Pool { jobs: 3_000, steps: HUNDRED, arrival: Trickling }],
    )
    .note("two cores need 1 ms for a burst"),
    family(
        "placement-pool-short",
        "eight tasks on a channel, jobs of 1 us",
        &[Pool { jobs: 200_000, steps: micros(1), arrival: Early }],
    ),
    family(
        "placement-pool-long",
        "eight tasks on a channel, jobs of 5 ms",
        &[Pool { jobs: 80, steps: micros(5_000), arrival: Early }],
    )
    .further(Further::One),
    family(
        "placement-pipeline",
        "four stages that compute 20 us each, per item",
        &[Pipeline { items: 4_000, steps: micros(20) }],
    ),
    family(
        "placement-pipeline-talk",
        "four stages that pass on what they get, per item",
        &[Pipeline { items: 200_000, steps: 0 }],
    )
    .further(Further::Near),
    family(
        "placement-pairs",
        "eight pairs that talk by rendezvous, per message",
        &[Pairs { messages: 50_000 }],
    )
    .further(Further::Near)
    .note("tokio: a channel of one, as it has no rendezvous"),
    family(
        "placement-accept",
        "1,000 connections, of which 100 ask for 5 us of computing, per request",
        &[Accept { requests: 20_000, steps: micros(5) }],
    )
    .note("the clients' process shares the two cores; its CPU time is not counted"),
    family(
        "placement-map-short",
        "parallel map, 1 us per item",
        &[Map { items: 200_000, steps: micros(1) }],
    ),
    family(
        "placement-map-long",
        "parallel map, 1 ms per item",
        &[Map { items: 300, steps: micros(1_000) }],
    ),
    family(
        "placement-nested",
        "32 tasks with scope after scope of four tasks that wait 200 us and compute 50 us",
        &[Nested { scopes: 32, steps: micros(50) }],
    )
    .note("tokio's clock has steps of 1 ms"),
    family(
        "placement-million",
        "a million tasks that end at once, per task",
        &[Short { tasks: 1_000_000 }],
    ),
    family(
        "placement-actors",
        "64 actors of 5 us per message; a quarter of the messages go to one that takes 50 us",
        &[Actors { messages: 12_000, steps: micros(5) }],
    ),
    family(
        "placement-blocked",
        "200 tasks of 1 ms of waiting and 100 us of computing, spawned before 200 ms of foreign code",
        &[Blocked { tasks: 200, steps: HUNDRED, spawner: Spawner::Blocker }],
    )
    .note("the time is that of the last of the 200 tasks"),
    family(
        "placement-blocked-beside",
        "the same tasks, spawned by a task that yields to the foreign code first",
        &[Blocked { tasks: 200, steps: HUNDRED, spawner: Spawner::Other }],
    )
    .note("the spawner is stranded where it started and shares its worker with the foreign code"),
    family("placement-words", "words of a file of 200 MB by a pool, per chunk of 1 MB", &[Words])
        .note("the file is in the page cache"),
    family(
        "placement-mixed",
        "pools, pipelines, pairs, a map, nested scopes, short tasks and actors at the same time",
        &[
            Pool { jobs: 700, steps: HUNDRED, arrival: Early },
            Pool { jobs: 300, steps: HUNDRED, arrival: Trickling },
            Pipeline { items: 500, steps: micros(20) },
            Pipeline { items: 10_000, steps: 0 },
            Pairs { messages: 2_000 },
            Map { items: 20_000, steps: micros(1) },
            Nested { scopes: 8, steps: micros(50) },
            Short { tasks: 50_000 },
            Actors { messages: 2_000, steps: micros(5) },
        ],
    )
    .note("an operation is any of theirs; the accept loop, the foreign code and the words are not in it"),
];

/// The rows on two workers.
pub(crate) const ROWS: &[Id] = &ids::<{ FAMILIES.len() }>(None);

/// The rows on eight workers, which share two cores. They are reported and have no goals.
pub(crate) const OVERSUBSCRIBED: &[Id] = &ids::<{ FAMILIES.len() }>(Some(8));

/// Returns family and number of every row.
const fn ids<const N: usize>(number: Option<usize>) -> [Id; N] {
    let mut ids = [("", number); N];
    let mut index = 0;
    while index < N {
        ids[index] = (FAMILIES[index].name, number);
        index += 1;
    }
    ids
}

/// Creates a row with all its contenders, ecru first. Returns `None` if there is no such family.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    let family = FAMILIES.iter().find(|candidate| candidate.name == family)?;
    let workers = number.unwrap_or(2);
    if !(1..=64).contains(&workers) {
        return None;
    }
    let blocked = matches!(family.shapes, [Blocked { .. }]);
    Some(Row {
        family: family.name,
        number,
        title: format!("{}; {workers} workers on two cores", family.title),
        cores: 2,
        metrics: if blocked { BLOCKED_METRICS } else { METRICS },
        contenders: contenders(family, workers),
        note: if family.note.is_empty() { "see bench/rows/placement.md" } else { family.note },
    })
}

fn contenders(family: &'static Family, workers: usize) -> Vec<Contender> {
    let shapes = family.shapes;
    let mut contenders = ecru(family, workers);
    let words: Vec<_> = shapes.iter().map(Shape::to_string).collect();
    let words: Vec<_> = ["placement"].into_iter().chain(words.iter().map(String::as_str)).collect();
    contenders.push(Contender::go(workers, &words));
    contenders.push(Contender::sampled("tokio", move || on_tokio::perform(shapes, workers)));
    if let &[shape] = shapes {
        if shape.fits_threads() {
            let perform = move || on_threads::perform(shape, workers);
            contenders.push(Contender::sampled("threads", perform));
        }
        if shape.fits_rayon() {
            contenders.push(Contender::sampled("rayon", move || on_rayon::perform(shape, workers)));
        }
    }
    contenders
}

#[cfg(feature = "ecru")]
fn ecru(family: &'static Family, workers: usize) -> Vec<Contender> {
    use ecru::Placement::{Auto, Spread, Together};
    use on_ecru::{Setup, perform};

    let shapes = family.shapes;
    let usual = Setup { workers, placement: Auto, near: false };
    let mut setups = vec![
        (crate::goals::ECRU, usual),
        ("ecru-together", Setup { placement: Together, ..usual }),
        ("ecru-spread", Setup { placement: Spread, ..usual }),
    ];
    match family.further {
        Further::None => {}
        Further::Near => setups.push(("ecru-near", Setup { near: true, ..usual })),
        // Only a goal needs this contender, and rows on more workers have no goals.
        Further::One if workers > 2 => {}
        Further::One => setups.push(("ecru-one", Setup { workers: 1, ..usual })),
    }
    let contender = |(name, setup)| Contender::sampled(name, move || perform(shapes, setup));
    setups.into_iter().map(contender).collect()
}

/// This build measures the peers alone.
#[cfg(not(feature = "ecru"))]
fn ecru(family: &'static Family, _workers: usize) -> Vec<Contender> {
    let _known = [Further::None, Further::Near, Further::One].contains(&family.further);
    Vec::new()
}
