//! The files that the checks read: the working tree, or a small made-up tree in the checks' own
//! tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Text files by their path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the Rust, Markdown and TOML files under `root`, except hidden folders and build
    /// output. Of other files it keeps the paths only.
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.starts_with('.') || name == "target" {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let relative = path.strip_prefix(root).expect("it was found under the root");
                    let is_read = [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end));
                    let text = if is_read { fs::read_to_string(&path)? } else { String::new() };
                    tree.files.insert(relative.to_string_lossy().into_owned(), text);
                }
            }
        }
        Ok(tree)
    }

    /// Creates a tree of these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|&(path, text)| (path.into(), text.into())).collect() }
    }

    /// Returns the text of a file that must exist.
    pub(crate) fn text(&self, path: &str) -> Result<&str, String> {
        self.files.get(path).map(String::as_str).ok_or_else(|| format!("{path} is missing"))
    }

    /// Returns whether there is such a file, or a folder with files.
    pub(crate) fn has(&self, path: &str) -> bool {
        let is_in = |file: &String| file.strip_prefix(path).is_some_and(|r| r.starts_with('/'));
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(is_in)
    }

    /// Returns the library's source, without the models. Models are tests, use loom throughout, and
    /// break every rule of access on purpose so that loom notices.
    pub(crate) fn library(&self) -> impl Iterator<Item = (&str, &str)> {
        self.matching("src/", ".rs").filter(|(path, _)| !path.ends_with("/loom_models.rs"))
    }

    /// Returns the files whose paths begin with `prefix` and end with `suffix`.
    pub(crate) fn matching(
        &self,
        prefix: &str,
        suffix: &str,
    ) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.starts_with(prefix) && path.ends_with(suffix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

/// Returns the path of the module of a file under src/, which is empty for the crate root.
pub(crate) fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_prefix("src/").unwrap_or(file).trim_end_matches(".rs");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}
