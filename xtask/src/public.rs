//! `cargo xtask public`: the public items of each published package are those of the stored list.
//!
//! A list has one line for each item, written by the crate `public-api`: a function with its whole
//! signature, a field, a variant, an implementation of a trait, `Send` and `Sync` among them. So a
//! change of what users see is a change of a file, and is seen in review.
//!
//! It also reads every public page, and fails if one names a layer or an invariant of
//! `doc/unsafe.md`, or if an item has no example: see [`examples_shown`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use public_api::{Builder, PublicApi};
use serde_json::Value;

use crate::examples_shown;
use crate::outcome::Outcome;
use crate::process::{cargo, run, target_folder};
use crate::table;
use crate::tree::Tree;

const FOLDER: &str = "xtask/data/public/";

/// Compares the lists, or writes them.
pub(crate) fn check(root: &Path, tree: &Tree, write: bool) -> Outcome {
    let (mut cases, mut packages, mut problems) = (0, 0, vec![]);
    let published = published(tree);
    let folder = match document(root, &published) {
        Ok(folder) => folder,
        Err(problem) => {
            return Outcome { cases, summary: "no package".into(), problems: vec![problem] };
        }
    };
    let mut lacking = vec![];
    for package in published {
        lacking.extend(without_example(&folder, package).unwrap_or_else(|problem| vec![problem]));
        match compare(root, &folder, package, write) {
            Ok((items, differences)) => {
                cases += items;
                packages += 1;
                problems.extend(differences);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        problems.push("if this is meant: cargo xtask public --write".into());
    }
    problems.extend(for_implementers(&folder, tree).unwrap_or_else(|problem| vec![problem]));
    problems.extend(lacking);
    Outcome { cases, summary: format!("{cases} public items of {packages} packages"), problems }
}

/// Returns the names of the library and of the members below crates/ that have a library.
fn published(tree: &Tree) -> Vec<&str> {
    let library = |manifest: &str| manifest.replace("Cargo.toml", "src/lib.rs");
    let members = tree
        .matching("crates/", "/Cargo.toml")
        .filter(|(manifest, _)| tree.text(&library(manifest)).is_ok());
    let manifests = tree.text("Cargo.toml").into_iter().chain(members.map(|(_, text)| text));
    manifests.filter_map(|manifest| manifest.split("name = \"").nth(1)?.split('"').next()).collect()
}

/// Returns how many items a package has, and how they differ from the stored ones.
fn compare(
    root: &Path,
    folder: &Path,
    package: &str,
    write: bool,
) -> Result<(usize, Vec<String>), String> {
    // Blanket implementations are of std's and say nothing of the package.
    let items = Builder::from_rustdoc_json(page(folder, package)).omit_blanket_impls(true).build();
    let items = list(&items.map_err(|error| format!("{package}: {error}"))?);
    let file = format!("{FOLDER}{package}.txt");
    if write {
        std::fs::create_dir_all(root.join(FOLDER)).map_err(|error| error.to_string())?;
        std::fs::write(root.join(&file), &items).map_err(|error| format!("{file}: {error}"))?;
        return Ok((items.lines().count(), vec![]));
    }
    let stored = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
    let differences = differences(&stored, &items);
    let named = differences.into_iter().map(|difference| format!("{file}: {difference}")).collect();
    Ok((items.lines().count(), named))
}

/// Documents the packages' libraries, and returns the folder of the JSON. Its format is an unstable
/// one, of the compiler that rust-toolchain.toml names.
///
/// One run documents all of them, in the folder and with the features of `cargo doc`, so that what
/// they depend on is not built again.
fn document(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let mut command = cargo(root, &["doc", "--quiet", "--lib", "--all-features", "--no-deps"]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    // The variable that lets a stable compiler do so makes build scripts run again, so only rustdoc
    // has it.
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    command.env("RUSTDOC", own).env(AS_RUSTDOC, "1");
    run(&mut command)?;
    Ok(target_folder(root, "doc"))
}

/// Set for the processes of this program that cargo starts instead of rustdoc.
pub(crate) const AS_RUSTDOC: &str = "ECRU_XTASK_AS_RUSTDOC";

/// Becomes rustdoc, which may use what is unstable. Returns why that failed.
pub(crate) fn become_rustdoc() -> std::io::Error {
    let mut command = std::process::Command::new("rustdoc");
    command.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").exec()
}

fn page(folder: &Path, package: &str) -> PathBuf {
    folder.join(format!("{}.json", package.replace('-', "_")))
}

/// Reads the JSON of a package.
fn pages(folder: &Path, package: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(page(folder, package)).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn without_example(folder: &Path, package: &str) -> Result<Vec<String>, String> {
    Ok(examples_shown::without_example(&pages(folder, package)?))
}

/// Returns where the library's public pages have text for implementers.
fn for_implementers(folder: &Path, tree: &Tree) -> Result<Vec<String>, String> {
    let rows = table::rows(tree.text("doc/unsafe.md")?, &["id", "invariant"]);
    let ids = rows.into_iter().map(|(_, cells)| cells[0]).collect();
    let pages = pages(folder, "ecru")?;
    let mut found = vec![];
    for item in pages["index"].as_object().into_iter().flat_map(|index| index.values()) {
        // The page on soundness is for readers who want the arguments.
        if item["crate_id"] != 0 || item["name"] == "soundness" {
            continue;
        }
        // The safety section of an unsafe function may cite an invariant.
        let docs = item["docs"].as_str().unwrap_or_default().split("# Safety").next();
        let (file, line) = (&item["span"]["filename"], &item["span"]["begin"][0]);
        let words = words_for_implementers(docs.unwrap_or_default(), &ids);
        found.extend(words.iter().map(|word| format!("{file}:{line}: a public page names {word}")));
    }
    found.sort();
    Ok(found)
}

/// Returns the layers and the ids of invariants that a text names.
fn words_for_implementers(docs: &str, ids: &BTreeSet<&str>) -> Vec<String> {
    let words: Vec<_> = docs.split(|c: char| !c.is_alphanumeric()).collect();
    let is_layer =
        |pair: &&[&str]| pair[0].eq_ignore_ascii_case("layer") && pair[1].parse::<u32>().is_ok();
    let layers = words.windows(2).filter(is_layer).map(|pair| pair.join(" "));
    layers.chain(words.iter().filter(|word| ids.contains(*word)).map(ToString::to_string)).collect()
}

/// Returns a line for each item.
fn list(items: &PublicApi) -> String {
    let lines = items.items().map(|item| format!("{item}\n"));
    lines.filter(|line| !is_private_to_std(line)).collect()
}

/// Returns true for implementations of traits that no program can name on a stable compiler.
fn is_private_to_std(line: &str) -> bool {
    ["core::marker::Freeze for ", "core::marker::UnsafeUnpin for "]
        .iter()
        .any(|private| line.starts_with("impl") && line.contains(private))
}

/// Returns the lines that only one of the lists has: `-` before those of the first, `+` before
/// those of the second.
fn differences(stored: &str, found: &str) -> Vec<String> {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    for line in stored.lines() {
        *counts.entry(line).or_default() -= 1;
    }
    for line in found.lines() {
        *counts.entry(line).or_default() += 1;
    }
    let signed = |(line, count): (&str, i32)| match count {
        0 => None,
        1.. => Some(format!("+{line}")),
        _ => Some(format!("-{line}")),
    };
    counts.into_iter().filter_map(signed).collect()
}

#[cfg(test)]
mod tests {
    use super::{differences, is_private_to_std, published, words_for_implementers};
    use crate::tree::Tree;

    #[test]
    fn what_only_one_list_has_is_shown() {
        assert_eq!(differences("a\nb\nb\nc\n", "a\nb\nd\n"), ["-b", "-c", "+d"]);
        assert_eq!(differences("a\n", "a\n"), [""; 0]);
    }

    #[test]
    fn text_for_implementers_is_found() {
        let ids = ["S2", "C1"].into();
        let found = |docs| words_for_implementers(docs, &ids);
        assert_eq!(found("Layer 3: what a task is (S2)."), ["Layer 3", "S2"]);
        assert_eq!(found("A layer. Three of S22 and C10."), [""; 0]);
    }

    #[test]
    fn published_packages_are_found() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[package]\nname = \"one\"\n[workspace]"),
            ("crates/two/Cargo.toml", "[package]\nname = \"two\"\n"),
            ("crates/two/src/lib.rs", ""),
            ("crates/tool/Cargo.toml", "[package]\nname = \"tool\"\n"),
            ("bench/Cargo.toml", "[package]\nname = \"three\"\n"),
        ]);
        assert_eq!(published(&tree), ["one", "two"]);
    }

    #[test]
    fn traits_that_cannot_be_named_are_left_out() {
        assert!(is_private_to_std("impl<T> core::marker::Freeze for ecru::A<T>\n"));
        assert!(!is_private_to_std("impl<T> core::marker::Send for ecru::A<T>\n"));
        assert!(!is_private_to_std("impl !core::marker::Send for ecru::A<T>\n"));
    }
}
