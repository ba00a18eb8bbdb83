//! The list of the tests that do not run in simulations. A heading is a reason, and the items below
//! it are the names of tests, or of modules with all of their tests. Tests below a heading that ends
//! with "(not tried)" are too slow to be tried in simulations.

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
    /// Those among them that are not tried.
    not_tried: Vec<String>,
}

impl List {
    pub(super) fn read(tree: &Tree, page: &'static str) -> Result<List, String> {
        let (mut names, mut not_tried) = (vec![], vec![]);
        let (mut has_reason, mut is_tried) = (false, true);
        for (line, text) in tree.text(page)?.lines().enumerate() {
            if text.starts_with("## ") {
                has_reason = true;
                is_tried = !text.ends_with("(not tried)");
            }
            let Some(item) = text.strip_prefix("- ") else { continue };
            let name = item.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
            match name {
                Some(name) if has_reason => {
                    names.push(name.to_owned());
                    not_tried.extend((!is_tried).then(|| name.to_owned()));
                }
                _ => return Err(format!("{page}:{}: not a name below a reason", line + 1)),
            }
        }
        Ok(List { page, names, not_tried })
    }

    /// Returns whether the list has this test or its module.
    pub(super) fn names(&self, test: &str) -> bool {
        self.names.iter().any(|name| covers(name, test))
    }

    /// Returns whether a listed test is tried.
    pub(super) fn tries(&self, test: &str) -> bool {
        !self.not_tried.iter().any(|name| covers(name, test))
    }

    /// Describes the names of no test, and those that are there twice.
    pub(super) fn unknown(&self, tests: &[String]) -> Vec<String> {
        let page = self.page;
        let unknown = self.names.iter().filter(|name| !tests.iter().any(|test| covers(name, test)));
        let twice = self.names.iter().enumerate().filter(|(place, name)| {
            self.names.iter().enumerate().any(|(other, also)| *place != other && covers(also, name))
        });
        unknown
            .map(|name| format!("{page}: there is no test {name}"))
            .chain(twice.map(|(_, name)| format!("{page}: {name} is there twice")))
            .collect()
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
        let list = read("# T\n\n## Because\n\n- `a::one`\n## Slow (not tried)\n- `b::`\n").unwrap();
        assert!(list.tries("a::one") && !list.tries("b::two"));
        assert!(list.names("a::one") && list.names("b::two") && list.names("b::c::three"));
        assert!(!list.names("a::one_more") && !list.names("bb::two"));
        let tests = ["a::one", "b::two"].map(String::from);
        assert!(list.unknown(&tests).is_empty());
        assert_eq!(list.unknown(&tests[1..]), [format!("{PAGE}: there is no test a::one")]);
    }

    #[test]
    fn a_name_needs_a_reason_and_is_there_once() {
        assert!(read("- `a::one`\n").is_err());
        assert!(read("## Because\n- a::one\n").is_err());
        let twice = read("## Because\n- `b::two`\n## Also\n- `b::`\n").unwrap();
        assert_eq!(twice.unknown(&["b::two".into()]), [format!("{PAGE}: b::two is there twice")]);
    }
}
