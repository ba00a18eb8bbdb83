//! `cargo xtask layers` checks that the code keeps to the layers in ARCHITECTURE.md.
//!
//! A module here is one that `src/lib.rs` declares. A module names only modules of lower layers,
//! tests included.
//!
//! Items that only one part of the library may use (atomics, the clock, each third-party crate)
//! have a row in its table of restricted dependencies. The row, called a door here, names the modules
//! that use them, and no others. Modules called `tests` may use them, too. A door is one of three:
//! - A path, such as `std::fs`, and all paths that begin with it. If several doors fit, the longest
//!   counts. So `std::fs::Metadata` may have a row of its own.
//! - A path that ends with `[A-Z]*`, such as `libc::[A-Z]*`: the names that begin with a capital
//!   and have no row of their own.
//! - A method, such as `.elapsed`, whatever type it is called on.
//!
//! The modules of a row may be parts of modules, such as `base::clock`.

use crate::outcome::Outcome;
use crate::paths::named;
use crate::syntax;
use crate::table;
use crate::tree::{Tree, module_of};
use std::collections::{BTreeMap, BTreeSet};

const PROSE: &str = "ARCHITECTURE.md";
const LAYERS: [&str; 3] = ["layer", "modules", "job"];
const DOORS: [&str; 3] = ["item", "modules", "why"];

/// The end of a door that stands for all names that begin with a capital.
const CAPITALS: &str = "[A-Z]*";

/// An item that only some modules may use: its path.
type Door = Vec<String>;

/// A module that may use a door: its path from the crate root.
type Right = Vec<String>;

/// For each module, the modules that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Reads the tables and the sources, and compares them.
pub(crate) fn check(tree: &Tree) -> Outcome {
    let read = || {
        Ok::<_, String>((
            layers(tree.text(PROSE)?)?,
            doors(tree.text(PROSE)?),
            dependencies(tree.text("Cargo.toml")?),
        ))
    };
    let (layers, doors, dependencies) = match read() {
        Ok(tables) => tables,
        Err(problem) => return Outcome::broken(problem),
    };
    let mut check = Check {
        layers: &layers,
        doors: &doors,
        graph: modules(tree),
        used: BTreeSet::new(),
        problems: vec![],
    };
    check.compare_tables(&dependencies);
    check.read_sources(tree);
    check.find_unused_doors();
    let (modules, edges) =
        (check.graph.len(), check.graph.values().map(BTreeSet::len).sum::<usize>());
    Outcome {
        // A graph without edges means that nothing was read, or that there are no modules to
        // separate yet.
        cases: if modules == 0 { 0 } else { edges },
        summary: format!(
            "{modules} modules in {} layers, {edges} edges, {} doors",
            layers.values().collect::<BTreeSet<_>>().len(),
            doors.len()
        ),
        problems: check.problems,
    }
}

struct Check<'a> {
    layers: &'a BTreeMap<String, u32>,
    doors: &'a BTreeMap<Door, BTreeSet<Right>>,
    graph: Graph,
    /// The doors, and the rights that are used.
    used: BTreeSet<(Door, Right)>,
    problems: Vec<String>,
}

