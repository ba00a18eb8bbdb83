//! The paths that a source file names, made absolute.
//!
//! `use` trees are split, `self` and `super` are resolved (inline modules included), and names
//! imported by `use` are followed. `use std::sync; sync::atomic::fence(..)` therefore counts as
//! naming `std::sync::atomic::fence`. So do names declared by `type`. A method call `x.elapsed()`
//! is noted as the path `.elapsed`, because the type of `x` is not known.

use crate::syntax::{is_punct, line, trees};
use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};
use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{ExprMethodCall, ItemMod, ItemType, ItemUse, Macro, Type, TypePath, UseTree};

/// A path of the source, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The segments. The first is `crate` for a path within the crate, otherwise the first segment
    /// in the source. The only segment of a method call is a dot and the method's name.
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// Whether the path is the name of a macro that is called.
    pub(crate) is_macro: bool,
    /// The module that contains the path, inline modules included.
    pub(crate) module: Vec<String>,
}

/// All paths in a file that stands for `module` (its path from the crate root).
pub(crate) fn named(file: &syn::File, module: &[String]) -> Vec<Named> {
    let mut reader = Reader { module: module.to_vec(), found: vec![], aliases: HashMap::new() };
    reader.visit_file(file);
    reader.follow_aliases()
}

struct Reader {
    module: Vec<String>,
    found: Vec<Named>,
    /// The meaning of a name imported by `use`, for each module.
    aliases: HashMap<(Vec<String>, String), Vec<String>>,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        self.visit_visibility(&item.vis);
        self.module.push(item.ident.to_string());
        item.content.iter().flat_map(|(_, items)| items).for_each(|item| self.visit_item(item));
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        self.visit_visibility(&item.vis);
        self.use_tree(&item.tree, vec![]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path.segments.iter().map(|segment| &segment.ident), false);
        visit::visit_path(self, path);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        if let Type::Path(TypePath { qself: None, path, .. }) = &*item.ty {
            let path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let meaning = self.absolute(path);
            self.aliases.insert((self.module.clone(), item.ident.to_string()), meaning);
        }
        visit::visit_item_type(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.method(&call.method);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.path(called.path.segments.iter().map(|segment| &segment.ident), true);
        self.visit_token_stream(&called.tokens);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.tokens(tokens);
    }
}

