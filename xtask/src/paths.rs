//! The paths that a source file names, made absolute.
//!
//! `use` trees are split, `self` and `super` are resolved (inline modules included), and names
//! imported by `use` are followed. `use std::sync; sync::atomic::fence(..)` therefore counts as
//! naming `std::sync::atomic::fence`.

use crate::lexer::{Kind, Lexed, Token};
use std::collections::HashMap;

/// Words that may precede a path with a leading `::`.
const KEYWORDS: [&str; 10] =
    ["as", "const", "dyn", "else", "for", "if", "impl", "in", "mut", "return"];

/// A path of the source, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The segments. The first is `crate` for a path within the crate, otherwise the first segment
    /// in the source.
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// Whether the path is the name of a macro that is called.
    pub(crate) is_macro: bool,
    /// The module that contains the path, inline modules included.
    pub(crate) module: Vec<String>,
}

/// Returns all paths in the file of `module` (its path from the crate root).
pub(crate) fn named(lexed: &Lexed<'_>, module: &[String]) -> Vec<Named> {
    let mut reader = Reader {
        tokens: &lexed.tokens,
        module: module.to_vec(),
        found: vec![],
        aliases: HashMap::new(),
        in_use: false,
    };
    reader.read();
    reader.follow_aliases()
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    module: Vec<String>,
    found: Vec<Named>,
    /// The meaning of a name imported by `use`, for each module.
    aliases: HashMap<(Vec<String>, String), Vec<String>>,
    in_use: bool,
}

