//! The results of checks.

/// The result of one check. The check passes only if it found no problem and looked at at least one
/// case.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The number of cases. Zero is a failure, because the check did not do its work.
    pub(crate) cases: usize,
    /// One line that says what was looked at, with numbers.
    pub(crate) summary: String,
    /// The problems, one line each, with their places.
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    /// Creates the result of a check that could not be carried out.
    pub(crate) fn broken(problem: String) -> Outcome {
        Outcome { cases: 0, summary: "nothing was checked".into(), problems: vec![problem] }
    }

    /// Prints the result, and returns true if the check passed.
    pub(crate) fn report(&self, name: &str) -> bool {
        for problem in &self.problems {
            eprintln!("{name}: {problem}");
        }
        println!("{name}: {}", self.summary);
        if self.cases == 0 {
            eprintln!("{name}: there was nothing to check, so nothing has been shown");
        }
        self.stands()
    }

    /// Asserts that a problem's line contains `about`.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn complains(&self, about: &str) {
        let found = self.problems.iter().any(|problem| problem.contains(about));
        assert!(found && !self.stands(), "{about:?} is not among {:#?}", self.problems);
    }

    /// Returns true if there were cases and no problems.
    pub(crate) fn stands(&self) -> bool {
        self.cases > 0 && self.problems.is_empty()
    }
}
