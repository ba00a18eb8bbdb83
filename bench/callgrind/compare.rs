//! Compares measured counts with the stored ones.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::stored::{Stored, Work};

/// The tolerance for the instructions of an operation: a fraction of them, plus one instruction.
const TOLERANCE: f64 = 0.005;

/// The tolerance if the compiler or valgrind differs from that of the stored counts.
const TOLERANCE_OF_OTHER_TOOLS: f64 = 0.03;

/// The tolerance for works that are not repeated exactly. An echo takes thousands of instructions
/// through many functions, and how the compiler splits these among its units depends on the build
/// folder, which makes up to 0.8% of difference. A fan-out polls the driver now and then by the
/// clock, so a slower count has more polls: from 719 to 730 instructions with one program.
/// In spawn + join and a race, the time of an operation in the simulator is near that from which
/// tasks are measured by the clock: 543 to 552 instructions, and 5007 to 5048, on one day.
const TOLERANCE_OF_VARYING_WORKS: f64 = 0.02;
const VARYING_WORKS: [&str; 4] = ["echo-", "fan-out", "race", "spawn-join"];

/// The tolerance for system calls and allocations. A real change for an operation is at least one.
const CALLS: f64 = 0.05;

/// The lines to print, and the failures.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) lines: Vec<String>,
    pub(crate) failures: Vec<String>,
}

/// Compares every work with the stored one. A work on one side only is a failure.
pub(crate) fn compare(
    rustc: &str,
    valgrind: &str,
    measured: &BTreeMap<String, Counts>,
    stored: &Stored,
) -> Comparison {
    let mut comparison = Comparison::default();
    let same_tools = stored.rustc == rustc && stored.valgrind == valgrind;
    let tolerance = if same_tools {
        TOLERANCE
    } else {
        comparison.lines.push(format!(
            "the stored counts are those of {} and {}, these are of {rustc} and {valgrind}: \
             compared within {}%; --bless stores the new ones",
            stored.rustc,
            stored.valgrind,
            TOLERANCE_OF_OTHER_TOOLS * 100.0
        ));
        TOLERANCE_OF_OTHER_TOOLS
    };
    for (name, now) in measured {
        let varies = VARYING_WORKS.iter().any(|work| name.starts_with(work));
        let tolerance = if varies { tolerance.max(TOLERANCE_OF_VARYING_WORKS) } else { tolerance };
        match stored.works.get(name) {
            Some(before) => comparison.one(name, now, before, tolerance),
            None => comparison
                .failures
                .push(format!("{name}: {:.2} instructions, none stored", now.instructions)),
        }
    }
    let missing = stored.works.keys().filter(|work| !measured.contains_key(*work));
    comparison.failures.extend(missing.map(|work| {
        format!("{work}: stored, but this ecru-slopes does not know it (feature `ecru`?)")
    }));
    comparison
}

impl Comparison {
    fn one(&mut self, name: &str, now: &Counts, before: &Work, tolerance: f64) {
        let percent = |then: f64| 100.0 * (now.instructions / then - 1.0);
        self.lines.push(format!(
            "{name}: {:.2} instructions per operation, stored {:.2} ({:+.2}%), best ever {:.2} \
             ({:+.2}%); system calls {:.2}, allocations {:.2}",
            now.instructions,
            before.instructions,
            percent(before.instructions),
            before.best_ever,
            percent(before.best_ever),
            now.system_calls,
            now.allocations,
        ));
        let difference = (now.instructions - before.instructions).abs();
        if difference > tolerance * before.instructions + 1.0 {
            self.failures.push(format!(
                "{name}: {:.2} instructions became {:.2} ({:+.2}%)",
                before.instructions,
                now.instructions,
                percent(before.instructions)
            ));
        }
        let calls = [
            ("system calls", before.system_calls, now.system_calls),
            ("allocations", before.allocations, now.allocations),
        ];
        for (what, before, now) in calls {
            if (now - before).abs() > CALLS {
                self.failures.push(format!("{name}: {before:.2} {what} became {now:.2}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = Counts { instructions: 1_000.0, system_calls: 2.0, allocations: 0.0 };

    /// Returns the failures if the stored counts are [`COUNTS`] and the measured counts are `now`.
    fn failures(rustc: &str, now: Counts) -> Vec<String> {
        failures_of("channel", rustc, now)
    }

    fn failures_of(work: &str, rustc: &str, now: Counts) -> Vec<String> {
        let works = |counts| [(work.to_owned(), counts)].into();
        let stored = Stored::blessed("rustc 1", "valgrind-3", &works(COUNTS), None);
        compare(rustc, "valgrind-3", &works(now), &stored).failures
    }

    #[test]
    fn half_a_percent_and_one_instruction_are_allowed_either_way() {
        let with = |instructions| failures("rustc 1", Counts { instructions, ..COUNTS });
        for allowed in [994.1, 1_000.0, 1_005.9] {
            assert_eq!(with(allowed), Vec::<String>::new());
        }
        for different in [993.9, 1_006.1] {
            assert!(with(different)[0].contains("1000.00 instructions became"), "{different}");
        }
    }

    #[test]
    fn long_works_are_compared_within_two_percent() {
        let with = |instructions| {
            failures_of("echo-tcp", "rustc 1", Counts { instructions, ..COUNTS }).is_empty()
        };
        assert!(with(1_020.9) && with(979.1));
        assert!(!with(1_021.1) && !with(978.9));
    }

    #[test]
    fn other_tools_are_compared_within_three_percent() {
        let with = |instructions| failures("rustc 2", Counts { instructions, ..COUNTS });
        assert!(with(1_029.0).is_empty());
        assert!(!with(1_032.0).is_empty());
    }

    #[test]
    fn one_more_system_call_or_allocation_fails() {
        assert!(failures("rustc 1", Counts { system_calls: 3.0, ..COUNTS })[0].contains("system"));
        assert!(failures("rustc 1", Counts { allocations: 0.1, ..COUNTS })[0].contains("alloc"));
        assert!(failures("rustc 1", Counts { allocations: 0.04, ..COUNTS }).is_empty());
    }

    #[test]
    fn creep_shows_beside_the_best_ever() {
        let works: BTreeMap<_, _> = [("echo".to_owned(), COUNTS)].into();
        let mut stored = Stored::blessed("rustc 1", "valgrind-3", &works, None);
        stored.works.get_mut("echo").unwrap().best_ever = 800.0;
        let comparison = compare("rustc 1", "valgrind-3", &works, &stored);
        assert!(comparison.lines[0].contains("best ever 800.00 (+25.00%)"), "{comparison:?}");
        assert!(comparison.failures.is_empty());
    }

    #[test]
    fn what_is_on_one_side_only_fails() {
        let works: BTreeMap<_, _> = [("echo".to_owned(), COUNTS)].into();
        let stored = Stored::blessed("rustc 1", "valgrind-3", &works, None);
        let other: BTreeMap<_, _> = [("other".to_owned(), COUNTS)].into();
        assert_eq!(compare("rustc 1", "valgrind-3", &other, &stored).failures.len(), 2);
    }
}
