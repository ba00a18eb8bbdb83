//! `cargo xtask unsafe` checks that all unsafe code says which invariant makes it sound.
//!
//! In src/, the comment above a block or an `unsafe impl` cites an id of doc/unsafe.md, or argues
//! only from the lines around it. It does not refer to the comment above it. Cited ids must be
//! listed, and each listed id must be cited. Outside src/ (benches, examples) a comment suffices.
//!
//! clippy checks the comments of the code that is compiled. This check reads all code, that of
//! other processors included. rustc ensures that only modules which expect unsafe code have it,
//! unless an attribute allows it.

use crate::outcome::Outcome;
use crate::syntax::{self, trees};
use crate::table;
use crate::tree::Tree;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;

const INDEX: &str = "doc/unsafe.md";
const HEADING: [&str; 2] = ["id", "invariant"];

/// Reads the index and the sources, and compares them.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let index = match tree.text(INDEX) {
        Ok(index) => index,
        Err(problem) => return Outcome::broken(problem),
    };
    let mut check = Check::default();
    for (line, cells) in table::rows(index, &HEADING) {
        if !is_id(cells[0]) || check.cited.insert(cells[0], 0).is_some() {
            check.problems.push(format!("{INDEX}:{line}: {} is no new id", cells[0]));
        }
    }
    let mut files = vec![];
    for (file, source) in tree.matching("", ".rs").filter(|(file, source)| {
        // In src/ the comments of other files count as well.
        !file.ends_with("/loom_models.rs")
            && (file.starts_with("src/") || source.contains("unsafe"))
    }) {
        match Code::read(file, source) {
            Ok(code) => files.push((file, source, code)),
            Err(problem) => check.problems.push(problem),
        }
    }
    for (file, source, code) in &files {
        check.file(file, source, code);
    }
    for (id, _) in check.cited.iter().filter(|(_, count)| **count == 0) {
        check.problems.push(format!("{INDEX}: {id} is cited nowhere"));
    }
    let Check { cited, cases, local, files, problems } = check;
    Outcome {
        cases,
        summary: format!(
            "{cases} unsafe blocks and impls in {files} files of src/; {} of them cite one of {} invariants, {local} argue from the lines around them",
            cases - local,
            cited.len()
        ),
        problems,
    }
}

#[derive(Default)]
struct Check<'a> {
    cited: BTreeMap<&'a str, usize>,
    /// The number of blocks and impls in src/.
    cases: usize,
    /// The number of blocks that cite nothing, because their argument is local.
    local: usize,
    /// The number of files of src/ with unsafe code.
    files: usize,
    problems: Vec<String>,
}

