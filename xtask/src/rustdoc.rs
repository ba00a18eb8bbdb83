//! What rustdoc says of a crate, in JSON. The format is an unstable one, of the compiler that rust-toolchain.toml names.

use std::path::{Path, PathBuf};

use crate::process::{cargo, run, target_folder};

/// Documents a package's library, and returns the path of the JSON.
///
/// The variable that lets a stable compiler do so makes build scripts run again, so there is a target folder for it.
pub(crate) fn json(root: &Path, package: &str) -> Result<PathBuf, String> {
    let folder = target_folder(root, "rustdoc");
    let mut command =
        cargo(root, &["rustdoc", "--quiet", "--lib", "--all-features", "--package", package]);
    command.args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &folder);
    run(&mut command)?;
    Ok(folder.join(format!("doc/{}.json", package.replace('-', "_"))))
}
