//! `cargo xtask unsafe` checks that all unsafe code says which invariant makes it sound.
//!
//! In src/, the comment above a block or an `unsafe impl` cites an id of doc/unsafe.md, or argues
//! only from the lines around it (both are counted). Cited ids must be listed, and each listed id
//! must be cited. The module, or one around it, must open with `#![expect(unsafe_code, ..)]`. (A
//! single item may carry the attribute itself, and rustc then ensures that nothing else contains
//! unsafe code.) Outside src/ (benches, examples) a comment suffices.

use crate::outcome::Outcome;
use crate::syntax::{self, inside, is_punct, trees};
use crate::table;
use crate::tree::{Tree, module_of};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

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
        if !is_id(cells[0]) {
            check.problems.push(format!("{INDEX}:{line}: `{}` is not an id", cells[0]));
        } else if check.cited.insert(cells[0], 0).is_some() {
            check.problems.push(format!("{INDEX}:{line}: {} is listed twice", cells[0]));
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
    let library = files.iter().filter(|(file, ..)| file.starts_with("src/"));
    check.opened =
        library.filter(|(.., code)| code.opens).map(|(file, ..)| module_of(file)).collect();
    for (file, source, code) in &files {
        check.file(file, source, code);
    }
    for (id, _) in check.cited.iter().filter(|(_, count)| **count == 0) {
        check.problems.push(format!("{INDEX}: {id} is cited nowhere"));
    }
    let Check { cited, blocks, local, impls, files, all_files, elsewhere, problems, .. } = check;
    Outcome {
        cases: blocks + impls,
        summary: format!(
            "{blocks} unsafe blocks and {impls} unsafe impls in {files} of the {all_files} files of src/ ({elsewhere} elsewhere); {} of them cite one of {} invariants, {local} argue from the lines around them",
            blocks + impls - local,
            cited.len()
        ),
        problems,
    }
}

#[derive(Default)]
struct Check<'a> {
    cited: BTreeMap<&'a str, usize>,
    /// The modules whose file opens with the attribute.
    opened: BTreeSet<Vec<String>>,
    blocks: usize,
    /// The number of blocks that cite nothing, because their argument is local.
    local: usize,
    impls: usize,
    /// The number of files of src/ with unsafe code, and of all files.
    files: usize,
    all_files: usize,
    /// Blocks and impls outside src/.
    elsewhere: usize,
    problems: Vec<String>,
}

