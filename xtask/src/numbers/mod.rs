//! The numbers of bench/RESULTS.md, its plot, and the README: the newest result of each row on each
//! processor.
//!
//! `bench/results/<processor>/` holds what `ecru-bench --save` has written. A result counts if it
//! was made from a clean tree, in the profile `release`, with nine rounds. Those of the first
//! edition (`first-edition/`) have five, and count until a row has a newer result.

mod plot;
mod read;
mod table;

use crate::outcome::Outcome;
use std::path::Path;
use std::{fs, io};

/// The generated part of a page is between these two lines.
const BEGIN: &str = "<!-- numbers: written by `cargo xtask numbers --write` -->";
const END: &str = "<!-- end of numbers -->";

/// Runs `cargo xtask numbers`, which checks that the numbers are those of the newest results. With
/// `write` it updates them.
pub(crate) fn check(root: &Path, write: bool) -> Outcome {
    compare(root, write).unwrap_or_else(Outcome::broken)
}

fn compare(root: &Path, write: bool) -> Result<Outcome, String> {
    let text = |file: &str| {
        fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let mut files = vec![];
    collect(&root.join("bench/results"), "", &mut files).map_err(|error| error.to_string())?;
    let (runs, mut problems) = read::runs(&files);
    let newest = read::newest(&runs);
    let lines = table::lines(&newest, &text("bench/row-names.txt")?)?;
    // The README begins with wins, and the page of results with losses.
    let few: Vec<_> = lines.iter().filter(|line| line.in_readme).rev().cloned().collect();
    let few = table::table(&newest, &few, false);
    let all = table::counts(&newest) + "\n" + &table::table(&newest, &lines, true);
    for (file, numbers) in
        [("README.md", Some(&few)), ("bench/RESULTS.md", Some(&all)), ("bench/results.svg", None)]
    {
        let now = text(file).unwrap_or_default();
        let right = match numbers {
            Some(numbers) => replace(file, &now, numbers)?,
            None => plot::plot(&newest, &lines),
        };
        if write {
            fs::write(root.join(file), right).map_err(|error| format!("{file}: {error}"))?;
        } else if right != now {
            problems.push(format!(
                "{file}: its numbers are not those of the newest results under bench/results; \
                 `cargo xtask numbers --write` writes them"
            ));
        }
    }
    let (cases, processors) = (lines.len(), newest.len());
    let summary = format!("{cases} rows of {} results, {processors} processors", runs.len());
    Ok(Outcome { cases, summary, problems })
}

/// Collects every result file below a folder: its path below the first folder, and its text.
fn collect(folder: &Path, below: &str, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), files)?;
        } else if name.ends_with(".json") {
            files.push((name, fs::read_to_string(entry.path())?));
        }
    }
    files.sort();
    Ok(())
}

/// Replaces the numbers between the two marks.
fn replace(file: &str, page: &str, numbers: &str) -> Result<String, String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.ok_or_else(|| format!("{file}: the lines `{BEGIN}` and `{END}` are missing"))?;
    Ok(format!("{before}{BEGIN}\n{numbers}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let replaced = replace("a", &page, "new\n").unwrap();
        assert_eq!(replaced, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(replace("a", &replaced, "new\n").unwrap(), replaced);
        assert!(replace("a", "nothing", "new").is_err());
    }
}