impl Check<'_> {
    fn compare_tables(&mut self, dependencies: &[String]) {
        for module in self.graph.keys().filter(|m| !self.layers.contains_key(*m)) {
            self.problems.push(format!("{PROSE}: `{module}` is in src/ but in no layer"));
        }
        for module in self.layers.keys().filter(|m| !self.graph.contains_key(*m)) {
            self.problems.push(format!(
                "{PROSE}: the layer table names `{module}`, which src/ does not have"
            ));
        }
        for name in
            dependencies.iter().filter(|&n| !self.doors.contains_key(std::slice::from_ref(n)))
        {
            self.problems.push(format!(
                "{PROSE}: the dependency `{name}` has no row among the restricted dependencies"
            ));
        }
    }

    fn read_sources(&mut self, tree: &Tree) {
        for (file, source) in tree.library() {
            let module = module_of(file);
            let mut seen = BTreeSet::new();
            let parsed = match syntax::parse(file, source) {
                Ok(parsed) => parsed,
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            for path in named(&parsed, &module)
                .iter()
                .filter(|path| seen.insert((path.line, path.segments.clone())))
            {
                let place = format!("{file}:{}", path.line);
                match path.segments[0].as_str() {
                    "crate" | "ecru" => {
                        self.inward(&place, module.first(), &path.segments, path.is_macro)
                    }
                    _ if path.module.iter().any(|m| m == "tests") => {}
                    _ => self.outward(&place, &path.module, &path.segments),
                }
            }
        }
    }

    /// Checks a path within the crate.
    fn inward(&mut self, place: &str, from: Option<&String>, path: &[String], is_macro: bool) {
        // The crate root uses all modules and is not a module itself.
        let Some(from) = from else { return };
        let to = path.get(1).map_or("", String::as_str);
        if to == from || (path.len() == 2 && is_macro) {
            return;
        }
        if !self.graph.contains_key(to) {
            let path = path.join("::");
            self.problems.push(format!(
                "{place}: `{path}` goes through the crate root; name the module that has it"
            ));
            return;
        }
        self.graph.entry(from.clone()).or_default().insert(to.to_owned());
        if let (Some(own), Some(other)) = (self.layers.get(from), self.layers.get(to))
            && other >= own
        {
            self.problems
                .push(format!("{place}: `{from}` (layer {own}) names `{to}` (layer {other})"));
        }
    }

    /// Checks a path out of the crate.
    fn outward(&mut self, place: &str, from: &[String], path: &[String]) {
        let mut path = path.to_vec();
        if matches!(path[0].as_str(), "core" | "alloc") {
            path[0] = "std".into();
        }
        for door in doors_to(self.doors, &path) {
            let rights = &self.doors[&door];
            let right =
                rights.iter().filter(|right| from.starts_with(right)).max_by_key(|r| r.len());
            if let Some(right) = right {
                self.used.insert((door, right.clone()));
                continue;
            }
            let from = from.first().map_or("the crate root", String::as_str);
            let rights: Vec<String> = rights.iter().map(|right| right.join("::")).collect();
            let rights = match rights.join(", ") {
                rights if rights.is_empty() => String::from("no module may"),
                rights => format!("only {rights} may"),
            };
            self.problems.push(format!("{place}: {from} uses `{}`; {rights}", door.join("::")));
        }
    }

    /// Reports modules that a row of that table lists and that do not use the door.
    fn find_unused_doors(&mut self) {
        for (door, rights) in self.doors {
            for right in rights {
                if !self.used.contains(&(door.clone(), right.clone())) {
                    self.problems.push(format!(
                        "{PROSE}: the door `{}` admits `{}`, which does not use it",
                        door.join("::"),
                        right.join("::")
                    ));
                }
            }
        }
    }
}

/// Returns the doors that a path goes through. Besides a door that fits the path, these are the
/// doors that the path brings into scope by a `*`, and a method that is called by its full name.
fn doors_to(doors: &BTreeMap<Door, BTreeSet<Right>>, path: &[String]) -> BTreeSet<Door> {
    let fits = |door: &&Door| match door.split_last() {
        Some((last, parent)) if last == CAPITALS => {
            path.starts_with(parent)
                && path.get(parent.len()).is_some_and(|name| name.starts_with(char::is_uppercase))
        }
        _ => path.starts_with(door),
    };
    let narrowness = |door: &&Door| (door.len(), door.last().is_some_and(|last| last != CAPITALS));
    let narrowest = doors.keys().filter(fits).max_by_key(narrowness);
    let mut found: BTreeSet<Door> = narrowest.cloned().into_iter().collect();
    match path {
        [parent @ .., star] if star == "*" => {
            let inside = |door: &&Door| door.len() > parent.len() && door.starts_with(parent);
            found.extend(doors.keys().filter(inside).cloned());
        }
        [.., owner, method] if owner.starts_with(char::is_uppercase) => {
            found.extend(doors.get_key_value(&vec![format!(".{method}")]).map(|(d, _)| d.clone()));
        }
        _ => {}
    }
    found
}

fn layers(prose: &str) -> Result<BTreeMap<String, u32>, String> {
    let mut layers = BTreeMap::new();
    for (line, cells) in table::rows(prose, &LAYERS) {
        let layer = cells[0]
            .parse()
            .map_err(|_| format!("{PROSE}:{line}: `{}` is not a layer number", cells[0]))?;
        for module in table::code(cells[1]) {
            if layers.insert(module.to_owned(), layer).is_some() {
                return Err(format!("{PROSE}:{line}: `{module}` is in two layers"));
            }
        }
    }
    if layers.is_empty() {
        return Err(format!("{PROSE} has no table `| {} |`", LAYERS.join(" | ")));
    }
    Ok(layers)
}

fn doors(prose: &str) -> BTreeMap<Door, BTreeSet<Right>> {
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    let mut doors: BTreeMap<_, BTreeSet<Right>> = BTreeMap::new();
    for (_, cells) in table::rows(prose, &DOORS) {
        for door in table::code(cells[0]) {
            doors.entry(path(door)).or_default().extend(table::code(cells[1]).map(path));
        }
    }
    doors
}

