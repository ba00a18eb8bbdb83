//! `cargo xtask twins` compares std's types with ecru's types of the same names.
//!
//! std's side is a list, `xtask/data/std.txt`, of the stable names of the compiler that
//! rust-toolchain.toml names. ecru's side is the list that `cargo xtask public` keeps. The result
//! is the page `doc/std.md`: for each type what is there, what is missing, and why. Only the
//! reasons are written by hand, in `xtask/data/std-left-out.txt`.

use crate::outcome::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const STD: &str = "xtask/data/std.txt";
const OURS: &str = "xtask/data/public/ecru.txt";
const LEFT_OUT: &str = "xtask/data/std-left-out.txt";
const PAGE: &str = "doc/std.md";

const HEAD: &str = "\
# std's twins

This page lists which methods of std's types ecru's types have, and why others are missing. It is
written by `cargo xtask twins --write`, and CI checks it. It counts stable methods that are not
deprecated, including those of the extension traits for Unix and Linux, and trait implementations
(`impl Read`). For a module it counts functions and types.

The signatures of `ecru::sync::poison` are std's, so code for std's locks compiles with that import.
`tests/contract.rs` has all of them. The locks of `ecru::sync` have no poisoning, so their methods
return values where std's return a `LockResult`.
";

/// Compares the lists, and the page with what they say. With `write` the page is written instead.
pub(crate) fn check(root: &Path, write: bool) -> Outcome {
    compare(root, write).unwrap_or_else(Outcome::broken)
}

fn compare(root: &Path, write: bool) -> Result<Outcome, String> {
    let load = |file: &str| {
        std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let (mut outcome, page) = twins(&load(STD)?, &load(OURS)?, &load(LEFT_OUT)?)?;
    if write {
        std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))?;
    } else if load(PAGE)? != page {
        outcome.problems.push(format!("{PAGE} is stale: cargo xtask twins --write"));
    }
    Ok(outcome)
}

/// Returns the outcome and the page. `std` has lines `path: name name ..` in which `_` stands for
/// the space in `impl Read`, and `reasons` has lines `path::name = why`.
fn twins(std: &str, ours: &str, reasons: &str) -> Result<(Outcome, String), String> {
    let mut excuses = BTreeMap::new();
    for line in reasons.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, why) =
            line.split_once(" = ").ok_or_else(|| format!("{LEFT_OUT}: no reason in `{line}`"))?;
        excuses.insert(key.to_owned(), why);
    }
    let (mut page, mut problems) = (HEAD.to_owned(), vec![]);
    let (mut there_in_all, mut cases, mut twins) = (0, 0, 0);
    for (path, names) in std.lines().filter_map(|line| line.split_once(": ")) {
        let names: Vec<_> = names.split(' ').map(|name| name.replace("impl_", "impl ")).collect();
        let is_type =
            path.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_uppercase));
        let (all, inherent) =
            if is_type { members(ours, path) } else { (items(ours, path), BTreeSet::new()) };
        let (there, missing): (Vec<_>, Vec<_>) = names.iter().partition(|name| all.contains(*name));
        (there_in_all, cases, twins) = (there_in_all + there.len(), cases + names.len(), twins + 1);
        let _ = writeln!(page, "\n## {path}\n");
        let _ = writeln!(page, "{} of {}: {}", there.len(), names.len(), listed(there));
        for (number, name) in missing.into_iter().enumerate() {
            if number == 0 {
                page.push_str("\n| not here | why |\n|---|---|\n");
            }
            let key = format!("{path}::{name}");
            match excuses.remove(&key) {
                Some(reason) => drop(writeln!(page, "| `{name}` | {reason} |")),
                None => problems
                    .push(format!("{key} is std's, not ecru's, and {LEFT_OUT} gives no reason")),
            }
        }
        let beside: Vec<_> = inherent.iter().filter(|name| !names.contains(name)).collect();
        if !beside.is_empty() {
            let _ = writeln!(page, "\nBeside std's: {}", listed(beside));
        }
    }
    let idle = excuses.keys();
    problems
        .extend(idle.map(|key| format!("{LEFT_OUT} excuses {key}, which is here, or not std's")));
    let summary =
        format!("{there_in_all} of {cases} of std's names are here, in {twins} types and modules");
    Ok((Outcome { cases, summary, problems }, page))
}