impl Check<'_> {
    fn file(&mut self, file: &str, source: &str, code: &Code<'_>) {
        let lines: Vec<&str> = source.lines().collect();
        let in_library = file.starts_with("src/");
        // A promise may also be named where it is asked for (`# Safety`) or explained.
        for word in code.comments.values().flat_map(|text| words(text)).filter(|_| in_library) {
            if let Some(count) = self.cited.get_mut(word) {
                *count += 1;
            }
        }
        for &(what, line) in &code.found {
            let place = format!("{file}:{line}");
            self.cases += usize::from(in_library);
            match reason_above(&code.comments, &lines, line) {
                None => self
                    .problems
                    .push(format!("{place}: this {what} has no SAFETY comment above it")),
                Some(reason) if in_library => self.citations(&place, &reason),
                Some(_) => {}
            }
        }
        self.files += usize::from(in_library && !code.found.is_empty());
        if in_library && source.contains("allow(unsafe_code") {
            self.problems
                .push(format!("{file}: unsafe_code is expected where it is, never allowed"));
        }
    }

    fn citations(&mut self, place: &str, reason: &str) {
        if reason.contains("as above") || reason.contains("as for ") {
            self.problems
                .push(format!("{place}: the comment names another one instead of the reason"));
        }
        // A word such as `U8` is of no family, and no citation.
        let is_family = |word: &str| self.cited.keys().any(|id| id[..1] == word[..1]);
        let cited: Vec<&str> =
            words(reason).filter(|word| is_id(word) && is_family(word)).collect();
        self.local += usize::from(cited.is_empty());
        for word in cited.iter().filter(|word| !self.cited.contains_key(*word)) {
            self.problems.push(format!("{place}: {word} is not listed in {INDEX}"));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

/// Returns true for `S1` and `B12`: one capital letter and a number.
fn is_id(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase())
        && word.len() > 1
        && chars.all(|c| c.is_ascii_digit())
}

/// The text of the SAFETY comment that belongs to the statement on this line.
fn reason_above(comments: &BTreeMap<usize, &str>, lines: &[&str], line: usize) -> Option<String> {
    let is_comment = |line: usize| {
        comments.contains_key(&line) && lines[line - 1].trim_start().starts_with(['/', '*'])
    };
    let mut above = line - 1;
    // The statement may have begun some lines above, and attributes may be in between.
    while above > 0 && !is_comment(above) {
        let code = lines[above - 1].trim();
        let ends_there = code.ends_with([';', '{', '}', ',']) || code.is_empty();
        if ends_there && !code.starts_with("#[") {
            return None;
        }
        above -= 1;
    }
    let mut reason = vec![];
    while above > 0 && is_comment(above) {
        reason.push(comments[&above]);
        above -= 1;
    }
    reason.reverse();
    let reason = reason.join(" ");
    reason.find("SAFETY:").map(|at| reason[at..].to_owned())
}

/// The unsafe code of a file and its comments. It is read from tokens, so that macros are included.
#[derive(Default)]
struct Code<'a> {
    /// By line.
    comments: BTreeMap<usize, &'a str>,
    /// What it is, and its line.
    found: Vec<(&'static str, usize)>,
}

impl<'a> Code<'a> {
    fn read(file: &str, source: &'a str) -> Result<Code<'a>, String> {
        let tokens = syntax::tokens(file, source)?;
        let comments = syntax::comments(source, &tokens).into_iter().collect();
        let mut code = Code { comments, found: vec![] };
        code.tokens(&tokens);
        Ok(code)
    }

    fn tokens(&mut self, tokens: &TokenStream) {
        let trees = trees(tokens);
        for at in 0..trees.len() {
            // `unsafe fn`, `unsafe trait`, `unsafe extern` and attributes promise nothing by
            // themselves.
            match &trees[at..] {
                [TokenTree::Ident(word), next, ..] if word == "unsafe" => {
                    let what = match next {
                        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                            "unsafe block"
                        }
                        TokenTree::Ident(word) if word == "impl" => "unsafe impl",
                        _ => continue,
                    };
                    self.found.push((what, syntax::line(word.span())));
                }
                [TokenTree::Group(group), ..] => self.tokens(&group.stream()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::unnecessary_safety_comment,
    reason = "clippy takes the sources in strings below for comments"
)]
mod tests {
    use super::check;
    use crate::outcome::Outcome;
    use crate::tree::Tree;

    const INDEX: &str = "| id | invariant |\n|---|---|\n| S1 | stacks |\n| S2 | threads |\n";
    const BOTH: &str = "// SAFETY: S1, and by S2 too.\nunsafe impl Send for T {}\n";

    fn with(source: &str) -> Outcome {
        check(&Tree::of(&[("doc/unsafe.md", INDEX), ("src/both.rs", BOTH), ("src/a.rs", source)]))
    }

    #[test]
    fn documented_code_stands() {
        let source = "fn f() {
    // SAFETY: what the pointer points to
    // lives by S1.
    let x =
        unsafe { *p };
    g(
        // SAFETY: S2.
        #[inline]
        unsafe { h() },
    );
    /* SAFETY: S2 */
    unsafe { h() }
}
/// # Safety
/// S1
unsafe fn h() { \"unsafe { }\" }";
        let outcome = with(source);
        assert_eq!(outcome.problems, [""; 0]);
        assert_eq!(
            outcome.summary,
            "4 unsafe blocks and impls in 2 files of src/; 4 of them cite one of 2 invariants, 0 argue from the lines around them"
        );
    }

    #[test]
    fn a_missing_or_idle_comment_is_found() {
        with("fn f() {\n    unsafe { g() }\n}")
            .complains("src/a.rs:2: this unsafe block has no SAFETY");
        with("// SAFETY: S1\nfn g() {}\nfn f() { unsafe { g() } }").complains("has no SAFETY");
        let local = with("// SAFETY: just mapped\nunsafe impl Sync for T {}");
        assert!(local.stands() && local.summary.contains("1 argue from the lines"), "{local:?}");
        with("// SAFETY: S1 and S9\nunsafe impl Sync for T {}").complains("S9 is not listed in");
    }

    #[test]
    fn macros_are_read() {
        with("macro_rules! m {\n    () => { unsafe { g() } }\n}")
            .complains("src/a.rs:2: this unsafe block has no SAFETY");
        with("m!($\nunsafe impl Send for $t {})")
            .complains("src/a.rs:2: this unsafe impl has no SAFETY");
    }

    #[test]
    fn unsafe_code_is_never_allowed_and_a_comment_has_its_own_reason() {
        with("#![allow(unsafe_code)]\n").complains("never allowed");
        with("// SAFETY: as above, S1.\nunsafe impl Sync for T {}")
            .complains("src/a.rs:2: the comment names another one instead of the reason");
    }

    #[test]
    fn an_invariant_that_nobody_cites_is_found() {
        let index = format!("{INDEX}| S3 | buffers |\n| S1 | twice |\n| why | no id |\n");
        let outcome = check(&Tree::of(&[("doc/unsafe.md", &index), ("src/both.rs", BOTH)]));
        outcome.complains("S3 is cited nowhere");
        outcome.complains("S1 is no new id");
        outcome.complains("why is no new id");
    }

    #[test]
    fn elsewhere_the_comment_alone_will_do() {
        let bench = |source| {
            check(&Tree::of(&[
                ("doc/unsafe.md", INDEX),
                ("src/both.rs", BOTH),
                ("bench/a.rs", source),
            ]))
        };
        assert!(bench("// SAFETY: single-threaded\nunsafe impl Sync for T {}").stands());
        bench("unsafe impl Sync for T {}")
            .complains("bench/a.rs:1: this unsafe impl has no SAFETY");
    }

    #[test]
    fn nothing_read_is_a_failure() {
        assert!(!check(&Tree::of(&[])).stands());
        let empty = [("doc/unsafe.md", "| id | invariant |\n"), ("src/a.rs", "")];
        assert!(!check(&Tree::of(&empty)).stands());
    }
}
