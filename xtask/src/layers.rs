//! `cargo xtask layers` checks that the code keeps to the layers in ARCHITECTURE.md.
//!
//! A module here is one that `src/lib.rs` declares. A module names only modules of lower layers,
//! tests included. Items that only one part of the library may use (atomics, the clock, each
//! third-party crate) have a row among the doors. The row names the modules that use them, and no
//! others. Modules called `tests` may use them, too.

use crate::outcome::Outcome;
use crate::paths::named;
use crate::syntax;
use crate::table;
use crate::tree::{Tree, module_of};
use std::collections::{BTreeMap, BTreeSet};

const PROSE: &str = "ARCHITECTURE.md";
const LAYERS: [&str; 3] = ["layer", "modules", "job"];
const DOORS: [&str; 3] = ["door", "modules", "why"];

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
    let cycle = largest_cycle(&check.graph);
    if cycle > 1 {
        check.problems.push(format!(
            "{cycle} modules name each other in a circle; the largest cycle must be 1 (none)"
        ));
    }
    Outcome {
        // A graph without edges means that nothing was read, or that there are no modules to
        // separate yet.
        cases: if modules == 0 { 0 } else { edges },
        summary: format!(
            "{modules} modules in {} layers, {edges} edges, {} doors; largest import cycle {cycle}",
            layers.values().collect::<BTreeSet<_>>().len(),
            doors.len()
        ),
        problems: check.problems,
    }
}

struct Check<'a> {
    layers: &'a BTreeMap<String, u32>,
    doors: &'a BTreeMap<Vec<String>, BTreeSet<String>>,
    graph: Graph,
    /// The doors, and the modules that use them.
    used: BTreeSet<(Vec<String>, String)>,
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
        for (door, modules) in self.doors {
            for module in modules.iter().filter(|m| !self.graph.contains_key(*m)) {
                self.problems.push(format!(
                    "{PROSE}: the door `{}` names `{module}`, which src/ does not have",
                    door.join("::")
                ));
            }
        }
        for name in
            dependencies.iter().filter(|&n| !self.doors.contains_key(std::slice::from_ref(n)))
        {
            self.problems
                .push(format!("{PROSE}: the dependency `{name}` has no row among the doors"));
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
                    _ => self.outward(&place, module.first(), &path.segments),
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
    fn outward(&mut self, place: &str, from: Option<&String>, path: &[String]) {
        let mut path = path.to_vec();
        if matches!(path[0].as_str(), "core" | "alloc") {
            path[0] = "std".into();
        }
        for (door, modules) in self.doors.iter().filter(|(door, _)| path.starts_with(door)) {
            if let Some(from) = from.filter(|&from| modules.contains(from)) {
                self.used.insert((door.clone(), from.clone()));
            } else {
                let from = from.map_or("the crate root", String::as_str);
                let modules = match modules.iter().cloned().collect::<Vec<_>>().join(", ") {
                    modules if modules.is_empty() => String::from("no module may"),
                    modules => format!("only {modules} may"),
                };
                self.problems
                    .push(format!("{place}: {from} uses `{}`; {modules}", door.join("::")));
            }
        }
    }

    /// Reports modules that a row among the doors lists and that do not use the door.
    fn find_unused_doors(&mut self) {
        for (door, modules) in self.doors {
            for module in modules.iter().filter(|m| self.graph.contains_key(*m)) {
                if !self.used.contains(&(door.clone(), module.clone())) {
                    self.problems.push(format!(
                        "{PROSE}: the door `{}` admits `{module}`, which does not use it",
                        door.join("::")
                    ));
                }
            }
        }
    }
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

fn doors(prose: &str) -> BTreeMap<Vec<String>, BTreeSet<String>> {
    let mut doors: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (_, cells) in table::rows(prose, &DOORS) {
        for door in table::code(cells[0]) {
            let door = door.split("::").map(str::to_owned).collect();
            doors.entry(door).or_default().extend(table::code(cells[1]).map(str::to_owned));
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

/// Returns the size of the largest group of modules in which each module leads to each other.
fn largest_cycle(graph: &Graph) -> usize {
    let reached: BTreeMap<_, _> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let group = |a| {
        graph
            .keys()
            .filter(|&b| b == a || (reached[a].contains(b) && reached[b].contains(a)))
            .count()
    };
    graph.keys().map(group).max().unwrap_or(0)
}

fn reachable<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        open.extend(graph.get(next).into_iter().flatten().filter(|to| seen.insert(*to)));
    }
    seen
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

| door | modules | why |
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
        assert_eq!(
            outcome.summary,
            "4 modules in 3 layers, 4 edges, 2 doors; largest import cycle 1"
        );
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
    }

    #[test]
    fn siblings_do_not_name_each_other() {
        let outcome = with("", &[("src/time.rs", "use crate::net::T;")]);
        outcome.complains("`time` (layer 2) names `net` (layer 2)");
    }

    #[test]
    fn a_circle_is_counted() {
        with("use crate::net::T;", &[]).complains("2 modules name each other in a circle");
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

    #[test]
    fn a_function_may_be_a_door() {
        let row = "| `std::time::Instant::now` | `base` | the clock |\n";
        let base = (
            "src/base/mod.rs",
            "use std::sync::atomic::AtomicU8; use std::time::Instant; fn f() { Instant::now(); }",
        );
        let prose = format!("{PROSE}{row}");
        let outcome = |park| with(park, &[("ARCHITECTURE.md", &prose), base]);
        assert_eq!(outcome("use crate::base::list;").problems, [""; 0]);
        outcome("use std::time::Instant; fn f() { Instant::now(); }")
            .complains("park uses `std::time::Instant::now`; only base may");
        outcome("fn f() { core::time::Instant::now(); }").complains("only base may");
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
