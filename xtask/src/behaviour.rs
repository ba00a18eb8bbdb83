//! `cargo xtask behaviour` checks that the tables under doc/behaviour/ and the tests agree.
//!
//! A row's id has the form `topic_07_words`, and its topic is the file's name. A test belongs to
//! the row whose id begins the test's name. One row may have several tests (other workers, other
//! drivers). Other pages may only name existing rows.

use crate::outcome::Outcome;
use crate::syntax::{self, has_word};
use crate::table;
use crate::tree::Tree;
use proc_macro2::{Ident, TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemFn, Macro, MacroDelimiter, Meta};

const FOLDER: &str = "doc/behaviour/";
const HEADING: [&str; 4] = ["id", "given", "when", "then"];

/// Reads the tables and the tests, and compares them.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let mut problems = vec![];
    // The key is `topic_07`, which must be unique. The value is the whole id, and the number of
    // tests with it.
    let mut rows: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut topics = 0;
    for (file, text) in
        tree.matching(FOLDER, ".md").filter(|(file, _)| !file.ends_with("README.md"))
    {
        let topic = file.strip_prefix(FOLDER).and_then(|f| f.strip_suffix(".md")).unwrap_or(file);
        let table = table::rows(text, &HEADING);
        topics += 1;
        if table.is_empty() {
            problems.push(format!("{file}: no table `| {} |`", HEADING.join(" | ")));
        }
        for (line, cells) in table {
            let id = table::code(cells[0]).next().unwrap_or(cells[0]);
            match number(id).filter(|key| key.rsplit_once('_').is_some_and(|(t, _)| t == topic)) {
                None => problems
                    .push(format!("{file}:{line}: `{id}` is not of the form `{topic}_07_words`")),
                Some(_) if cells.len() != HEADING.len() || cells.iter().any(|c| c.is_empty()) => {
                    problems.push(format!("{file}:{line}: {id} needs four filled cells"));
                }
                Some(key) => {
                    if let Some((other, _)) = rows.insert(key, (id, 0)) {
                        problems.push(format!("{file}:{line}: {id} has the number of {other}"));
                    }
                }
            }
        }
    }
    for (file, text) in tree.matching("", ".md").filter(|(file, _)| !file.starts_with(FOLDER)) {
        for id in table::code(text).filter(|code| number(code).is_some()) {
            if number(id).and_then(|key| rows.get(key)).is_none_or(|(row, _)| *row != id) {
                problems.push(format!("{file}: no row in {FOLDER} is called {id}"));
            }
        }
    }
    let mut tests = 0;
    for (file, source) in tree.matching("", ".rs") {
        let mut carrying_ids = Tests::default();
        match syntax::parse(file, source) {
            Ok(parsed) => carrying_ids.visit_file(&parsed),
            Err(problem) => problems.push(problem),
        }
        for test in carrying_ids.found {
            let place = format!("{file}:{}", test.line);
            match number(&test.name)
                .and_then(|key| rows.get_mut(key))
                .filter(|(id, _)| test.name.starts_with(*id))
            {
                None => problems.push(format!(
                    "{place}: no row in {FOLDER} has the id that {} begins with",
                    test.name
                )),
                Some(_) if test.ignored => {
                    problems.push(format!("{place}: {} is ignored, so it shows nothing", test.name))
                }
                Some((_, count)) => {
                    *count += 1;
                    tests += 1;
                }
            }
        }
    }
    for (id, _) in rows.values().filter(|(_, count)| *count == 0) {
        problems.push(format!("{id} has no test"));
    }
    let shown = rows.values().filter(|(_, count)| *count > 0).count();
    Outcome {
        cases: rows.len(),
        summary: format!(
            "{} rows in {topics} topics, {shown} of them shown by {tests} tests",
            rows.len()
        ),
        problems,
    }
}

/// The test functions that are named as rows are: those with a `test` attribute, and those inside a macro's braces, which
/// put it there.
#[derive(Default)]
struct Tests {
    found: Vec<Test>,
    in_macro: bool,
}

struct Test {
    name: String,
    line: usize,
    ignored: bool,
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if self.in_macro || item.attrs.iter().any(|attribute| has(attribute, "test")) {
            self.note(&item.sig.ident, item.attrs.iter().any(|attribute| has(attribute, "ignore")));
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        let outside = self.in_macro;
        self.in_macro |= matches!(called.delimiter, MacroDelimiter::Brace(_));
        match called.parse_body::<syn::File>() {
            Ok(items) => self.visit_file(&items),
            Err(_) => self.tokens(&called.tokens),
        }
        self.in_macro = outside;
    }
}

impl Tests {
    fn note(&mut self, name: &Ident, ignored: bool) {
        let line = syntax::line(name.span());
        let name = name.to_string();
        if number(&name).is_some() {
            self.found.push(Test { name, line, ignored });
        }
    }

    /// Searches a macro's arguments for functions if they are not plain items.
    fn tokens(&mut self, tokens: &TokenStream) {
        let trees = syntax::trees(tokens);
        for (at, tree) in trees.iter().enumerate() {
            match (tree, trees.get(at + 1)) {
                (TokenTree::Group(group), _) => self.tokens(&group.stream()),
                (TokenTree::Ident(word), Some(TokenTree::Ident(name)))
                    if word == "fn" && self.in_macro =>
                {
                    self.note(name, false);
                }
                _ => {}
            }
        }
    }
}

