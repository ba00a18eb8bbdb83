//! Tests that run in simulations, with several seeds.

use std::ops::Range;

use super::command::{ONE, message};
use super::explore::{BelowReports, Found, Simulated};
use super::failure::Failure;
use super::pilot::Plan;
use super::program::Program;
use super::search::{Caught, Runs, length};
use super::simulation::Simulation;
use super::strategy::Strategy;

/// The seeds of a test, if the environment does not say anything else.
const SEEDS: u64 = 16;

/// Runs `f` in 16 simulations, with the seeds from 0 to 15. This is the body of a test.
///
/// Half of the runs pick tasks by [`Strategy::Random`], the others by [`Strategy::Pct`] with a
/// depth of 3. Everything is fixed: the same program passes each time, or fails each time. To look
/// for rare failures, set `ECRU_SIM_SEEDS=n` for the seeds from 0 to n - 1, or
/// `ECRU_SIM_SEEDS=m..n` for those from m to n - 1. Processes with other ranges share a search, and
/// so do the searches of several nights. To repeat a failure, set `ECRU_SIM_SEED=s` for the seed `s`
/// alone.
///
/// Before the first seed, there is a run that shows how long the program is. The first seed and
/// each sixteenth one after it are run twice. If a second run is not the same as the first one, the
/// program depends on something that is not simulated, and the test fails.
///
/// A run that fails is repeated, and so is the first run. If that is another one now, the program
/// keeps something between runs, and the message says so: the failure may not occur in a fresh
/// process.
///
/// The runs have no [`Faults`](super::Faults). [`Simulation::test`] has settings for the network,
/// the faults and the limits.
///
/// # Panics
/// Panics if a run fails. The message has the seed, the virtual time, what failed, a trace and the
/// command that repeats the run. If the run itself panicked with the same message, the panic hook
/// has reported that before, and only the first line of that message is repeated. Also panics inside a task, and if a variable has a value that is
/// not a number.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// # /*
/// #[test]
/// # */
/// fn a_slow_server_is_given_up() {
///     ecru::sim::test(|| {
///         let begun = ecru::time::now();
///         let answer = ecru::timeout(Duration::from_secs(60), || ecru::sleep(Duration::MAX));
///         assert!(answer.is_err());
///         assert_eq!(ecru::time::now() - begun, Duration::from_secs(60));
///     });
/// }
/// # a_slow_server_is_given_up();
/// ```
#[track_caller]
pub fn test(f: impl Fn() + Send + Sync) {
    Simulation::default().test(f);
}

impl Simulation {
    /// Runs `f` as [`test()`] does, in simulations with the network, the faults and the limits of
    /// this one. Each run has its own seed and strategy, so those of this simulation are not used.
    ///
    /// # Panics
    /// Panics if a run fails, as [`test()`] does. The message also lists the faults without which
    /// the run does not fail.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::{Faults, Simulation};
    /// use std::io::{Read, Write};
    ///
    /// // A transfer may move fewer bytes than it could, which `write_all` and `read_exact` expect.
    /// Simulation::default().faults(Faults::none().short_transfers(0.5)).test(|| {
    ///     let (mut reader, mut writer) = ecru::io::pipe().unwrap();
    ///     writer.write_all(b"all of it").unwrap();
    ///     let mut text = [0; 9];
    ///     reader.read_exact(&mut text).unwrap();
    ///     assert_eq!(&text, b"all of it");
    /// });
    /// ```
    #[track_caller]
    pub fn test(self, f: impl Fn() + Send + Sync) {
        run_seeds(&Simulated::with(self, f).of_a_test());
    }
}

/// Runs a program with each of the seeds of a test.
#[track_caller]
fn run_seeds(program: &impl Program<Failure = Failure>) {
    let seeds = seeds_or_panic(SEEDS);
    let length = Some(length(program));
    let mut runs = Runs::with_repetitions();
    for seed in seeds {
        let plan = Plan { length, ..Plan::of(usual(seed)).with_marks() };
        if let Err(caught) = runs.check(program, seed, &plan) {
            panic!("{}", message(&caught_text(*caught), seed));
        }
    }
    say_runs(runs.count);
}

