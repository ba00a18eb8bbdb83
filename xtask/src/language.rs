//! `cargo xtask language` counts the words and the long lines that ecru keeps out of its comments
//! and documents.
//!
//! A low count does not make good prose. It only shows that old habits have not come back.

use crate::outcome::Outcome;
use crate::tree::Tree;

/// Words that make a person out of a task, and phrases that readers must decode.
const WORDS: [&str; 17] = [
    "who",
    "whoever",
    "whom",
    "somebody",
    "nobody",
    "everybody",
    "anybody",
    "oneself",
    "so many",
    "none:",
    "he",
    "his",
    "the like",
    "as ever",
    "at home",
    "such a one",
    "as said",
];

/// The number of these words that may stay: quotations, and std's own wording.
const IN_SOURCES: usize = 60;
const IN_DOCUMENTS: usize = 40;

/// The longest comment line of the library.
const COLUMNS: usize = 100;

/// Counts them all.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut problems = vec![];
    let (mut lines, mut in_sources) = (0, vec![]);
    for (path, text) in tree.matching("src/", ".rs") {
        let mut in_example = false;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else { continue };
            lines += 1;
            in_sources.extend(found(path, number, comment));
            let prose = comment.trim_start_matches(['/', '!']);
            in_example ^= prose.trim_start().starts_with("```");
            // A row of a table has no place to break.
            let wraps = !in_example && !prose.contains("| ");
            if wraps && line.chars().count() > COLUMNS {
                let place = number + 1;
                problems.push(format!("{path}:{place}: a comment longer than {COLUMNS} columns"));
            }
        }
    }
    let documents: Vec<_> = tree
        .matching("", ".md")
        .filter(|(path, _)| !path.starts_with("bench/results/"))
        .flat_map(|(path, text)| {
            text.lines().enumerate().flat_map(move |(number, line)| found(path, number, line))
        })
        .collect();
    let summary = format!(
        "{lines} lines of comments: {} words to avoid, and {} in documents",
        in_sources.len(),
        documents.len()
    );
    for (places, limit) in [(in_sources, IN_SOURCES), (documents, IN_DOCUMENTS)] {
        if places.len() > limit {
            problems.extend(places);
        }
    }
    Outcome { cases: lines, summary, problems }
}

/// Returns the comment of a line that is one.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.starts_with("//").then_some(line)
}

/// Names each word of the list in a line.
fn found(path: &str, number: usize, line: &str) -> impl Iterator<Item = String> {
    let line = line.to_lowercase();
    WORDS.into_iter().flat_map(move |word| {
        let place = format!("{path}:{}: `{word}`", number + 1);
        std::iter::repeat_n(place, times(&line, word)).collect::<Vec<_>>()
    })
}

/// Counts a word that no letter, digit or apostrophe touches.
fn times(line: &str, word: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    line.match_indices(word)
        .filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_words_may_stay_and_many_are_listed() {
        let one = "/// Whoever waits, and the task whose turn it is.\n";
        let few = Tree::of(&[("src/a.rs", one)]);
        assert!(check(&few).stands());
        assert!(check(&few).summary.contains(": 1 words"));
        let many = one.repeat(IN_SOURCES + 1);
        check(&Tree::of(&[("src/a.rs", &many)])).complains("src/a.rs:61: `whoever`");
    }

    #[test]
    fn code_is_not_prose() {
        let code = format!("let nobody = 1;\n{}// done\n", "let who = 2;\n".repeat(100));
        assert!(check(&Tree::of(&[("src/a.rs", &code)])).stands());
    }

    #[test]
    fn documents_have_a_limit_of_their_own() {
        let page = "He waits.\n".repeat(IN_DOCUMENTS + 1);
        let files = [("src/a.rs", "// A comment.\n"), ("doc/a.md", &page)];
        check(&Tree::of(&files)).complains("doc/a.md:1: `he`");
    }

    #[test]
    fn long_comments_are_named() {
        let line = format!("// {}\n", "word ".repeat(20));
        check(&Tree::of(&[("src/a.rs", &line)])).complains("longer than 100 columns");
        let example = format!("/// ```\n{}/// ```\n", line.replace("//", "///"));
        assert!(check(&Tree::of(&[("src/a.rs", &example)])).stands());
    }
}