impl Reader {
    /// Notes a path outside a `use` item. A path of one segment is left out: its name is local, or
    /// a `use` item has named it.
    fn path<'i>(&mut self, segments: impl Iterator<Item = &'i Ident>, is_macro: bool) {
        let segments: Vec<&Ident> = segments.collect();
        if let [first, _, ..] = segments[..] {
            let path = segments.iter().map(|segment| segment.to_string()).collect();
            self.note(path, line(first.span()), is_macro);
        }
    }

    fn method(&mut self, name: &Ident) {
        let (segments, module) = (vec![format!(".{name}")], self.module.clone());
        self.found.push(Named { segments, line: line(name.span()), is_macro: false, module });
    }

    fn note(&mut self, path: Vec<String>, line: usize, is_macro: bool) -> Vec<String> {
        let (segments, module) = (self.absolute(path), self.module.clone());
        self.found.push(Named { segments: segments.clone(), line, is_macro, module });
        segments
    }

    fn use_tree(&mut self, tree: &UseTree, mut path: Vec<String>) {
        let (last, alias) = match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                return self.use_tree(&step.tree, path);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.use_tree(tree, path.clone()));
            }
            UseTree::Glob(glob) => {
                path.push("*".into());
                self.note(path, line(glob.star_token.spans[0]), false);
                return;
            }
            UseTree::Name(name) if name.ident == "self" => (&name.ident, path.last().cloned()),
            UseTree::Name(name) => (&name.ident, Some(name.ident.to_string())),
            UseTree::Rename(renamed) => (&renamed.ident, Some(renamed.rename.to_string())),
        };
        path.push(last.to_string());
        let mut meaning = self.note(path, line(last.span()), false);
        meaning.pop_if(|last| last == "self");
        if let Some(alias) = alias.filter(|alias| alias != "_") {
            self.aliases.insert((self.module.clone(), alias), meaning);
        }
    }

    /// Searches tokens for `use` items, inline modules and paths.
    fn tokens(&mut self, tokens: &TokenStream) {
        let trees = trees(tokens);
        let mut at = 0;
        while at < trees.len() {
            match &trees[at..] {
                [TokenTree::Group(group), ..] => self.tokens(&group.stream()),
                [TokenTree::Ident(word), rest @ ..] if word == "use" => {
                    let until = rest.iter().position(|tree| is_punct(tree, ';')).unwrap_or(0);
                    // `$crate` means `crate` here.
                    let item =
                        trees[at..=at + 1 + until].iter().filter(|tree| !is_punct(tree, '$'));
                    if let Ok(item) = syn::parse2::<ItemUse>(item.cloned().collect()) {
                        self.visit_item_use(&item);
                        at += until;
                    }
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                    if word == "mod" =>
                {
                    self.module.push(name.to_string());
                    self.tokens(&body.stream());
                    self.module.pop();
                    at += 2;
                }
                [dot, TokenTree::Ident(name), TokenTree::Group(arguments), ..]
                    if is_punct(dot, '.')
                        && arguments.delimiter() == Delimiter::Parenthesis
                        && !trees[..at].last().is_some_and(|tree| is_punct(tree, '.')) =>
                {
                    self.method(name);
                    at += 1;
                }
                [TokenTree::Ident(first), rest @ ..] if is_segment(first) => {
                    let more = segments(rest);
                    let len = 3 * more.len();
                    if !follows_separator(&trees[..at]) {
                        let is_macro = matches!(&rest[len..],
                            [bang, TokenTree::Group(_), ..] if is_punct(bang, '!'));
                        self.path(std::iter::once(first).chain(more), is_macro);
                    }
                    at += len;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn absolute(&self, path: Vec<String>) -> Vec<String> {
        let ups = match path.first().map(String::as_str) {
            Some("self") => 0,
            Some("super") => path.iter().take_while(|segment| *segment == "super").count(),
            _ => return path,
        };
        let kept = self.module.len().saturating_sub(ups);
        let own = std::iter::once("crate".to_owned()).chain(self.module[..kept].iter().cloned());
        own.chain(path.into_iter().skip(ups.max(1))).collect()
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

/// Returns true for words that a path may consist of. Other keywords may precede a path with a
/// leading `::`.
fn is_segment(word: &Ident) -> bool {
    let text = word.to_string();
    ["crate", "self", "super"].contains(&text.as_str()) || syn::parse_str::<Ident>(&text).is_ok()
}

/// Returns true after generic arguments or a bracket and `::`, as before `new` in `Vec::<u8>::new`.
/// There no path begins.
fn follows_separator(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Group(_), _, colon] => is_punct(colon, ':'),
        [.., arrow, closing, _, colon] if is_punct(closing, '>') && is_punct(colon, ':') => {
            !is_punct(arrow, '-') && !is_punct(arrow, '=')
        }
        _ => false,
    }
}

/// Returns the further segments of a path. Each takes three trees, since `::` is two of them.
fn segments(mut rest: &[TokenTree]) -> Vec<&Ident> {
    let mut segments = vec![];
    while let [TokenTree::Punct(one), other, TokenTree::Ident(segment), after @ ..] = rest
        && one.as_char() == ':'
        && one.spacing() == Spacing::Joint
        && is_punct(other, ':')
    {
        segments.push(segment);
        rest = after;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::named;

    fn paths(source: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|&m| m.into()).collect();
        let file = syn::parse_file(source).unwrap();
        named(&file, &module).iter().map(|n| n.segments.join("::")).collect()
    }

    #[test]
    fn paths_are_absolute() {
        for (source, module, expected) in [
            (
                "use crate::{park::{Waiter, self}, task as t, base::*};",
                &["net"][..],
                "crate::park::Waiter crate::park::self crate::task crate::base::*",
            ),
            (
                "use super::super::net; mod imp { use super::local; mod deep { use super::super::super::super::park; } } use super::x;",
                &["base", "local"],
                "crate::net crate::base::local::local crate::park crate::base::x",
            ),
            (
                "pub(in crate::task) fn f() { crate::sched::go::<crate::net::T>(1) }",
                &["base"],
                "crate::task crate::sched::go crate::net::T",
            ),
            // A leading separator hides nothing.
            ("use ::libc::c_int; fn f() -> ::libc::c_int { 0 }", &["a"], "libc::c_int libc::c_int"),
            (
                "m! { x => ::libc::a(), y as ::libc::b, fn f() -> ::libc::c, return ::libc::d }",
                &["a"],
                "libc::a libc::b libc::c libc::d",
            ),
            // Comments and strings are not code.
            (
                "fn f() { /* a::b */ \"c::d\"; m!(\"e::f\" /* g::h */); i::j } // k::l",
                &["a"],
                "i::j",
            ),
            ("m! { r#type::r::br } fn f() { r#type::r }", &["a"], "r#type::r::br r#type::r"),
            // Calls of methods, those in macros, too.
            ("fn f() { x.a().b::<T>(); m!(x.c() < y.field, 1..d()); }", &["a"], ".b .a .c"),
        ] {
            assert_eq!(paths(source, module).join(" "), expected, "{source}");
        }
    }

    #[test]
    fn names_are_followed() {
        for (source, expected) in [
            ("use std::sync; fn f() { sync::atomic::fence(x) }", "std::sync::atomic::fence"),
            ("use std::time::Instant as C; fn f() { C::now() }", "std::time::Instant::now"),
            ("type C = std::time::Instant; fn f() { C::now(); }", "std::time::Instant::now"),
        ] {
            assert_eq!(paths(source, &["a"])[1], expected, "{source}");
        }
        // A name means what its own module says.
        let source = "use crate::base::atomic; fn f() { atomic::fence() } mod tests { use std::sync::atomic; fn f() { atomic::fence() } }";
        let seen = paths(source, &["a"]);
        assert_eq!(seen[1], "crate::base::atomic::fence");
        assert_eq!(seen[3], "std::sync::atomic::fence");
    }

    #[test]
    fn the_tokens_of_macros_and_attributes_are_read() {
        let source = "macro_rules! m { ($x:ident) => {
            use $crate::{base::list, net::T as U};
            pub mod deep { use super::super::Up; fn f() { super::g::<crate::task::T>(x) } }
            $crate::park::go!(|| [U::new(), Vec::<u8>::with::a::zero(), $x::y]);
        } }
        #[cfg_attr(all(), expect(clippy::todo))]
        fn f() { assert!(crate::sched::is() != std::mem::take(&mut self.x)) }";
        assert_eq!(
            paths(source, &["net", "tcp"]),
            [
                "crate::base::list",
                "crate::net::T",
                "crate::net::Up",
                "crate::net::tcp::g",
                "crate::task::T",
                "crate::park::go",
                "crate::net::T::new",
                "x::y",
                "clippy::todo",
                "crate::sched::is",
                "std::mem::take",
            ]
        );
    }
}
