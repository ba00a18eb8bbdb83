//! `cargo xtask behaviour` checks that the tables under doc/behaviour/ are what the tests say.
//!
//! A row is written in the doc comment of a test:
//!
//! ```text
//! /// - given: a scope with parked children
//! /// - when: its body ends
//! /// - then: it returns after the last child has ended
//! #[test]
//! fn scope_01_waits_for_children() {
//! ```
//!
//! The row's id is the test's name without `_slow` at its end, and has the form `topic_07_words`.
//! The row belongs to the page doc/behaviour/topic.md, whose table `--write` writes. A row may have
//! more tests (other workers, other drivers). Their names begin with its id, and they have no list.
//! If no test's name is short enough to be the id, the list begins with an item such as
//! ``- row: `scope_01_waits` ``. Other pages may only name existing rows,
//! and all pages may only link to existing files.

mod pages;
mod rows;

use self::rows::{Row, Test, Tests, belongs, number};
use crate::outcome::Outcome;
use crate::syntax;
use crate::table;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::Visit;

const FOLDER: &str = "doc/behaviour/";

/// Compares the pages with the tests.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let Read { mut outcome, pages } = read(tree);
    for (file, text) in pages {
        let old = tree.text(&file).unwrap_or_default();
        if old != text {
            outcome.problems.push(format!(
                "{file}: the table is not what the tests say; \
                 `cargo xtask behaviour --write` writes it"
            ));
        }
    }
    outcome
}

/// Writes the pages, unless the tests have problems.
pub(crate) fn write(root: &Path, tree: &Tree) -> Outcome {
    let Read { mut outcome, pages } = read(tree);
    if outcome.problems.is_empty() {
        for (file, text) in pages {
            if let Err(error) = fs::write(root.join(&file), text) {
                outcome.problems.push(format!("{file}: {error}"));
            }
        }
    }
    outcome
}

/// What the tests say.
struct Read {
    outcome: Outcome,
    /// The paths of the pages, and their texts.
    pages: Vec<(String, String)>,
}

fn read(tree: &Tree) -> Read {
    let mut problems = vec![];
    let mut tests = vec![];
    for (file, source) in tree.matching("", ".rs") {
        let mut carrying_ids = Tests::default();
        match syntax::parse(file, source) {
            Ok(parsed) => carrying_ids.visit_file(&parsed),
            Err(problem) => problems.push(problem),
        }
        for (line, problem) in carrying_ids.problems {
            problems.push(format!("{file}:{line}: {problem}"));
        }
        tests.extend(carrying_ids.found.into_iter().map(|test| (file, test)));
    }

    // The key is `topic_07`, which must be unique.
    let mut rows: BTreeMap<&str, &Row> = BTreeMap::new();
    for (file, Test { name, line, row, .. }) in &tests {
        let Some(row) = row else { continue };
        let key = number(&row.id).expect("an id has a number");
        if let Some(other) = rows.insert(key, row) {
            problems.push(format!(
                "{file}:{line}: {name} has a row, and another test has the row {}",
                other.id
            ));
        }
    }
    for (file, Test { name, line, ignored, .. }) in &tests {
        let row = number(name).and_then(|key| rows.get(key));
        if !row.is_some_and(|row| belongs(name, &row.id)) {
            problems.push(format!(
                "{file}:{line}: {name} is named like a row, and no test of its row has the list \
                 `- given: ..`, `- when: ..`, `- then: ..` in its doc comment"
            ));
        } else if *ignored {
            problems.push(format!("{file}:{line}: {name} is ignored, so it shows nothing"));
        }
    }

    for (file, text) in tree.matching("", ".md").filter(|(file, _)| !file.starts_with(FOLDER)) {
        for id in table::code(text).filter(|code| number(code).is_some()) {
            if number(id).and_then(|key| rows.get(key)).is_none_or(|row| row.id != id) {
                problems.push(format!("{file}: no row in {FOLDER} is called {id}"));
            }
        }
    }

    for (file, text) in tree.matching("", ".md") {
        let lost = links(text).filter(|target| !tree.has(&from(file, target)));
        problems.extend(lost.map(|target| format!("{file}: the link to {target} leads nowhere")));
    }

    let topic = |key: &str| key.rsplit_once('_').map_or("", |(topic, _)| topic).to_owned();
    let mut topics: BTreeSet<String> = rows.keys().map(|key| topic(key)).collect();
    let mut pages = vec![];
    for (file, text) in
        tree.matching(FOLDER, ".md").filter(|(file, _)| !file.ends_with("README.md"))
    {
        let of = file.strip_prefix(FOLDER).and_then(|f| f.strip_suffix(".md")).unwrap_or(file);
        let its_rows = rows.iter().filter(|(key, _)| topic(key) == of).map(|(_, row)| *row);
        if !topics.remove(of) {
            problems.push(format!("{file}: no test has a row `{of}_01_words`"));
        }
        match pages::with_table(text, its_rows) {
            Some(text) => pages.push((file.to_owned(), text)),
            None => problems.push(format!("{file}: the line `{}` is missing", pages::MARK)),
        }
    }
    for topic in &topics {
        problems.push(format!("{FOLDER}{topic}.md is missing, which would list rows `{topic}_..`"));
    }

    let summary = format!("{} rows in {} topics, {} tests", rows.len(), pages.len(), tests.len());
    Read { outcome: Outcome { cases: rows.len(), summary, problems }, pages }
}

/// Returns the targets of the links to files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    // `crate::scope` is a link of rustdoc's, which checks it.
    targets.filter(|target| !target.is_empty() && !target.contains([':', ' ', '\n']))
}

/// Returns the path of a link's target from the root.
fn from(file: &str, target: &str) -> String {
    let mut path: Vec<&str> = file.split('/').collect();
    path.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => _ = path.pop(),
            "." => {}
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests;
