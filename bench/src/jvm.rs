//! The peer in Java: one class with a subcommand for each row, for a JDK 25 if one is installed.
//! gears itself is not run, because it needs Scala's compiler, which is not available here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The source, one file.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/jvm/Bench.java");

/// The release whose virtual threads are measured. Older releases pin a carrier thread in
/// `synchronized`, or have no virtual threads.
const RELEASE: &str = "25";

/// A JDK, and the class compiled with it.
#[derive(Clone)]
pub(crate) struct Built {
    java: PathBuf,
    classes: PathBuf,
}

impl Built {
    /// Returns the command that runs the program with these arguments.
    pub(crate) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.java);
        command.arg("-cp").arg(&self.classes).arg("Bench").args(arguments);
        command
    }
}

/// Returns the built program.
///
/// # Errors
///
/// Returns the reason if there is none.
pub(crate) fn program() -> Result<Built, String> {
    static PROGRAM: OnceLock<Result<Built, String>> = OnceLock::new();
    PROGRAM.get_or_init(build).clone()
}

/// Returns the version of the JDK that rows use, if there is one.
pub(crate) fn version() -> Option<String> {
    homes().iter().find(|home| is_meant(home)).and_then(|home| version_of(home))
}

/// Returns the version that a JDK's file `release` states.
fn version_of(home: &Path) -> Option<String> {
    let says = std::fs::read_to_string(home.join("release")).ok()?;
    let version = says.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    Some(version.trim_end_matches('"').to_owned())
}

/// Compiles next to this program, into `target/release/ecru-bench-jvm`. A child process finds its
/// parent's build.
fn build() -> Result<Built, String> {
    let home = homes().into_iter().find(|home| is_meant(home)).ok_or_else(|| {
        format!("no JDK {RELEASE}, neither in JAVA_HOME nor in /usr/lib/jvm: skipped")
    })?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let classes = this.with_file_name("ecru-bench-jvm");
    let built = Built { java: home.join("bin/java"), classes: classes.clone() };
    let written = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if written(&classes.join("Bench.class")) > written(Path::new(SOURCE)) {
        return Ok(built);
    }
    let output = Command::new(home.join("bin/javac"))
        .args(["--release", RELEASE, "-d"])
        .arg(&classes)
        .arg(SOURCE)
        .output()
        .map_err(|error| format!("{}: {error}", home.join("bin/javac").display()))?;
    if output.status.success() {
        return Ok(built);
    }
    Err(format!("javac failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Returns the folders in which a JDK may be installed.
fn homes() -> Vec<PathBuf> {
    let named = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    named.into_iter().chain(installed.map(|entry| entry.path())).collect()
}

/// Returns whether this is a JDK of that release, according to its file `release`.
fn is_meant(home: &Path) -> bool {
    let release = version_of(home);
    release.is_some_and(|version| version.split(['.', '-', '+']).next() == Some(RELEASE))
        && home.join("bin/javac").exists()
}
