use super::{check, pages, write};
use crate::outcome::Outcome;
use crate::tree::Tree;
use std::fs;

/// A page as `--write` writes it for `TESTS`, with text before and after the table.
const SCOPE: &str = "\
# scope: children

<!-- rows: written by `cargo xtask behaviour --write` from the doc comments of the tests -->

| id | given | when | then |
|---|---|---|---|
| `scope_01_waits` | a scope | its body ends | it waits for its children |
| `scope_02_panics` | a child | it panics | so does the scope: `a \\| b` |

More about `scope_02`.
";

const TESTS: &str = "\
/// Text before the list.
///
/// - row: `scope_02_panics`
/// - given: a child
/// - when: it panics
/// - then: so does the scope: `a | b`
#[test]
fn scope_02_panics_on_one_worker() {}

#[test]
fn scope_02_panics_on_two_workers() {}

behaviour! {
    /// - given: a scope
    /// - when: its
    ///   body ends
    /// - then: it waits
    ///   for its children
    ///
    /// Text after the list.
    fn scope_01_waits_slow() {}
}
";

fn with(page: &str, tests: &str) -> Outcome {
    check(&Tree::of(&[
        ("doc/behaviour/README.md", ""),
        ("doc/behaviour/scope.md", page),
        ("tests/a.rs", tests),
    ]))
}

/// Replaces a text that must be there.
fn edited(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old}");
    text.replacen(old, new, 1)
}

#[test]
fn pages_that_say_what_the_tests_say_stand() {
    let outcome = with(SCOPE, TESTS);
    assert_eq!(outcome.problems, [""; 0]);
    assert_eq!(outcome.summary, "2 rows in 1 topics, 3 tests");
    assert!(with(&edited(SCOPE, "More about", "Other words about"), TESTS).stands());
}

#[test]
fn a_changed_page_is_found() {
    let differs = |old, new| {
        let problem = "doc/behaviour/scope.md: the table is not what the tests say";
        with(&edited(SCOPE, old, new), TESTS).complains(problem);
    };
    differs("it waits for", "it kills");
    differs("| `scope_01_waits` | a scope | its body ends | it waits for its children |\n", "");
    differs("|\n\nMore", "|\n| `scope_03_more` | a | b | c |\n\nMore");
    differs("| id | given | when | then |\n", "");
    differs("-->\n\n|", "-->\n|");
}

#[test]
fn a_row_without_a_test_is_found() {
    let without_its_first =
        edited(TESTS, "#[test]\nfn scope_02_panics_on_one", "fn scope_02_panics_on_one");
    with(SCOPE, &without_its_first)
        .complains("scope_02_panics_on_one_worker has a row, but is no test");
    let commented = format!("// {}", TESTS.replace('\n', " "));
    with(SCOPE, &commented).complains("no test has a row `scope_01_words`");
}

#[test]
fn a_test_without_a_row_is_found() {
    let more = |test: &str| with(SCOPE, &format!("{TESTS}{test}"));
    more("#[test] fn scope_03_more() {}")
        .complains("tests/a.rs:23: scope_03_more is named like a row");
    more("#[test] fn scope_01_other() {}").complains("scope_01_other is named like a row");
    more("#[test] fn scope_01_waitsfor() {}").complains("scope_01_waitsfor is named like a row");
    more("#[test] fn net_01_reads() {}").complains("net_01_reads is named like a row");
    assert!(more("#[test] fn plain() {} fn net_01_helper() {}").stands());
}

#[test]
fn two_tests_with_one_row_are_found() {
    let list = "/// - given: a\n/// - when: b\n/// - then: c\n#[test]\n";
    with(SCOPE, &format!("{TESTS}{list}fn scope_01_waits() {{}}"))
        .complains("scope_01_waits has a row, and another test has the row scope_01_waits");
    with(SCOPE, &format!("{TESTS}{list}fn scope_01_other() {{}}"))
        .complains("scope_01_other has a row, and another test has the row scope_01_waits");
}