/// Returns the names of the library's own dependencies, as written in source code.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = vec![];
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[dependencies]"
                || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if let Some((name, _)) =
            line.split_once('=').filter(|_| inside && !line.starts_with('#'))
        {
            let name = name.trim().split('.').next().unwrap_or_default();
            names.push(name.replace('-', "_"));
        }
    }
    names
}

/// Returns the modules directly under src/, without edges.
fn modules(tree: &Tree) -> Graph {
    tree.matching("src/", ".rs")
        .filter_map(|(file, _)| module_of(file).first().cloned())
        .map(|m| (m, BTreeSet::new()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::outcome::Outcome;
    use crate::tree::Tree;

    const PROSE: &str = "\
| layer | modules | job |
|---|---|---|
| 0 | `base` | ground |
| 1 | `park` | waiting |
| 2 | `net`, `time` | leaves |

| item | modules | why |
|---|---|---|
| `std::sync::atomic` | `base` | loom |
| `libc` | `net` | calls |
";
    const MANIFEST: &str = "[dependencies]\nlibc = \"1\"\n\n[dev-dependencies]\nfastrand = \"2\"\n";

    /// Checks a valid tree in which `park` has this source, with the `extra` files added.
    fn with(park: &str, extra: &[(&str, &str)]) -> Outcome {
        let mut files = vec![
            ("ARCHITECTURE.md", PROSE),
            ("Cargo.toml", MANIFEST),
            (
                "src/lib.rs",
                "mod base; mod net; mod park; mod time; pub use net::T; pub use crate::park::W;",
            ),
            ("src/base/mod.rs", "use std::sync::atomic::AtomicU8;"),
            ("src/park/mod.rs", park),
            ("src/net/mod.rs", "use crate::park::W; use libc::c_int; mod deep;"),
            ("src/net/deep/tcp.rs", "use super::super::Own; use super::super::super::base::list;"),
            ("src/time.rs", "use crate::base::x;"),
        ];
        files.extend(extra);
        check(&Tree::of(&files))
    }

    #[test]
    fn a_sound_tree_stands() {
        let outcome = with("use crate::base::list; // crate::net", &[]);
        assert_eq!(outcome.problems, [""; 0]);
        assert_eq!(outcome.summary, "4 modules in 3 layers, 4 edges, 2 doors");
        assert!(outcome.stands());
    }

    #[test]
    fn an_upward_use_is_found_however_it_is_written() {
        for source in [
            "use crate::net::T;",
            "use crate::{base::list, net::{self, T}};",
            "use super::net;",
            "mod inner { use super::super::net::T; }",
            "fn f() { crate::net::go(); }",
            "pub(in crate::net) fn f() {}",
            "#[cfg(test)] mod tests { use crate::net::T; }",
            "macro_rules! m { () => { $crate::net::go() } }",
            "fn f() { ecru::net::go(); }",
        ] {
            with(source, &[]).complains("`park` (layer 1) names `net` (layer 2)");
        }
        let sibling = with("", &[("src/time.rs", "use crate::net::T;")]);
        sibling.complains("`time` (layer 2) names `net` (layer 2)");
    }

    #[test]
    fn the_crate_root_is_no_way_round() {
        with("use crate::T;", &[]).complains("goes through the crate root");
        with("use crate::*;", &[]).complains("goes through the crate root");
        with("use super::{T, base};", &[]).complains("goes through the crate root");
    }

    #[test]
    fn table_and_tree_name_the_same_modules() {
        with("", &[("src/fresh.rs", "")]).complains("`fresh` is in src/ but in no layer");
        let short =
            Tree::of(&[("ARCHITECTURE.md", PROSE), ("Cargo.toml", MANIFEST), ("src/base.rs", "")]);
        check(&short).complains("names `park`, which src/ does not have");
    }

    #[test]
    fn doors_are_kept() {
        for source in [
            "use std::sync::atomic::AtomicU8;",
            "use core::sync::atomic;",
            "use std::sync::{Arc, atomic::{self, Ordering}};",
            "use std::sync; fn f() { sync::atomic::fence(o) }",
            "fn f() { core::sync::atomic::fence(o) }",
        ] {
            with(source, &[]).complains("park uses `std::sync::atomic`; only base may");
        }
        with("fn f() { libc::getpid() }", &[]).complains("park uses `libc`; only net may");
        assert!(with("mod tests { use std::sync::atomic::AtomicU8; }", &[]).stands());
    }

    #[test]
    fn a_door_admits_only_modules_that_use_it() {
        let prose = PROSE.replace("| `libc` | `net` |", "| `libc` | `net`, `time` |");
        let outcome = with("", &[("ARCHITECTURE.md", &prose)]);
        outcome.complains("the door `libc` admits `time`, which does not use it");
    }

    /// Checks a tree whose table has the row, and in which `park` has this source.
    fn with_row(row: &str, park: &str) -> Outcome {
        let prose = format!("{PROSE}{row}\n");
        with(park, &[("ARCHITECTURE.md", &prose)])
    }

    #[test]
    fn of_two_doors_the_longer_counts() {
        let row = "| `libc::c_int` | `park`, `net` | data |";
        assert_eq!(
            with_row(row, "use libc::c_int;").problems,
            ["ARCHITECTURE.md: the door `libc` admits `net`, which does not use it"]
        );
        with_row(row, "use libc::c_uint;").complains("park uses `libc`; only net may");
    }

    #[test]
    fn capitals_may_be_a_door() {
        let row = "| `libc::[A-Z]*` | `park` | constants |";
        assert_eq!(with_row(row, "fn f() { g(libc::EINTR) }").problems, [""; 0]);
        with_row(row, "fn f() { libc::read() }").complains("park uses `libc`; only net may");
        with_row(row, "").complains("the door `libc::[A-Z]*` admits `park`, which does not use it");
        let row = "| `libc::[A-Z]*` | `park` | constants |\n| `libc::EIO` | none | not this one |";
        with_row(row, "fn f() { g(libc::EIO) }").complains("park uses `libc::EIO`; no module may");
    }

    #[test]
    fn a_method_may_be_a_door() {
        let row = "| `.elapsed` | `base` | the clock |";
        for source in [
            "fn f(x: T) { x.elapsed(); }",
            "fn f(x: T) { assert!(x.elapsed() < y); }",
            "use std::time::Instant; fn f(x: &T) { Instant::elapsed(x); }",
        ] {
            with_row(row, source).complains("park uses `.elapsed`; only base may");
        }
        let outcome = with_row("| `.elapsed` | `park` | the clock |", "fn f() { x.elapsed(); }");
        assert_eq!(outcome.problems, [""; 0]);
        with_row("| `.elapsed` | `park` | the clock |", "fn f() { elapsed(); }")
            .complains("the door `.elapsed` admits `park`, which does not use it");
    }

    #[test]
    fn a_star_goes_through_every_door_behind_it() {
        let row = "| `std::net::TcpStream` | none | sockets |";
        with_row(row, "use std::net::*;")
            .complains("park uses `std::net::TcpStream`; no module may");
        assert_eq!(with_row(row, "use std::net::TcpList;").problems, [""; 0]);
    }

    #[test]
    fn a_right_may_be_that_of_a_part_of_a_module() {
        let deep = |row: &str, source: &str| {
            let prose = PROSE.replace("| `libc` | `net` |", row);
            with(
                "",
                &[
                    ("ARCHITECTURE.md", &prose),
                    ("src/net/mod.rs", "mod deep; use crate::park::W;"),
                    ("src/net/deep/tcp.rs", source),
                ],
            )
        };
        let row = "| `libc` | `net::deep` |";
        assert_eq!(deep(row, "use libc::c_int;").problems, [""; 0]);
        deep(row, "").complains("the door `libc` admits `net::deep`, which does not use it");
        with("", &[("ARCHITECTURE.md", &PROSE.replace("| `libc` | `net` |", row))])
            .complains("src/net/mod.rs:1: net uses `libc`; only net::deep may");
        // The right of the whole module is unused if a part has a right of its own.
        deep("| `libc` | `net`, `net::deep` |", "use libc::c_int;")
            .complains("the door `libc` admits `net`, which does not use it");
        deep("| `libc` | `net::lost` |", "")
            .complains("the door `libc` admits `net::lost`, which does not use it");
    }

    #[test]
    fn a_dependency_needs_a_door() {
        let manifest =
            "[dependencies]\nlibc = \"1\"\n[target.'cfg(unix)'.dependencies]\nio-uring = \"1\"\n";
        with("", &[("Cargo.toml", manifest)]).complains("the dependency `io_uring` has no row");
    }

    #[test]
    fn nothing_read_is_a_failure() {
        assert!(!check(&Tree::of(&[])).stands());
        assert!(
            !check(&Tree::of(&[("ARCHITECTURE.md", PROSE), ("Cargo.toml", MANIFEST)])).stands()
        );
        let prose = "| layer | modules | job |\n|---|---|---|\n| 0 | `base` | ground |\n";
        let lone = Tree::of(&[("ARCHITECTURE.md", prose), ("Cargo.toml", ""), ("src/base.rs", "")]);
        assert!(!check(&lone).stands(), "no edge was read");
    }
}
