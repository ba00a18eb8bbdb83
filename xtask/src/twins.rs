//! `cargo xtask twins` compares std's types with ecru's types of the same names.
//!
//! std's side is a list in `xtask/data/std.txt`, read from the documentation that comes with the
//! compiler (`--refresh` reads it again). ecru's side is rustdoc's JSON output. The result is the
//! page `doc/std.md`: for each type what is there, what is missing, and why. Only the reasons are
//! written by hand, in `xtask/data/std-left-out.txt`. The check fails if something is missing
//! without a reason, if a reason is given for something that is there, or if the page is stale. It
//! also reads every public page, and fails if one names a layer or an invariant of `doc/unsafe.md`.

mod ours;
mod signatures;
mod theirs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use crate::outcome::Outcome;
use crate::table;
use ours::Ours;

const STD: &str = "xtask/data/std.txt";
const LEFT_OUT: &str = "xtask/data/std-left-out.txt";
const PAGE: &str = "doc/std.md";
const SIGNATURES: &str = "xtask/data/std-signatures.txt";
const INVARIANTS: &str = "doc/unsafe.md";

/// A type or a module of std and its twin: ecru's path, std's path, and the extension traits whose
/// methods count as the type's.
struct Twin {
    path: &'static str,
    extensions: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Type,
    /// A module: its free functions, and the names of its types.
    Module,
}