#[test]
fn a_list_that_is_no_row_is_found() {
    let bad = |old, new, problem: &str| {
        with(SCOPE, &edited(TESTS, old, new)).complains(problem);
    };
    bad("/// - when: it panics\n", "", "has row, given, then, and not given, when, then");
    bad("- when: it panics", "- given: it panics", "has row, given, given, then, and not");
    bad("- given: a child", "- when: a child", "has row, when, when, then, and not");
    bad(
        "- when: it panics",
        "- when:",
        "in the list of scope_02_panics_on_one_worker `when` is empty",
    );
    bad("`scope_02_panics`", "`scope_02_hangs`", "does not begin with `scope_02_hangs`");
    bad("`scope_02_panics`", "`scope_02`", "`scope_02` is no id of the form `topic_07_words`");
    bad("fn scope_02_panics_on_one", "fn panics_on_one", "does not begin with `scope_02_panics`");
    bad(
        "fn scope_01_waits_slow",
        "fn waits",
        "tests/a.rs:21: waits has a row, but `waits` is no id",
    );
}

#[test]
fn an_ignored_test_shows_nothing() {
    for ignored in ["#[test] #[ignore = \"slow\"] pub", "#[test] #[cfg_attr(miri, ignore)]"] {
        with(SCOPE, &TESTS.replace("#[test]", ignored)).complains("is ignored");
    }
    with(SCOPE, &TESTS.replace("    fn", "    #[ignore] fn")).complains("is ignored");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    with(SCOPE, "fn f() {\n}\n}").complains("tests/a.rs:3: ");
}

#[test]
fn a_number_has_two_digits_or_three() {
    let number = super::rows::number;
    assert_eq!(number("scope_07_words"), Some("scope_07"));
    assert_eq!(number("scope_107_words"), Some("scope_107"));
    assert_eq!((number("scope_7_words"), number("scope_1007_words")), (None, None));
}

#[test]
fn each_page_has_its_mark_and_each_topic_its_page() {
    with(&edited(SCOPE, pages::MARK, ""), TESTS).complains("scope.md: the line `<!-- rows: ");
    check(&Tree::of(&[("tests/a.rs", TESTS)])).complains("doc/behaviour/scope.md is missing");
    check(&Tree::of(&[
        ("doc/behaviour/scope.md", SCOPE),
        ("doc/behaviour/net.md", pages::MARK),
        ("tests/a.rs", TESTS),
    ]))
    .complains("doc/behaviour/net.md: no test has a row `net_01_words`");
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
fn links_lead_to_files() {
    let with_link = |target| {
        check(&Tree::of(&[
            ("doc/behaviour/scope.md", SCOPE),
            ("doc/a.md", &format!("see [b]({target})")),
            ("tests/a.rs", TESTS),
        ]))
    };
    for target in ["a.md", "../tests/a.rs#x", "behaviour/", "..", "https://a/b", "crate::scope"] {
        assert_eq!(with_link(target).problems, [""; 0]);
    }
    for target in ["b.md", "../a.rs", "../test", "behaviour/scope"] {
        with_link(target).complains(&format!("doc/a.md: the link to {target} leads nowhere"));
    }
}

#[test]
fn nothing_read_is_a_failure() {
    assert!(!check(&Tree::of(&[])).stands());
    assert!(!check(&Tree::of(&[("doc/behaviour/scope.md", "no table")])).stands());
}

#[test]
fn tables_are_written_unless_a_test_has_a_problem() {
    let root = std::env::temp_dir().join(format!("ecru-xtask-behaviour-{}", std::process::id()));
    fs::create_dir_all(root.join("doc/behaviour")).unwrap();
    let page = root.join("doc/behaviour/scope.md");
    let old = edited(SCOPE, "it waits for", "it kills");
    let tree = |tests| Tree::of(&[("doc/behaviour/scope.md", &old), ("tests/a.rs", tests)]);
    fs::write(&page, &old).unwrap();
    write(&root, &tree("#[test]\nfn scope_01_waits() {}")).complains("is named like a row");
    assert_eq!(fs::read_to_string(&page).unwrap(), old);
    assert!(write(&root, &tree(TESTS)).stands());
    assert_eq!(fs::read_to_string(&page).unwrap(), SCOPE);
    // A new page has a mark and nothing after it.
    let (head, _) = SCOPE.split_once("\n\n|").unwrap();
    let new = Tree::of(&[("doc/behaviour/scope.md", head), ("tests/a.rs", TESTS)]);
    assert!(write(&root, &new).stands());
    let (table, _) = SCOPE.split_once("\nMore").unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), table);
    fs::remove_dir_all(&root).unwrap();
}
