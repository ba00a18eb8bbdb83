//! Signatures: which of std's signatures ecru has unchanged. Each is compiled as a constant, with
//! std's types and with ecru's.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::process::{cargo, target_folder};

/// The modules with which each signature is compiled. The signatures come from the first.
const MODULES: [&str; 3] = ["std::sync", "ecru::sync", "ecru::sync::poison"];

/// The types that a signature may name: types of the module, and types that are always std's.
const TYPES: &str = "Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, \
                     RwLockWriteGuard, WaitTimeoutResult";

/// One line of the list: a path and its type.
pub(super) type Signature = (String, String);

/// Parses `path = type`, one per line.
pub(super) fn list(text: &str) -> Vec<Signature> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(path, kind)| (path.to_owned(), kind.to_owned()))
        .collect()
}

/// Returns a source file in which signature `n` is on line `n + 1`.
fn source(module: &str, signatures: &[Signature]) -> String {
    let mut text = String::new();
    let imports = format!(
        "use {module}::{{{TYPES}}}; use std::sync::{{LockResult, TryLockResult}}; use std::time::Duration;"
    );
    for (number, (path, kind)) in signatures.iter().enumerate() {
        let before = if number == 0 { &*imports } else { "" };
        let _ = writeln!(text, "{before} const _: {kind} = {path};");
    }
    text
}

/// Returns the signatures that do not compile, for each of [`MODULES`] after the first.
pub(super) fn others(
    root: &Path,
    signatures: &[Signature],
) -> Result<Vec<(&'static str, BTreeSet<usize>)>, String> {
    let folder = target_folder(root, "rustdoc").join("signatures");
    let text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder.join("src")).map_err(text)?;
    let manifest = format!(
        "[package]\nname = \"signatures\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\necru.path = {:?}\n[workspace]\n",
        root.display().to_string()
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(text)?;
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(text)?;
    let mut library = String::from("#![allow(warnings)]\n");
    for (number, module) in MODULES.iter().enumerate() {
        let _ = writeln!(library, "mod m{number};");
        let file = folder.join(format!("src/m{number}.rs"));
        std::fs::write(file, source(module, signatures)).map_err(text)?;
    }
    std::fs::write(folder.join("src/lib.rs"), library).map_err(text)?;
    let mut command = cargo(&folder, &["check", "--quiet", "--message-format", "json"]);
    command.env("CARGO_TARGET_DIR", target_folder(root, "rustdoc"));
    let output = command.output().map_err(text)?;
    let errors = errors(&String::from_utf8_lossy(&output.stdout))?;
    // A module alone compiles, or has errors with places. Any other result is a failure of the
    // check.
    if !output.status.success() && errors.iter().all(BTreeSet::is_empty) {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let [theirs, ours @ ..] = &errors[..] else { unreachable!("there are {}", MODULES.len()) };
    if let Some(wrong) = theirs.first() {
        let (path, kind) = &signatures[*wrong];
        return Err(format!("std has no `{path}` of type `{kind}`"));
    }
    Ok(MODULES[1..].iter().copied().zip(ours.iter().cloned()).collect())
}

/// Returns the signatures with errors, for each module.
fn errors(messages: &str) -> Result<[BTreeSet<usize>; MODULES.len()], String> {
    let mut found = std::array::from_fn(|_| BTreeSet::new());
    for line in messages.lines() {
        let json: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let message = &json["message"];
        if message["level"] != "error" {
            continue;
        }
        for span in message["spans"].as_array().into_iter().flatten() {
            let file = span["file_name"].as_str().unwrap_or_default();
            let module = (0..MODULES.len()).find(|n| file.ends_with(&format!("m{n}.rs")));
            if let (Some(module), Some(line), true) =
                (module, span["line_start"].as_u64(), span["is_primary"] == true)
            {
                found[module].insert(line as usize - 1);
            }
        }
    }
    Ok(found)
}

/// Returns the section of the page.
pub(super) fn section(
    signatures: &[Signature],
    others: &[(&'static str, BTreeSet<usize>)],
) -> String {
    let mut text = String::from(
        "\n## What compiles unchanged\n\nThe rest of this page counts names. For std's locks, this table \
         counts signatures. Those in\n`xtask/data/std-signatures.txt` compile with `std::sync`. The \
         table says how many of them compile\nunchanged with another import.\n\n\
         | import | signatures | not |\n|---|---|---|\n",
    );
    for (module, wrong) in others {
        let names: Vec<_> = wrong.iter().map(|n| format!("`{}`", signatures[*n].0)).collect();
        let (same, all) = (signatures.len() - wrong.len(), signatures.len());
        let _ = writeln!(text, "| `{module}` | {same} of {all} | {} |", names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_module_and_line() {
        let message = |level: &str, file: &str, line: u32| {
            format!(
                r#"{{"message": {{"level": "{level}", "spans": [{{"file_name": "{file}", "line_start": {line}, "is_primary": true}}]}}}}"#
            )
        };
        let text = [
            message("error", "src/m1.rs", 3),
            message("warning", "src/m2.rs", 1),
            message("error", "src/lib.rs", 1),
        ];
        let found = errors(&text.join("\n")).unwrap();
        assert_eq!(found, [[].into(), [2].into(), [].into()]);
    }

    #[test]
    fn a_signature_is_a_line() {
        let signatures = list("# why\nA::new = fn() -> A\nA::get = fn(&A) -> u8\n");
        let source = source("std::sync", &signatures);
        let lines: Vec<_> = source.lines().collect();
        assert!(lines[0].ends_with("const _: fn() -> A = A::new;"), "{source}");
        assert_eq!(lines[1], " const _: fn(&A) -> u8 = A::get;");
        let page = section(&signatures, &[("ecru::sync", [1].into())]);
        assert!(page.contains("| `ecru::sync` | 1 of 2 | `A::get` |"), "{page}");
    }
}