const fn of_type(path: &'static str, extensions: &'static [&'static str]) -> Twin {
    Twin { path, extensions, kind: Kind::Type }
}

const fn of_module(path: &'static str) -> Twin {
    Twin { path, extensions: &[], kind: Kind::Module }
}

/// All twins. A path is relative to `ecru`. std's path is the same, except for Unix sockets.
const TWINS: &[Twin] = &[
    of_module("net"),
    of_type("net::TcpListener", &[]),
    of_type("net::TcpStream", &["os::linux::net::TcpStreamExt"]),
    of_type("net::UdpSocket", &[]),
    of_type("net::UnixStream", &[]),
    of_type("net::UnixListener", &[]),
    of_type("net::UnixDatagram", &[]),
    of_module("fs"),
    of_type("fs::File", &["os::unix::fs::FileExt"]),
    of_type("fs::OpenOptions", &["os::unix::fs::OpenOptionsExt"]),
    of_type("fs::DirBuilder", &["os::unix::fs::DirBuilderExt"]),
    of_type("fs::DirEntry", &["os::unix::fs::DirEntryExt"]),
    of_module("process"),
    of_type("process::Command", &["os::unix::process::CommandExt"]),
    of_type("process::Child", &[]),
    of_type("process::ChildStdin", &[]),
    of_type("process::ChildStdout", &[]),
    of_type("process::ChildStderr", &[]),
    of_module("io"),
    of_type("io::Stdin", &[]),
    of_type("io::StdinLock", &[]),
    of_type("io::Stdout", &[]),
    of_type("io::StdoutLock", &[]),
    of_type("io::Stderr", &[]),
    of_type("io::StderrLock", &[]),
    of_type("io::PipeReader", &[]),
    of_type("io::PipeWriter", &[]),
    of_module("sync"),
    of_type("sync::Mutex", &[]),
    of_type("sync::RwLock", &[]),
    of_type("sync::Condvar", &[]),
    of_type("sync::Barrier", &[]),
    of_type("sync::OnceLock", &[]),
    of_type("sync::LazyLock", &[]),
    of_type("sync::poison::Mutex", &[]),
    of_type("sync::poison::RwLock", &[]),
    of_type("sync::poison::Condvar", &[]),
];

/// Runs `cargo xtask twins`. With `write` the page is written instead of compared. With `refresh`
/// std's list is read again.
pub(crate) fn check(root: &Path, write: bool, refresh: bool) -> Outcome {
    match compare(root, write, refresh) {
        Ok(outcome) => outcome,
        Err(problem) => Outcome::broken(problem),
    }
}

fn compare(root: &Path, write: bool, refresh: bool) -> Result<Outcome, String> {
    if refresh {
        let text = theirs::read(TWINS)?;
        store(root, STD, &text)?;
    }
    let theirs = lists(&load(root, STD)?);
    let reasons = reasons(&load(root, LEFT_OUT)?)?;
    let ours = Ours::read(root)?;
    let mut page = String::from(HEAD);
    let mut problems = Vec::new();
    let (mut there_in_all, mut cases) = (0, 0);
    let list = signatures::list(&load(root, SIGNATURES)?);
    let others = signatures::others(root, &list)?;
    page.push_str(&signatures::section(&list, &others));
    for wrong in others
        .iter()
        .filter(|(module, _)| *module == "ecru::sync::poison")
        .flat_map(|(_, wrong)| wrong)
    {
        problems.push(format!(
            "ecru::sync::poison has no {} of type {}",
            list[*wrong].0, list[*wrong].1
        ));
    }
    let mut used = BTreeSet::new();
    for twin in TWINS {
        let names = theirs
            .get(twin.path)
            .ok_or_else(|| format!("{STD} has no line for {}: run with --refresh", twin.path))?;
        let own = match twin.kind {
            Kind::Type => ours.members(twin.path),
            Kind::Module => ours.items(twin.path),
        };
        let own = own.unwrap_or_default();
        cases += names.len();
        let there: Vec<_> = names.iter().filter(|name| own.all.contains(*name)).collect();
        there_in_all += there.len();
        let _ = writeln!(page, "\n## {}\n", twin.path);
        if own.is_stds {
            page.push_str("std's own type.\n");
            there_in_all += names.len() - there.len();
            continue;
        }
        let _ = writeln!(page, "{} of {}: {}", there.len(), names.len(), listed(&there));
        let mut missing = Vec::new();
        for name in names.iter().filter(|name| !own.all.contains(*name)) {
            let key = format!("{}::{name}", twin.path);
            match reasons.get(&key).or_else(|| reasons.get(&format!("{}::*", twin.path))) {
                Some(reason) => {
                    used.insert(key);
                    missing.push((name, reason));
                }
                None => problems
                    .push(format!("{key} is std's, not ecru's, and {LEFT_OUT} gives no reason")),
            }
        }
        if !missing.is_empty() {
            page.push_str("\n| not here | why |\n|---|---|\n");
            for (name, reason) in missing {
                let _ = writeln!(page, "| `{name}` | {reason} |");
            }
        }
        let beside: Vec<_> = own.inherent.iter().filter(|name| !names.contains(*name)).collect();
        if !beside.is_empty() {
            let _ = writeln!(page, "\nBeside std's: {}", listed(&beside));
        }
    }
    for key in reasons.keys().filter(|key| !key.ends_with("::*") && !used.contains(*key)) {
        problems
            .push(format!("{LEFT_OUT} excuses {key}, which is here, or which std does not have"));
    }
    let invariants = load(root, INVARIANTS)?;
    let ids = table::rows(&invariants, &["id", "invariant"]).into_iter().map(|(_, cells)| cells[0]);
    problems.extend(
        ours.implementers_text(&ids.collect())
            .into_iter()
            .map(|found| format!("{found} is for implementers, but is on a public page")),
    );
    if write {
        store(root, PAGE, &page)?;
    } else if load(root, PAGE)? != page {
        problems.push(format!("{PAGE} is stale: cargo xtask twins --write"));
    }
    let summary = format!(
        "{there_in_all} of {cases} of std's names are here, in {} types and modules",
        TWINS.len()
    );
    Ok(Outcome { cases, summary, problems })
}

const HEAD: &str = "\
# std's twins

This page lists which methods of std's types ecru's types have, and why others are missing. It is
written by `cargo xtask twins --write` from the documentation of both, and CI checks it. It counts
stable methods that are not deprecated, including those of the extension traits for Unix and Linux,
and trait implementations (`impl Read`). For a module it counts functions and types.
";

fn listed(names: &[&String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Parses `path: name name ..`, one per line. In a name with a space, the space is written as `_`:
/// `impl_Read`.
fn lists(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(path, names)| {
            let names = names.split(' ').map(|name| name.replace("impl_", "impl "));
            (path.to_owned(), names.collect())
        })
        .collect()
}

/// Parses `path::name = why`, one per line.
fn reasons(text: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (key, why) = line
                .split_once(" = ")
                .ok_or_else(|| format!("{LEFT_OUT}: no reason in `{line}`"))?;
            Ok((key.to_owned(), why.to_owned()))
        })
        .collect()
}

fn load(root: &Path, file: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}

fn store(root: &Path, file: &str, text: &str) -> Result<(), String> {
    std::fs::write(root.join(file), text).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_reasons_are_read() {
        let lists = lists("net::TcpStream: connect impl_Read\n");
        assert!(lists["net::TcpStream"].contains("impl Read"));
        let reasons = reasons("# why\n\nfs::File::x = because\n").unwrap();
        assert_eq!(reasons["fs::File::x"], "because");
        assert!(super::reasons("fs::File::x").is_err());
    }
}
