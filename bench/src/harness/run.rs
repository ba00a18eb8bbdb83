//! A run from its first row to its last, and its continuation after an interruption.

use std::path::{Path, PathBuf};

use super::header::Header;
use super::noise::{Gate, spin_on};
use super::pin::usable_cores;
use super::report::{head, section};
use super::result::{FORMAT, Results, RowResult};
use super::rounds::{Rounds, run_row};
use super::row::Row;
use super::{store, verdict};
use crate::goals::{ECRU, Goal};

/// The number of spins before the first row, which determine the fastest.
const SPINS: usize = 20;

/// A run, and the file in which it is saved.
pub(crate) struct Run {
    results: Results,
    file: Option<PathBuf>,
}

impl Run {
    /// Begins a run. With a topic it is saved in a new file.
    ///
    /// # Errors
    ///
    /// Returns an error if that file cannot be created.
    pub(crate) fn begin(header: Header, topic: Option<&str>) -> Result<Run, String> {
        let file = topic.map(|topic| store::create(&header, topic)).transpose()?;
        let results =
            Results { format: FORMAT, header, complete: false, least_spin: None, rows: Vec::new() };
        Ok(Run { results, file })
    }

    /// Continues a run that was interrupted.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if the machine or the build differs.
    pub(crate) fn resume(results: Results, file: &Path, now: &Header) -> Result<Run, String> {
        match results.header.differs_from(now) {
            Some(difference) => {
                Err(format!("{} was begun elsewhere; what differs: {difference}", file.display()))
            }
            None => Ok(Run { results, file: Some(file.to_owned()) }),
        }
    }

    /// Runs the rows that are missing. Each is printed and saved when it has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if a core is not available, or if the file cannot be written.
    pub(crate) fn rows(mut self, rows: &[Row], goals: &[&Goal]) -> Result<(), String> {
        let header = &self.results.header;
        let rounds = Rounds { wanted: header.rounds, repeats: header.repeats };
        let mut gate = Gate::with(self.results.least_spin);
        if let Some(&core) = usable_cores()?.first() {
            for _ in 0..SPINS {
                gate.note_spin(spin_on(&[core])?);
            }
        }
        print!("{}", head(header));
        for row in missing(rows, &self.results.rows) {
            let mut result = run_row(row, rounds, &mut gate, |running| eprintln!("  {running}"))?;
            result.summarise(ECRU);
            self.results.rows.push(result);
            self.results.least_spin = gate.least_spin();
            self.hold(goals);
            println!("\n{}", section(self.results.rows.last().expect("it was pushed")));
            self.save()?;
        }
        self.results.complete = true;
        self.save()
    }

    /// Evaluates the goals for all rows so far. A goal may name two rows, so this is done each
    /// time.
    fn hold(&mut self, goals: &[&Goal]) {
        let held = |row: &RowResult| verdict::hold(goals, row, &self.results.rows);
        let held: Vec<_> = self.results.rows.iter().map(held).collect();
        for (row, goals) in self.results.rows.iter_mut().zip(held) {
            row.goals = goals;
        }
    }

    fn save(&self) -> Result<(), String> {
        match &self.file {
            Some(file) => store::save(file, &self.results),
            None => Ok(()),
        }
    }
}

/// Returns the rows that have no result yet, in their order.
fn missing<'rows>(rows: &'rows [Row], done: &[RowResult]) -> Vec<&'rows Row> {
    rows.iter().filter(|row| !done.iter().any(|result| result.name == row.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Metric;
    use crate::harness::header::tests::header;

    fn row(family: &'static str) -> Row {
        Row {
            family,
            number: Some(1),
            title: String::new(),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders: vec![],
            note: "",
        }
    }

    #[test]
    fn a_resumed_run_has_only_the_missing_rows_left() {
        let rows = ["first", "second", "third"].map(row);
        let done = [RowResult::new(&rows[1])];
        let names = missing(&rows, &done).iter().map(|row| row.name()).collect::<Vec<_>>();
        assert_eq!(names, ["first-1", "third-1"]);
        assert!(missing(&rows, &rows.each_ref().map(RowResult::new)).is_empty());
    }

    #[test]
    fn a_run_goes_on_only_where_it_was_begun() {
        let results = || Results {
            format: FORMAT,
            header: header(),
            complete: false,
            least_spin: None,
            rows: vec![],
        };
        let file = Path::new("file.json");
        assert!(Run::resume(results(), file, &header()).is_ok());
        let other = Header { commit: "other".into(), ..header() };
        let error = Run::resume(results(), file, &other).err().unwrap();
        assert!(error.contains("c0ffee") && error.contains("other"), "{error}");
    }
}
