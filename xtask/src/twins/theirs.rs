//! std's side: the pages of its documentation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kind, Twin};

/// Traits that are worth listing. The other traits follow automatically.
const TELLING: &[&str] = &[
    "Read",
    "Write",
    "Seek",
    "BufRead",
    "AsFd",
    "AsRawFd",
    "FromRawFd",
    "IntoRawFd",
    "Debug",
    "Default",
    "IsTerminal",
    "ToSocketAddrs",
    "Clone",
    "Iterator",
];

/// Returns the list, one line for each twin.
pub(super) fn read(twins: &[Twin]) -> Result<String, String> {
    let folder = documentation()?;
    let mut text = String::new();
    for twin in twins {
        let mut names = match twin.kind {
            Kind::Module => functions_and_types(&folder.join(twin.path.replace("::", "/")))?,
            Kind::Type => members(
                &page(&folder, twin.path)?,
                twin.path.rsplit("::").next().unwrap_or_default(),
            ),
        };
        for extension in twin.extensions {
            names.extend(required_and_provided(&page(&folder, extension)?));
        }
        let names: Vec<_> = names.iter().map(|name| name.replace(' ', "_")).collect();
        text.push_str(&format!("{}: {}\n", twin.path, names.join(" ")));
    }
    Ok(text)
}

fn documentation() -> Result<PathBuf, String> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| error.to_string())?;
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = Path::new(&sysroot).join("share/doc/rust/html/std");
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err("std's documentation is not installed: rustup component add rust-docs".into())
    }
}

fn page(folder: &Path, path: &str) -> Result<String, String> {
    let (module, name) = path.rsplit_once("::").ok_or("a path has two parts")?;
    let modules =
        if name.starts_with("Unix") { "os/unix/net".into() } else { module.replace("::", "/") };
    let candidates =
        ["struct", "trait"].map(|kind| folder.join(&modules).join(format!("{kind}.{name}.html")));
    let found = candidates
        .iter()
        .find(|file| file.is_file())
        .ok_or_else(|| format!("std has no page for {path}"))?;
    std::fs::read_to_string(found).map_err(|error| error.to_string())
}

/// Returns the items whose pages are in a module's folder and not marked as nightly or deprecated.
fn functions_and_types(folder: &Path) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let parts: Vec<_> = file.split('.').collect();
        if let ["fn" | "struct" | "enum" | "trait", name, "html"] = parts[..] {
            let text = std::fs::read_to_string(entry.path()).map_err(|error| error.to_string())?;
            let head = text.split("</details>").next().unwrap_or_default();
            let begin = head.find("id=\"main-content\"").unwrap_or(0);
            if !is_marked(&head[begin..]) {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}

fn is_marked(text: &str) -> bool {
    text.contains("class=\"stab unstable\"") || text.contains("class=\"stab deprecated\"")
}

/// Returns a type's own stable methods, and the listed traits.
fn members(page: &str, name: &str) -> BTreeSet<String> {
    // The rest of the page is about traits, and about the types to which this type dereferences.
    let own = page.split("id=\"trait-implementations\"").next().unwrap_or(page);
    let own = own.split("id=\"deref-methods").next().unwrap_or(own);
    let mut names = sections(own, "id=\"method.");
    for rest in page.split("id=\"impl-").skip(1) {
        let id = rest.split('"').next().unwrap_or_default();
        for telling in TELLING {
            if id.strip_prefix(telling).is_some_and(|rest| {
                rest == format!("-for-{name}") || rest.starts_with(&format!("-for-{name}%3C"))
            }) {
                names.insert(format!("impl {telling}"));
            }
        }
    }
    names
}

fn required_and_provided(page: &str) -> BTreeSet<String> {
    let own = page.split("id=\"implementors\"").next().unwrap_or(page);
    let mut names = sections(own, "id=\"tymethod.");
    names.extend(sections(own, "id=\"method."));
    names
}

/// Returns the names of the sections with such an id that are not marked.
fn sections(text: &str, id: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let parts: Vec<_> = text.split(id).skip(1).collect();
    for part in parts {
        let name = part.split('"').next().unwrap_or_default();
        // The section's own head ends where its description begins, or otherwise where the next
        // section begins.
        let head = part.split("<div class=\"docblock\">").next().unwrap_or(part);
        let head = head.split("<section id=").next().unwrap_or(head);
        if !is_marked(head) {
            // A second method of the same name, in another impl block, is called `name-1`.
            names.insert(name.split('-').next().unwrap_or(name).to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_methods_are_left_out() {
        let page = r#"<section id="method.a" class="method"></section><div class="docblock">x</div>
            <section id="method.b" class="method"></section><div class="stab unstable"></div><div class="docblock">y</div>
            <h2 id="trait-implementations"></h2><section id="impl-Read-for-T"></section><section id="method.read"></section>"#;
        let names = members(page, "T");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "impl Read"]);
    }
}