impl Check<'_> {
    fn file(&mut self, file: &str, source: &str, code: &Code<'_>) {
        let lines: Vec<&str> = source.lines().collect();
        let in_library = file.starts_with("src/");
        self.all_files += usize::from(in_library);
        // A promise may also be named where it is asked for (`# Safety`) or explained.
        for word in code.comments.values().flat_map(|text| words(text)).filter(|_| in_library) {
            if let Some(count) = self.cited.get_mut(word) {
                *count += 1;
            }
        }
        let module = module_of(file);
        let around = (1..=module.len()).any(|len| self.opened.contains(&module[..len]));
        for found in &code.found {
            let what = found.what;
            let place = format!("{file}:{}", found.line);
            let counter = match (in_library, what) {
                (false, _) => &mut self.elsewhere,
                (true, IMPL) => &mut self.impls,
                _ => &mut self.blocks,
            };
            *counter += 1;
            match reason_above(&code.comments, &lines, found.line) {
                None => self
                    .problems
                    .push(format!("{place}: this {what} has no SAFETY comment above it")),
                Some(reason) if in_library => self.citations(&place, &reason),
                Some(_) => {}
            }
            if in_library && !around && !found.opened && !code.opens_an_item {
                self.problems.push(format!(
                    "{place}: the module does not open with `#![expect(unsafe_code, reason = ..)]`"
                ));
            }
        }
        self.files += usize::from(in_library && !code.found.is_empty());
        if in_library && code.allows {
            self.problems
                .push(format!("{file}: unsafe_code is expected where it is, never allowed"));
        }
    }

    fn citations(&mut self, place: &str, reason: &str) {
        let families: BTreeSet<char> =
            self.cited.keys().filter_map(|id| id.chars().next()).collect();
        let mut known = 0;
        let mut unknown: Vec<&str> = vec![];
        for word in words(reason).filter(|w| is_id(w)) {
            if self.cited.contains_key(word) { known += 1 } else { unknown.push(word) }
        }
        self.local += usize::from(known == 0 && unknown.is_empty());
        // Words such as `U8` beside a known id are not citations.
        for word in
            unknown.iter().filter(|w| known == 0 || w.starts_with(|c| families.contains(&c)))
        {
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

const BLOCK: &str = "unsafe block";
const IMPL: &str = "unsafe impl";

/// The unsafe code of a file and its comments. It is read from tokens, so that macros are included.
#[derive(Default)]
struct Code<'a> {
    /// By line.
    comments: BTreeMap<usize, &'a str>,
    found: Vec<Unsafe>,
    /// The file opens with `#![expect(unsafe_code`.
    opens: bool,
    /// A single item is expected to contain unsafe code.
    opens_an_item: bool,
    allows: bool,
}

struct Unsafe {
    what: &'static str,
    line: usize,
    /// A module around it opens with `#![expect(unsafe_code`.
    opened: bool,
}

impl<'a> Code<'a> {
    fn read(file: &str, source: &'a str) -> Result<Code<'a>, String> {
        let tokens = syntax::tokens(file, source)?;
        let comments = syntax::comments(source, &tokens).into_iter().collect();
        let mut code = Code { comments, ..Code::default() };
        code.opens = code.tokens(&tokens, false);
        Ok(code)
    }

    /// Reads the trees between two brackets. Returns true if they open with the expectation.
    fn tokens(&mut self, tokens: &TokenStream, mut opened: bool) -> bool {
        let trees = trees(tokens);
        for at in 0..trees.len() {
            // `unsafe fn`, `unsafe trait`, `unsafe extern` and attributes promise nothing by themselves.
            match &trees[at..] {
                [TokenTree::Ident(word), next, ..] if word == "unsafe" => {
                    let what = match next {
                        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => BLOCK,
                        TokenTree::Ident(word) if word == "impl" => IMPL,
                        _ => continue,
                    };
                    let line = syntax::line(word.span());
                    self.found.push(Unsafe { what, line, opened });
                }
                [hash, bang, TokenTree::Group(attribute), ..]
                    if is_punct(hash, '#') && is_punct(bang, '!') =>
                {
                    opened |= names_unsafe_code(&inside(attribute), "expect");
                }
                [hash, TokenTree::Group(attribute), ..] if is_punct(hash, '#') => {
                    self.opens_an_item |= names_unsafe_code(&inside(attribute), "expect");
                }
                [TokenTree::Group(group), ..] => drop(self.tokens(&group.stream(), opened)),
                rest => self.allows |= names_unsafe_code(rest, "allow"),
            }
        }
        opened
    }
}

/// Returns true if the trees begin with `level(unsafe_code`.
fn names_unsafe_code(trees: &[TokenTree], level: &str) -> bool {
    let [TokenTree::Ident(word), TokenTree::Group(list), ..] = trees else { return false };
    let first = list.stream().into_iter().next();
    word == level && matches!(first, Some(TokenTree::Ident(lint)) if lint == "unsafe_code")
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
    const BOTH: &str = "#![expect(unsafe_code, reason = \"r\")]\n// SAFETY: S1, and by S2 too.\nunsafe impl Send for T {}\n";

    fn with(source: &str) -> Outcome {
        check(&Tree::of(&[("doc/unsafe.md", INDEX), ("src/both.rs", BOTH), ("src/a.rs", source)]))
    }

    #[test]
    fn documented_code_stands() {
        let source = "#![expect(unsafe_code, reason = \"r\")]
fn f() {
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
            "3 unsafe blocks and 1 unsafe impls in 2 of the 2 files of src/ (0 elsewhere); 4 of them cite one of 2 invariants, 0 argue from the lines around them"
        );
    }

    #[test]
    fn a_missing_or_idle_comment_is_found() {
        let open = "#![expect(unsafe_code, reason = \"r\")]\n";
        with(&format!("{open}fn f() {{\n    unsafe {{ g() }}\n}}"))
            .complains("src/a.rs:3: this unsafe block has no SAFETY");
        with(&format!("{open}// SAFETY: S1\nfn g() {{}}\nfn f() {{ unsafe {{ g() }} }}"))
            .complains("has no SAFETY");
        let local = with(&format!(
            "{open}// SAFETY: just mapped
unsafe impl Sync for T {{}}"
        ));
        assert!(local.stands() && local.summary.contains("1 argue from the lines"), "{local:?}");
        with(&format!("{open}// SAFETY: S1 and S9\nunsafe impl Sync for T {{}}"))
            .complains("S9 is not listed in");
    }

    #[test]
    fn macros_are_read() {
        let open = "#![expect(unsafe_code, reason = \"r\")]\n";
        with(&format!("{open}macro_rules! m {{\n    () => {{ unsafe {{ g() }} }}\n}}"))
            .complains("src/a.rs:3: this unsafe block has no SAFETY");
        with(&format!("{open}m!($\nunsafe impl Send for $t {{}})"))
            .complains("src/a.rs:3: this unsafe impl has no SAFETY");
    }

    #[test]
    fn the_module_has_to_say_so_at_its_top() {
        with("// SAFETY: S1\nunsafe impl Sync for T {}").complains("does not open with");
        with("mod a { #![expect(unsafe_code)] }\n// SAFETY: S1\nunsafe impl Sync for T {}")
            .complains("does not open with");
        with("#![allow(unsafe_code)]\n").complains("never allowed");
        let item = "#[expect(unsafe_code)]\n// SAFETY: S1\nunsafe impl Sync for T {}";
        assert!(with(item).stands());
        let parent = [
            ("src/c/mod.rs", "#![expect(unsafe_code)]"),
            ("src/c/d.rs", "// SAFETY: S1\nunsafe impl Sync for T {}"),
        ];
        assert!(
            check(&Tree::of(
                &[&[("doc/unsafe.md", INDEX), ("src/both.rs", BOTH)], &parent[..]].concat()
            ))
            .stands()
        );
        let inline =
            "mod a {\n#![expect(unsafe_code)]\n// SAFETY: S1\nunsafe impl Sync for T {}\n}";
        assert!(with(inline).stands());
    }

    #[test]
    fn an_invariant_that_nobody_cites_is_found() {
        let index = format!("{INDEX}| S3 | buffers |\n| S1 | twice |\n| why | no id |\n");
        let outcome = check(&Tree::of(&[("doc/unsafe.md", &index), ("src/both.rs", BOTH)]));
        outcome.complains("S3 is cited nowhere");
        outcome.complains("S1 is listed twice");
        outcome.complains("`why` is not an id");
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
        assert!(
            !check(&Tree::of(&[("doc/unsafe.md", "| id | invariant |\n"), ("src/a.rs", "")]))
                .stands()
        );
    }
}
