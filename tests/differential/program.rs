//! Programs, their two runs, and the search for the shortest program that differs.

use ecru::sim::Simulation;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How long a simulation lets packets travel after each operation.
const TRAVEL: Duration = Duration::from_millis(20);

/// How long programs pause after each operation with the kernel. It may be late when the machine is
/// busy, so a program whose results differ is run again with longer pauses.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(30)];

/// Something that programs operate on, such as a connection.
pub(crate) trait Model: Copy + Debug + Send + Sync + 'static {
    type Op: Copy + Debug + Send + Sync + 'static;
    /// What the operations of one program act on.
    type State;

    /// All operations, for programs that are drawn and for those that are enumerated.
    fn operations(self) -> Vec<Self::Op>;

    fn begin(self) -> Self::State;

    /// Carries out an operation, and describes its result.
    fn step(self, state: &mut Self::State, op: Self::Op) -> String;

    /// Returns why the results of the last operation may differ, if there is a reason.
    fn excuse(self, program: &[Self::Op], real: &str, simulated: &str) -> Option<&'static str>;
}

/// Returns a path that no other program uses.
pub(crate) fn scratch_path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/tmp/ecru-differential-{}-{number}", process::id()))
}

/// Describes a result as both runs would.
pub(crate) fn shown<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => shown_error(&error),
    }
}

pub(crate) fn shown_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => format!("{:?} ({errno})", error.kind()),
        None => format!("{:?}", error.kind()),
    }
}

/// Runs a program with the kernel. Lets time pass after each operation.
fn run_real<M: Model>(model: M, program: &[M::Op], pause: Duration) -> Vec<String> {
    ecru::run(|| {
        let mut state = model.begin();
        let step = |op: &M::Op| {
            let result = model.step(&mut state, *op);
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            result
        };
        program.iter().map(step).collect()
    })
}

fn run_simulated<M: Model>(model: M, program: &[M::Op]) -> Vec<String> {
    let program = program.to_vec();
    let report = Simulation::new(1).run(move || {
        let mut state = model.begin();
        let step = |op: &M::Op| {
            let result = model.step(&mut state, *op);
            ecru::sleep(TRAVEL).unwrap();
            result
        };
        program.iter().map(step).collect()
    });
    report.unwrap()
}

/// Returns the results with the kernel and in a simulation.
pub(crate) fn both<M: Model>(model: M, program: &[M::Op]) -> [Vec<String>; 2] {
    let mut real = Vec::new();
    let simulated = run_simulated(model, program);
    for pause in PAUSES {
        real = run_real(model, program, pause);
        if real == simulated {
            break;
        }
    }
    [real, simulated]
}

/// Returns the number of operations until the results differ, and both results.
fn compare<M: Model>(model: M, program: &[M::Op]) -> Option<(usize, String, String)> {
    let simulated = run_simulated(model, program);
    let mut found = None;
    for pause in PAUSES {
        let real = run_real(model, program, pause);
        let place = (0..program.len()).find(|&at| {
            real[at] != simulated[at]
                && model.excuse(&program[..=at], &real[at], &simulated[at]).is_none()
        })?;
        found = Some((place + 1, real[place].clone(), simulated[place].clone()));
    }
    found
}

/// Leaves out operations as long as the results differ.
fn shrink<M: Model>(model: M, program: &[M::Op]) -> Option<(Vec<M::Op>, String, String)> {
    let (length, mut real, mut simulated) = compare(model, program)?;
    let mut shortest = program[..length].to_vec();
    let mut at = 0;
    while at < shortest.len() {
        let mut shorter = shortest.clone();
        shorter.remove(at);
        if let Some((length, other, another)) = compare(model, &shorter) {
            shorter.truncate(length);
            (shortest, real, simulated) = (shorter, other, another);
            at = 0;
        } else {
            at += 1;
        }
    }
    Some((shortest, real, simulated))
}

/// Checks programs. Panics with the shortest forms of those that differ.
pub(crate) fn check<M: Model>(model: M, programs: impl Iterator<Item = Vec<M::Op>>) {
    let mut found = BTreeMap::new();
    for program in programs {
        if let Some((shortest, real, simulated)) = shrink(model, &program) {
            found.insert(format!("{shortest:?}"), format!("Linux {real}, simulated {simulated}"));
        }
        if found.len() >= 12 {
            break;
        }
    }
    let text = found.iter().map(|(program, results)| format!("\n{program}\n    {results}"));
    assert!(found.is_empty(), "{model:?} differs:{}", text.collect::<String>());
}

/// Checks programs that are drawn.
pub(crate) fn random_programs<M: Model>(model: M, count: u64, longest: usize) {
    let ops = model.operations();
    let seed = std::env::var("ECRU_DIFFERENTIAL_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random(seed.unwrap_or(1));
    let draw = |_| {
        let length = 1 + random.below(longest);
        (0..length).map(|_| ops[random.below(ops.len())]).collect()
    };
    check(model, (0..count).map(draw));
}

/// A small generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((word ^ (word >> 31)) >> 33).unwrap() % limit
    }
}