impl<'a> Reader<'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |t| t.text)
    }

    fn read(&mut self) {
        let mut at = 0;
        let mut depth = 0;
        let mut inline_modules = vec![];
        while at < self.tokens.len() {
            match self.text(at) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if inline_modules.last() == Some(&depth) {
                        inline_modules.pop();
                        self.module.pop();
                    }
                }
                "mod" if self.text(at + 2) == "{" => {
                    self.module.push(self.text(at + 1).to_owned());
                    inline_modules.push(depth);
                    depth += 1;
                    at += 3;
                    continue;
                }
                "use" => {
                    self.in_use = true;
                    at += 1;
                    at += usize::from(self.text(at) == "::");
                    at = self.tree(at, vec![]);
                    self.in_use = false;
                    continue;
                }
                _ if self.begins_path(at) => {
                    at = self.tree(at, vec![]);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn begins_path(&self, at: usize) -> bool {
        if self.tokens[at].kind != Kind::Word || self.text(at + 1) != "::" {
            return false;
        }
        if at == 0 || self.tokens[at - 1].kind != Kind::PathSeparator {
            return true;
        }
        // `::name` begins a path only if no token that could continue one precedes the `::`.
        let before = |back: usize| at.checked_sub(back).and_then(|i| self.tokens.get(i));
        match before(2) {
            Some(t) if t.text == ">" => before(3).is_some_and(|t| t.text == "-"),
            Some(t) if t.kind == Kind::Word => KEYWORDS.contains(&t.text),
            _ => true,
        }
    }

    /// Reads a path or a `use` tree from `at`, and returns where it ends.
    fn tree(&mut self, mut at: usize, mut path: Vec<String>) -> usize {
        let line = self.tokens.get(at).map_or(0, |t| t.line);
        loop {
            match self.tokens.get(at) {
                Some(t) if t.text == "{" => return self.group(at + 1, &path),
                Some(t) if t.text == "*" => path.push("*".into()),
                Some(t) if t.kind == Kind::Word => path.push(t.text.into()),
                _ => break,
            }
            at += 1;
            let goes_on = self
                .tokens
                .get(at + 1)
                .is_some_and(|t| t.kind == Kind::Word || matches!(t.text, "{" | "*"));
            if self.text(at) == "::" && goes_on {
                at += 1;
            } else {
                break;
            }
        }
        if path.is_empty() {
            return at;
        }
        let mut alias = path.iter().rev().find(|s| *s != "self").cloned().unwrap_or_default();
        if self.in_use && self.text(at) == "as" {
            alias = self.text(at + 1).to_owned();
            at += 2;
        }
        let segments = self.absolute(path);
        if self.in_use && alias != "_" && alias != "*" {
            self.aliases.insert((self.module.clone(), alias), segments.clone());
        }
        let is_macro = self.text(at) == "!";
        self.found.push(Named { segments, line, is_macro, module: self.module.clone() });
        at
    }

    fn group(&mut self, mut at: usize, prefix: &[String]) -> usize {
        while at < self.tokens.len() {
            match self.text(at) {
                "}" => return at + 1,
                "," => at += 1,
                _ => {
                    let end = self.tree(at, prefix.to_vec());
                    at = end.max(at + 1);
                }
            }
        }
        at
    }

    fn absolute(&self, path: Vec<String>) -> Vec<String> {
        let root = || std::iter::once("crate".to_owned());
        match path.first().map(String::as_str) {
            Some("self") => {
                root().chain(self.module.iter().cloned()).chain(path.into_iter().skip(1)).collect()
            }
            Some("super") => {
                let ups = path.iter().take_while(|s| *s == "super").count();
                let kept = self.module.len().saturating_sub(ups);
                root()
                    .chain(self.module[..kept].iter().cloned())
                    .chain(path.into_iter().skip(ups))
                    .collect()
            }
            _ => path,
        }
    }

    fn follow_aliases(self) -> Vec<Named> {
        let Reader { found, aliases, .. } = self;
        // An inline module may have its parent's names, by `use super::*`.
        let meaning = |module: &[String], name: &String| {
            (0..=module.len())
                .rev()
                .find_map(|len| aliases.get(&(module[..len].to_vec(), name.clone())))
        };
        let follow = |mut named: Named| {
            // A name may stand for a path that begins with another such name. A few rounds resolve
            // every chain in practice.
            for _ in 0..4 {
                match meaning(&named.module, &named.segments[0]) {
                    Some(path) if path[0] != named.segments[0] => {
                        named.segments.splice(0..1, path.iter().cloned());
                    }
                    _ => break,
                }
            }
            named
        };
        found.into_iter().map(follow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::named;
    use crate::lexer::lex;

    fn paths(source: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|&m| m.into()).collect();
        named(&lex(source), &module).iter().map(|n| n.segments.join("::")).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        assert_eq!(
            paths("use crate::{park::{Waiter, self}, task as t, base::*};", &["net"]),
            ["crate::park::Waiter", "crate::park::self", "crate::task", "crate::base::*"]
        );
    }

    #[test]
    fn super_is_counted_from_inline_modules_too() {
        let source = "use super::super::net; mod imp { use super::local; mod deep { use super::super::super::super::park; } } use super::x;";
        assert_eq!(
            paths(source, &["base", "local"]),
            ["crate::net", "crate::base::local::local", "crate::park", "crate::base::x"]
        );
    }

    #[test]
    fn paths_in_expressions_and_visibility_are_seen() {
        assert_eq!(
            paths("pub(in crate::task) fn f() { crate::sched::go::<crate::net::T>(1) }", &["base"]),
            ["crate::task", "crate::sched::go", "crate::net::T"]
        );
    }

    #[test]
    fn names_brought_in_by_use_are_followed() {
        let seen = paths(
            "use std::sync; use std::time::Instant as Clock; fn f() { sync::atomic::fence(x); Clock::now(); }",
            &["a"],
        );
        assert!(seen.contains(&"std::sync::atomic::fence".to_owned()), "{seen:?}");
        assert!(seen.contains(&"std::time::Instant::now".to_owned()), "{seen:?}");
    }

    #[test]
    fn a_name_means_what_its_own_module_says() {
        let source = "use crate::base::atomic; fn f() { atomic::fence() } mod tests { use std::sync::atomic; fn f() { atomic::fence() } }";
        let seen = paths(source, &["a"]);
        assert_eq!(seen[1], "crate::base::atomic::fence");
        assert_eq!(seen[3], "std::sync::atomic::fence");
    }

    #[test]
    fn a_leading_separator_does_not_hide_a_path() {
        assert_eq!(
            paths("use ::libc::c_int; fn f() -> ::libc::c_int { 0 }", &["a"]),
            ["libc::c_int", "libc::c_int"]
        );
    }
}
