//! The numbers of the README: the newest result of each row on each processor, as two lists.
//!
//! `bench/results/<processor>/` holds what `ecru-bench --save` has written. A result counts if it
//! was made from a clean tree, in the profile `release`, with nine rounds. Those of the first
//! edition (`first-edition/`) have five, and count until a row has a newer result.

mod lists;
mod read;

use crate::outcome::Outcome;
use std::path::Path;
use std::{fs, io};

/// The lists are between these two lines.
const BEGIN: &str = "<!-- numbers: written by `cargo xtask numbers --write` -->";
const END: &str = "<!-- end of numbers -->";

/// Runs `cargo xtask numbers`, which checks that the README's lists are those of the newest
/// results. With `write` it updates them.
pub(crate) fn check(root: &Path, write: bool) -> Outcome {
    let headline = include_str!("../../data/headline-rows.txt");
    match compare(root, headline, write) {
        Ok(outcome) => outcome,
        Err(problem) => Outcome::broken(problem),
    }
}

fn compare(root: &Path, headline: &str, write: bool) -> Result<Outcome, String> {
    let mut files = vec![];
    collect(&root.join("bench/results"), &mut files).map_err(|error| error.to_string())?;
    let (runs, mut problems) = read::runs(&files);
    let newest = read::newest(&runs);
    let lists = lists::of(&newest, headline);
    let path = root.join("README.md");
    let readme = fs::read_to_string(&path).map_err(|error| format!("README.md: {error}"))?;
    let replaced = replace(&readme, &lists)?;
    if write {
        fs::write(&path, &replaced).map_err(|error| format!("README.md: {error}"))?;
    } else if replaced != readme {
        problems.push(
            "README.md: its numbers are not those of the newest results under bench/results; \
             `cargo xtask numbers --write` writes them"
                .into(),
        );
    }
    let cases = newest.iter().map(|processor| processor.rows.len()).sum();
    let processors = newest.len();
    let summary = format!("{cases} numbers of {} results, {processors} processors", runs.len());
    Ok(Outcome { cases, summary, problems })
}

/// Collects every result file below a folder: its relative path, and its text.
fn collect(folder: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
    fn below(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                below(root, &path, files)?;
            } else if path.extension().is_some_and(|end| end == "json") {
                let name = path.strip_prefix(root).expect("it was found below the root");
                let name = name.to_string_lossy().replace('\\', "/");
                files.push((name, fs::read_to_string(&path)?));
            }
        }
        Ok(())
    }
    below(folder, folder, files)?;
    files.sort();
    Ok(())
}

/// Replaces the lists between the two marks.
fn replace(readme: &str, lists: &str) -> Result<String, String> {
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.ok_or_else(|| format!("README.md: the lines `{BEGIN}` and `{END}` are missing"))?;
    Ok(format!("{before}{BEGIN}\n\n{lists}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let readme = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let replaced = replace(&readme, "new\n").unwrap();
        assert_eq!(replaced, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(replace(&replaced, "new\n").unwrap(), replaced);
        assert!(replace("nothing", "new").is_err());
    }
}
