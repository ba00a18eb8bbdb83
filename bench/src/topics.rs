//! The topics: groups of rows with their goals, each of which can be run by its name.
//!
//! A new topic is one more entry in [`TOPICS`].

use crate::explained;
use crate::fleet;
use crate::goals::{self, Goal};
use crate::harness::Row;
use crate::placement;
use crate::rows::{self, Id};
use crate::simulation;
use crate::web;

/// A group of rows.
pub(crate) struct Topic {
    /// The word that selects all of its rows.
    pub(crate) name: &'static str,
    /// The rows of a run without a selection, in the order of running.
    pub(crate) rows: &'static [Id],
    /// Makes a row with all its contenders, ecru first. Returns `None` if there is no such family,
    /// or if it takes another kind of number.
    pub(crate) build: fn(&str, Option<usize>) -> Option<Row>,
    /// The goals. The list is empty for a topic without goals.
    pub(crate) goals: &'static [Goal],
}

/// All topics.
pub(crate) const TOPICS: &[Topic] = &[
    Topic { name: "tasks", rows: rows::TASKS, build: rows::build, goals: goals::tasks::GOALS },
    Topic {
        name: "channels",
        rows: rows::CHANNELS,
        build: rows::build,
        goals: goals::channels::GOALS,
    },
    Topic {
        name: "servers",
        rows: rows::SERVERS,
        build: rows::build,
        goals: goals::servers::GOALS,
    },
    Topic { name: "files", rows: rows::FILES, build: rows::build, goals: goals::files::GOALS },
    Topic {
        name: "programs",
        rows: rows::PROGRAMS,
        build: rows::build,
        goals: goals::programs::GOALS,
    },
    Topic { name: "gears", rows: rows::GEARS, build: rows::build, goals: goals::gears::GOALS },
    Topic {
        name: "placement",
        rows: placement::ROWS,
        build: placement::build,
        goals: placement::GOALS,
    },
    Topic {
        name: "simulation",
        rows: simulation::ROWS,
        build: simulation::build,
        goals: simulation::GOALS,
    },
    Topic { name: "fleet", rows: fleet::ROWS, build: fleet::build, goals: fleet::GOALS },
    Topic {
        name: "explained",
        rows: explained::ROWS,
        build: explained::build,
        goals: explained::GOALS,
    },
    Topic { name: "web", rows: web::ROWS, build: web::build, goals: web::GOALS },
    Topic {
        name: "oversubscribed",
        rows: placement::OVERSUBSCRIBED,
        build: placement::build,
        goals: &[],
    },
];

/// Returns the row of this family and number.
pub(crate) fn build(family: &str, number: Option<usize>) -> Option<Row> {
    TOPICS.iter().find_map(|topic| (topic.build)(family, number))
}

/// Returns the row of a full name, such as `parked-10000`.
pub(crate) fn named(name: &str) -> Option<Row> {
    build(name, None).or_else(|| {
        let (family, number) = name.rsplit_once('-')?;
        build(family, Some(number.parse().ok()?))
    })
}

/// Returns the goals of all topics.
pub(crate) fn goals() -> Vec<&'static Goal> {
    TOPICS.iter().flat_map(|topic| topic.goals).collect()
}

/// Returns the rows of a topic.
pub(crate) fn rows_of(topic: &Topic) -> impl Iterator<Item = Row> {
    let rows = topic.rows.iter();
    rows.map(|&(family, number)| (topic.build)(family, number).expect("the list names what exists"))
}

/// Returns the rows of a run without a selection.
pub(crate) fn all_rows() -> Vec<Row> {
    TOPICS.iter().flat_map(rows_of).collect()
}

#[cfg(test)]
mod tests {
    use super::all_rows;

    #[test]
    fn every_family_has_a_section_that_says_what_it_compares() {
        let page = include_str!("../ROWS.md");
        let headings: Vec<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .flat_map(|heading| heading.split(", "))
            .collect();
        for row in all_rows() {
            let family = row.family;
            let said = headings.iter().any(|heading| {
                family
                    .strip_prefix(heading)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            });
            assert!(said, "ROWS.md has no section for {family}");
        }
    }
}