fn listed(names: Vec<&String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns a type's methods and traits, the methods of ecru's own extension traits among them, and
/// those of its methods that belong to no trait.
fn members(ours: &str, path: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut inherent) = (BTreeSet::new(), BTreeSet::new());
    let own = format!("ecru::{path}");
    // The trait, for the methods of an implementation. `None` is one for another type.
    let mut block: Option<String> = None;
    for line in ours.lines() {
        let plain = without_generics(line);
        if let Some(head) = plain.strip_prefix("impl ") {
            let head = head.split(" where ").next().unwrap_or(head);
            let (name, of) = head.split_once(" for ").unwrap_or(("", head));
            let name = name.rsplit("::").next().unwrap_or(name).to_owned();
            block = (of == own).then_some(name);
            all.extend(block.iter().map(|name| format!("impl {name}")));
        } else if let (Some(block), Some(method)) = (&block, method(&plain)) {
            if block.is_empty() {
                inherent.insert(method.to_owned());
            } else if block.ends_with("Ext") {
                all.insert(method.to_owned());
            }
        } else {
            block = None;
        }
    }
    all.extend(inherent.iter().cloned());
    (all, inherent)
}

/// Returns the name of a method or function.
fn method(plain: &str) -> Option<&str> {
    plain.split_once("fn ")?.1.split('(').next()?.rsplit("::").next()
}

/// Returns the names of the items directly in a module.
fn items(ours: &str, path: &str) -> BTreeSet<String> {
    let prefix = format!("ecru::{path}::");
    let names = ours.lines().filter_map(|line| {
        let plain = without_generics(line.split_once("pub ")?.1);
        let item = plain.split(' ').find(|word| word.starts_with("ecru::"))?;
        let name = item.strip_prefix(&*prefix)?.split('(').next()?;
        (!name.contains(':')).then(|| name.to_owned())
    });
    names.collect()
}

/// Returns an item without what stands between angle brackets.
fn without_generics(item: &str) -> String {
    let (mut plain, mut depth, mut before) = (String::new(), 0, ' ');
    for c in item.chars() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        before = c;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "\
pub use ecru::net::IpAddr
#[non_exhaustive] pub struct ecru::net::Tcp<'a>(_)
impl ecru::net::Tcp<'_>
pub const fn ecru::net::Tcp<'_>::accept<F: Fn() -> u8>(&self) -> u8
pub fn ecru::net::Tcp<'_>::serve(&self)
impl ecru::net::TcpExt for ecru::net::Tcp<'_>
pub fn ecru::net::Tcp<'_>::quick(&self)
impl<T: core::fmt::Debug> core::fmt::Debug for ecru::net::Tcp<'_> where T: Send
pub fn ecru::net::Tcp<'_>::fmt(&self)
impl ecru::net::Udp
pub fn ecru::net::Udp::lost(&self)
pub fn ecru::net::bind() -> u8
";

    #[test]
    fn a_page_has_what_is_there_and_what_is_missing() {
        let std = "net: IpAddr Tcp bind\nnet::Tcp: accept quick impl_Debug lost\n";
        let (outcome, page) = twins(std, OURS, "# why\n\nnet::Tcp::lost = because\n").unwrap();
        assert_eq!(outcome.problems, [""; 0]);
        assert!(page.contains("3 of 3: `IpAddr`, `Tcp`, `bind`\n"), "{page}");
        assert!(page.contains("3 of 4: `accept`, `quick`, `impl Debug`\n"), "{page}");
        assert!(page.contains("| `lost` | because |\n\nBeside std's: `serve`\n"), "{page}");
    }

    #[test]
    fn what_is_missing_needs_a_reason_and_what_is_there_none() {
        let problems = |reasons| twins("net::Tcp: accept lost", OURS, reasons).unwrap().0;
        problems("").complains("net::Tcp::lost is std's, not ecru's");
        problems("net::Tcp::accept = x\n").complains("excuses net::Tcp::accept");
        assert!(twins("", OURS, "net::Tcp::lost").is_err());
    }
}
