//! What a check found.

/// The result of one check. It stands only if nothing was wrong and there was something to look at.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How many cases were looked at; none at all is a failure: the check did not do its work.
    pub(crate) cases: usize,
    /// One line that says what was looked at, in numbers.
    pub(crate) summary: String,
    /// What is wrong, one line each, with its place.
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    /// A check that could not be carried out.
    pub(crate) fn broken(problem: String) -> Outcome {
        Outcome { cases: 0, summary: "nothing was checked".into(), problems: vec![problem] }
    }

    /// Prints the findings; true if the check stands.
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

    /// Demands a problem whose line says this.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn complains(&self, about: &str) {
        let found = self.problems.iter().any(|problem| problem.contains(about));
        assert!(found && !self.stands(), "{about:?} is not among {:#?}", self.problems);
    }

    /// True if there were cases and none of them is wrong.
    pub(crate) fn stands(&self) -> bool {
        self.cases > 0 && self.problems.is_empty()
    }
}