/// Returns true if an attribute has this name, or has it among its arguments.
fn has(attribute: &Attribute, word: &str) -> bool {
    let is_last = |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == word);
    is_last(attribute.path())
        || matches!(&attribute.meta, Meta::List(list) if has_word(&list.tokens, word))
}

/// `topic_07` of `topic_07_words`.
fn number(id: &str) -> Option<&str> {
    let mut parts = id.splitn(3, '_');
    let (topic, number, words) = (parts.next()?, parts.next()?, parts.next()?);
    let is_topic = !topic.is_empty() && topic.bytes().all(|b| b.is_ascii_lowercase());
    let is_number = number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
    (is_topic && is_number && !words.is_empty()).then(|| &id[..topic.len() + 1 + number.len()])
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::outcome::Outcome;
    use crate::tree::Tree;

    const SCOPE: &str = "\
| id | given | when | then |
|---|---|---|---|
| `scope_01_waits` | a scope | its body ends | it waits |
| `scope_02_panics` | a child | it panics | so does the scope |
";
    const TESTS: &str = "#[test]\nfn scope_01_waits() {}\n\nbehaviour! {\n    fn scope_02_panics_on_two_workers() {}\n}\n";

    fn with(table: &str, tests: &str) -> Outcome {
        check(&Tree::of(&[
            ("doc/behaviour/README.md", ""),
            ("doc/behaviour/scope.md", table),
            ("tests/a.rs", tests),
        ]))
    }

    #[test]
    fn rows_with_tests_stand() {
        let outcome = with(SCOPE, TESTS);
        assert_eq!(outcome.problems, [""; 0]);
        assert_eq!(outcome.summary, "2 rows in 1 topics, 2 of them shown by 2 tests");
    }

    #[test]
    fn a_row_without_a_test_is_found() {
        with(SCOPE, "#[test] fn scope_01_waits() {}").complains("scope_02_panics has no test");
        with(SCOPE, &TESTS.replace("#[test]", "")).complains("scope_01_waits has no test");
        with(SCOPE, &format!("// {}", TESTS.replace('\n', " ")))
            .complains("scope_01_waits has no test");
    }

    #[test]
    fn a_test_without_a_row_is_found() {
        with(SCOPE, &format!("{TESTS}#[test] fn scope_03_more() {{}}"))
            .complains("that scope_03_more begins with");
        with(SCOPE, &format!("{TESTS}#[test] fn scope_01_other() {{}}"))
            .complains("that scope_01_other begins with");
        with(SCOPE, &format!("{TESTS}#[test] fn net_01_reads() {{}}"))
            .complains("that net_01_reads begins with");
        assert!(
            with(SCOPE, &format!("{TESTS}#[test] fn plain() {{}} fn net_01_helper() {{}}"))
                .stands()
        );
    }

    #[test]
    fn an_ignored_test_shows_nothing() {
        with(SCOPE, &TESTS.replace("#[test]", "#[test] #[ignore = \"slow\"] pub"))
            .complains("is ignored");
        with(SCOPE, &TESTS.replace("#[test]", "#[test] #[cfg_attr(miri, ignore)]"))
            .complains("is ignored");
        with(SCOPE, &TESTS.replace("    fn", "    #[ignore] fn")).complains("is ignored");
    }

    #[test]
    fn a_macro_of_any_form_is_read() {
        let tests = TESTS.replace("    fn", "    drivers => { both: [fn helper()] } fn");
        assert!(with(SCOPE, &tests).stands());
        with(SCOPE, &tests.replace("helper", "net_01_x")).complains("that net_01_x begins with");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        with(SCOPE, "fn f() {\n}\n}").complains("tests/a.rs:3: ");
    }

    #[test]
    fn ids_are_well_formed_and_unique() {
        with(&format!("{SCOPE}| `scope_02_again` | a | b | c |\n"), TESTS)
            .complains("has the number of scope_02_panics");
        with(&format!("{SCOPE}| `net_03_x` | a | b | c |\n"), TESTS)
            .complains("is not of the form");
        with(&format!("{SCOPE}| `scope_3_x` | a | b | c |\n"), TESTS)
            .complains("is not of the form");
        with(&format!("{SCOPE}| `scope_03_x` | a | | c |\n"), TESTS).complains("four filled cells");
    }

    #[test]
    fn other_pages_name_rows_that_exist() {
        let with_page = |page| {
            check(&Tree::of(&[
                ("doc/behaviour/scope.md", SCOPE),
                ("tests/a.rs", TESTS),
                ("SOUNDNESS.md", page),
            ]))
        };
        assert!(with_page("see `scope_01_waits` and `other` words").stands());
        with_page("see `scope_01_wait`")
            .complains("SOUNDNESS.md: no row in doc/behaviour/ is called scope_01_wait");
    }

    #[test]
    fn nothing_read_is_a_failure() {
        assert!(!check(&Tree::of(&[])).stands());
        assert!(!check(&Tree::of(&[("doc/behaviour/scope.md", "no table")])).stands());
    }
}
