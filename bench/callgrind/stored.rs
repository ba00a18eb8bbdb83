//! The stored counts, `slopes.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counts::Counts;

/// The file of the stored counts.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/slopes.json");

/// The counts of every work, and the tools that they were made with.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) rustc: String,
    pub(crate) valgrind: String,
    pub(crate) works: BTreeMap<String, Work>,
}

/// The counts of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) instructions: f64,
    /// The lowest number of instructions ever stored. Blessing never raises it.
    pub(crate) best_ever: f64,
    pub(crate) system_calls: f64,
    pub(crate) allocations: f64,
}

impl Stored {
    /// Stores the new counts. `best_ever` keeps the lowest ones.
    pub(crate) fn blessed(
        rustc: &str,
        valgrind: &str,
        measured: &BTreeMap<String, Counts>,
        before: Option<&Stored>,
    ) -> Stored {
        let best_before = |work: &String| Some(before?.works.get(work)?.best_ever);
        let works = measured.iter().map(|(name, counts)| {
            let best = best_before(name).unwrap_or(f64::INFINITY).min(counts.instructions);
            let work = Work {
                instructions: counts.instructions,
                best_ever: best,
                system_calls: counts.system_calls,
                allocations: counts.allocations,
            };
            (name.clone(), work)
        });
        Stored { rustc: rustc.into(), valgrind: valgrind.into(), works: works.collect() }
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing or of another form.
    pub(crate) fn read() -> Result<Stored, String> {
        let text = std::fs::read_to_string(FILE)
            .map_err(|error| format!("{FILE}: {error}; --bless makes it"))?;
        serde_json::from_str(&text).map_err(|error| format!("{FILE}: {error}; --bless makes it"))
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub(crate) fn write(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).expect("names and numbers make JSON");
        std::fs::write(FILE, text + "\n").map_err(|error| format!("{FILE}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blessing_never_raises_what_is_best_ever() {
        let counts = |instructions| Counts { instructions, system_calls: 0.0, allocations: 0.0 };
        let measured = |instructions| [("yield".to_owned(), counts(instructions))].into();
        let first = Stored::blessed("1", "3", &measured(100.0), None);
        assert_eq!(first.works["yield"].best_ever, 100.0);
        let slower = Stored::blessed("1", "3", &measured(110.0), Some(&first));
        assert_eq!(
            (slower.works["yield"].instructions, slower.works["yield"].best_ever),
            (110.0, 100.0)
        );
        let faster = Stored::blessed("1", "3", &measured(90.0), Some(&slower));
        assert_eq!(faster.works["yield"].best_ever, 90.0);
    }
}
