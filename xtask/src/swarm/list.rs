//! The list of the tests that do not run in simulations. A heading is a reason, and the items below
//! it are the names of tests, or of modules with all of their tests.

use crate::tree::Tree;

/// The library's list.
pub(super) const PAGE: &str = "tests/behaviour/not_simulated.md";
/// The list of `ecru-flow`.
pub(super) const FLOW_PAGE: &str = "crates/flow/tests/behaviour/not_simulated.md";

/// The names of tests, and of modules with `::` at their ends.
#[derive(Debug)]
pub(super) struct List {
    pub(super) page: &'static str,
    names: Vec<String>,
}

impl List {
    pub(super) fn read(tree: &Tree, page: &'static str) -> Result<List, String> {
        let (mut names, mut has_reason) = (vec![], false);
        for (line, text) in tree.text(page)?.lines().enumerate() {
            has_reason |= text.starts_with("## ");
            let Some(item) = text.strip_prefix("- ") else { continue };
            let name = item.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
            match name {
                Some(name) if has_reason => names.push(name.to_owned()),
                _ => return Err(format!("{page}:{}: not a name below a reason", line + 1)),
            }
        }
        Ok(List { page, names })
    }

    /// Returns whether the list has this test or its module.
    pub(super) fn names(&self, test: &str) -> bool {
        self.names.iter().any(|name| covers(name, test))
    }

    /// Describes the names of no test.
    pub(super) fn unknown(&self, tests: &[String]) -> Vec<String> {
        let unknown = self.names.iter().filter(|name| !tests.iter().any(|test| covers(name, test)));
        unknown.map(|name| format!("{}: there is no test {name}", self.page)).collect()
    }
}

fn covers(name: &str, test: &str) -> bool {
    if name.ends_with("::") { test.starts_with(name) } else { test == name }
}

#[cfg(test)]
mod tests {
    use super::{List, PAGE};
    use crate::tree::Tree;

    fn read(text: &str) -> Result<List, String> {
        List::read(&Tree::of(&[(PAGE, text)]), PAGE)
    }

    #[test]
    fn tests_and_modules_are_named() {
        let list = read("# T\n\n## Because\n\n- `a::one`\n## Slow\n- `b::`\n").unwrap();
        assert!(list.names("a::one") && list.names("b::two") && list.names("b::c::three"));
        assert!(!list.names("a::one_more") && !list.names("bb::two"));
        let tests = ["a::one", "b::two"].map(String::from);
        assert!(list.unknown(&tests).is_empty());
        assert_eq!(list.unknown(&tests[1..]), [format!("{PAGE}: there is no test a::one")]);
    }

    #[test]
    fn a_name_needs_a_reason() {
        assert!(read("- `a::one`\n").is_err());
        assert!(read("## Because\n- a::one\n").is_err());
    }
}