/// Prints the number of runs if the environment has asked for it.
pub(super) fn say_runs(runs: u64) {
    if std::env::var_os(MANY).is_some() {
        println!("ecru::sim: {runs} runs");
    }
}

/// The strategy for a seed of a test.
pub(super) fn usual(seed: u64) -> Strategy {
    if seed.is_multiple_of(2) { Strategy::Random } else { Strategy::Pct { depth: 3 } }
}

pub(super) fn caught_text(caught: Caught<Failure>) -> String {
    BelowReports(&Found::new(caught)).to_string()
}

const MANY: &str = "ECRU_SIM_SEEDS";

/// The seeds that the environment asks for, or else the first `usual` ones.
#[track_caller]
pub(super) fn seeds_or_panic(usual: u64) -> Range<u64> {
    match seeds(usual, |name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }) {
        Ok(seeds) => seeds,
        Err(problem) => panic!("{problem}"),
    }
}

fn seeds(usual: u64, variable: impl Fn(&str) -> Option<String>) -> Result<Range<u64>, String> {
    if let Some(value) = variable(ONE) {
        let seed: u64 = value.trim().parse().map_err(|_| {
            format!(
                "{ONE} is `{value}`, which is not a seed; set it to a number such as 7, or unset it"
            )
        })?;
        let end = seed
            .checked_add(1)
            .ok_or_else(|| format!("{ONE} is {seed}, the only number that is no seed"))?;
        return Ok(seed..end);
    }
    let Some(value) = variable(MANY) else { return Ok(0..usual) };
    let (first, end) = value.split_once("..").unwrap_or(("0", &value));
    match (first.trim().parse(), end.trim().parse()) {
        (Ok(first), Ok(end)) if first < end => Ok(first..end),
        (Ok(_), Ok(_)) => Err(format!(
            "{MANY} is {value}, which would test nothing; set it to a number such as 1000, or to a \
             range such as 1000..2000"
        )),
        _ => Err(format!(
            "{MANY} is `{value}`, which is not a number of seeds; set it to a number such as 1000, \
             to a range such as 1000..2000, or unset it"
        )),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::seeds;

    fn with(one: Option<&str>, many: Option<&str>) -> Result<std::ops::Range<u64>, String> {
        let one = one.map(String::from);
        let many = many.map(String::from);
        seeds(16, |name| if name == "ECRU_SIM_SEED" { one.clone() } else { many.clone() })
    }

    #[test]
    fn the_environment_names_the_seeds() {
        assert_eq!(with(None, None), Ok(0..16));
        assert_eq!(with(None, Some("1000")), Ok(0..1000));
        assert_eq!(with(None, Some("1000..2000")), Ok(1000..2000));
        assert_eq!(with(None, Some(" 7 .. 8\n")), Ok(7..8));
        assert_eq!(with(Some("7"), None), Ok(7..8));
        assert_eq!(with(Some(" 7\n"), Some("1000")), Ok(7..8));
    }

    #[test]
    fn a_bad_value_is_named_and_says_what_to_do() {
        let wrong = |one, many, text: &str| {
            let problem = with(one, many).unwrap_err();
            assert!(problem.contains(text) && problem.contains("ECRU_SIM_SEED"), "{problem}");
        };
        wrong(Some("x7"), None, "`x7`, which is not a seed");
        wrong(Some(""), None, "``, which is not a seed");
        wrong(None, Some("-1"), "`-1`, which is not a number of seeds");
        wrong(None, Some("0"), "would test nothing");
        wrong(None, Some("9..9"), "would test nothing");
        wrong(None, Some("9..8"), "9..8, which would test nothing");
        wrong(None, Some("..9"), "`..9`, which is not a number of seeds");
        wrong(None, Some("1..=9"), "`1..=9`, which is not a number of seeds");
        wrong(Some("18446744073709551615"), None, "no seed");
    }
}
