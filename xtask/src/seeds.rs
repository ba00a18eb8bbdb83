//! `cargo xtask seeds` checks that doc/seeds.md says what became of every capability of the seeds,
//! and that every link and name in it exists.

use crate::outcome::Outcome;
use crate::table;
use crate::tree::Tree;
use std::collections::BTreeSet;

const PAGE: &str = "doc/seeds.md";
const HEADING: [&str; 5] = ["capability", "here", "ecru", "described in", "shown by"];

/// Reads the page and looks up everything that it names.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let text = match tree.text(PAGE) {
        Ok(text) => text,
        Err(problem) => return Outcome::broken(problem),
    };
    let functions = functions(tree);
    let mut problems = vec![];
    for (line, text) in text.lines().enumerate() {
        for target in links(text).filter(|target| !leads_somewhere(tree, target)) {
            problems.push(format!("{PAGE}:{}: {target} is not there", line + 1));
        }
    }
    let rows = table::rows(text, &HEADING);
    let (mut provided, mut others) = (0, 0);
    for (line, cells) in &rows {
        let mut complain = |what: &str| problems.push(format!("{PAGE}:{line}: {what}"));
        let [_, here, _, described, shown] = cells[..] else {
            complain("a row has five cells");
            continue;
        };
        let says_why =
            |verdict: &str| here.strip_prefix(verdict).is_some_and(|why| !why.trim().is_empty());
        if here == "same" || says_why("different:") {
            provided += 1;
            if links(described).next().is_none() {
                complain("it does not say where this is described");
            }
            if table::code(shown).next().is_none() {
                complain("nothing shows it");
            }
        } else if says_why("not provided:") || says_why("not yet:") {
            others += 1;
        } else {
            complain("neither same, nor different:, not provided: or not yet: and why");
        }
        for name in table::code(shown) {
            let is_there = match name.strip_prefix("examples/") {
                Some(_) => is_in(tree, name),
                None => functions.range(name..).next().is_some_and(|f| f.starts_with(name)),
            };
            if !is_there {
                complain(&format!("{name} is neither a test nor a program"));
            }
        }
    }
    let summary = format!("{provided} capabilities provided, {others} not");
    Outcome { cases: rows.len(), summary, problems }
}

/// Returns the names of all functions, sorted, because a name in the table may be the beginning of
/// one.
fn functions(tree: &Tree) -> BTreeSet<&str> {
    tree.matching("", ".rs")
        .flat_map(|(_, text)| text.split("fn ").skip(1))
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""))
        .filter(|name| !name.is_empty())
        .collect()
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns whether a link's target exists. Targets are relative to the page's folder.
fn leads_somewhere(tree: &Tree, target: &str) -> bool {
    let path = match target.strip_prefix("../") {
        Some(path) => path.to_owned(),
        None => format!("doc/{target}"),
    };
    is_in(tree, &path)
}

/// Returns whether there is such a file, or a folder with files.
fn is_in(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    tree.matching(path, "").any(|(file, _)| file == path || file.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::outcome::Outcome;
    use crate::tree::Tree;

    fn with(rows: &str) -> Outcome {
        let heading =
            "| capability | here | ecru | described in | shown by |\n|---|---|---|---|---|\n";
        let page = format!("{heading}{rows}\n");
        check(&Tree::of(&[
            ("doc/seeds.md", &page),
            ("src/scope/mod.rs", "//! Scopes."),
            ("examples/hello.rs", "fn main() {}"),
            ("tests/a.rs", "#[test]\nfn scope_01_waits_on_two() {}"),
        ]))
    }

    #[track_caller]
    fn complains(row: &str, about: &str) {
        with(row).complains(about);
    }

    #[test]
    fn what_is_there_stands() {
        let outcome = with(
            "| a | same | `b` | [c](../src/scope/mod.rs) | `scope_01_waits` `examples/hello.rs` |\n| a | not yet: soon | | | |",
        );
        assert_eq!(outcome.problems, [""; 0]);
        assert_eq!(outcome.cases, 2);
        assert!(with("| a | different: why | | [c](../src/scope) | `scope_01_waits` |").stands());
    }

    #[test]
    fn what_is_missing_is_found() {
        complains("| a | same | | [c](../src/gone.rs) | `scope_01_waits` |", "../src/gone.rs");
        complains("| a | same | | [c](../src/scope) | `scope_02_gone` |", "scope_02_gone");
        complains("| a | same | | [c](../src/scope) | `examples/gone.rs` |", "examples/gone.rs");
        complains("| a | same | | [c](../src/scope) | |", "nothing shows it");
        complains("| a | same | | | `scope_01_waits` |", "where this is described");
        complains("| a | different: | | [c](../src/scope) | `scope_01_waits` |", "neither same");
        complains("| a | yes | | [c](../src/scope) | `scope_01_waits` |", "neither same");
        complains("| a | same |", "five cells");
    }

    #[test]
    fn nothing_read_is_a_failure() {
        assert!(!check(&Tree::of(&[])).stands());
        assert!(!check(&Tree::of(&[("doc/seeds.md", "no table")])).stands());
    }
}
