//! The machine, build and commit of a result.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::peers::versions;

/// The folder of the workspace.
pub(super) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The machine, the compiler, the commit and the arguments of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    /// The Cargo profile: `release` or `fat`.
    pub(crate) profile: String,
    pub(crate) rustflags: String,
    /// The full id of the commit.
    pub(crate) commit: String,
    /// Whether the tree was that of the commit, and the program built from it.
    pub(crate) clean: bool,
    pub(crate) date: String,
    /// When the run began, in UTC.
    pub(crate) began: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) repeats: usize,
    pub(crate) peers: BTreeMap<String, String>,
}

impl Header {
    /// Reads all fields. A field that cannot be read is `unknown`.
    pub(crate) fn here(arguments: Vec<String>, rounds: usize, repeats: usize) -> Header {
        let began = output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
        Header {
            processor: line_of("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: line_of("/proc/meminfo", "MemTotal"),
            kernel: output("uname", &["-sr"]),
            rustc: env!("ECRU_BENCH_RUSTC").to_owned(),
            profile: env!("ECRU_BENCH_PROFILE").to_owned(),
            rustflags: env!("ECRU_BENCH_RUSTFLAGS").to_owned(),
            commit: output("git", &["rev-parse", "HEAD"]),
            clean: why_not_clean().is_none(),
            date: began.split('T').next().unwrap_or_default().to_owned(),
            began,
            arguments,
            rounds,
            repeats,
            peers: versions(),
        }
    }

    /// Returns names and values, in the order of printing.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let peers: Vec<_> =
            self.peers.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let dirty = if self.clean { "" } else { ", and changes that are not in it" };
        let flags = if self.rustflags.is_empty() { "none" } else { &self.rustflags };
        vec![
            ("processor", self.processor.clone()),
            ("cores", self.cores.to_string()),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
            ("rustc", self.rustc.clone()),
            ("profile", format!("{}, flags: {flags}", self.profile)),
            ("commit", format!("{}{dirty}", self.commit)),
            ("began", self.began.clone()),
            ("arguments", self.arguments.join(" ")),
            ("rounds", format!("{}, at most {} repeated", self.rounds, self.repeats)),
            ("peers", peers.join(", ")),
        ]
    }

    /// Returns what differs between the machine and build of a run that is resumed and these.
    pub(crate) fn differs_from(&self, now: &Header) -> Option<String> {
        let then_and_now = [
            ("processor", &self.processor, &now.processor),
            ("kernel", &self.kernel, &now.kernel),
            ("rustc", &self.rustc, &now.rustc),
            ("profile", &self.profile, &now.profile),
            ("flags", &self.rustflags, &now.rustflags),
            ("commit", &self.commit, &now.commit),
        ];
        let differing = then_and_now.into_iter().find(|(_, then, now)| then != now);
        if let Some((what, then, now)) = differing {
            return Some(format!("{what}: `{then}` then, `{now}` now"));
        }
        if self.clean && !now.clean {
            return Some("the tree was clean then and is not now".into());
        }
        (self.peers != now.peers).then(|| "the versions of the peers".into())
    }
}

/// Returns why this program is not that of the commit, or `None` if it is. Changes of results are
/// ignored.
pub(crate) fn why_not_clean() -> Option<String> {
    let status = Command::new("git")
        .args(["status", "--porcelain", "--", ".", ":(exclude)bench/results"])
        .current_dir(ROOT)
        .output();
    let status = match status {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => return Some(format!("git: {error}")),
    };
    if let Some(first) = String::from_utf8_lossy(&status).lines().next() {
        return Some(format!("there are changes that are not committed, such as `{first}`"));
    }
    newer_source(Path::new(ROOT))
        .map(|file| format!("{file} is newer than this program, which has to be built again"))
}

/// Returns a source file that was written after this program was built.
fn newer_source(root: &Path) -> Option<String> {
    let written = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let built = written(&std::env::current_exe().ok()?)?;
    let mut folders = vec![root.join("src"), root.join("bench/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && written(&path).is_some_and(|written| written > built)
            {
                return Some(path.strip_prefix(root).unwrap_or(&path).display().to_string());
            }
        }
    }
    None
}

/// Returns the value of the first `key : value` line of a file.
fn line_of(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value =
        text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
    value.map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

/// Returns the first line that a program prints, run in the workspace.
pub(super) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(ROOT).output();
    let line = output
        .ok()
        .and_then(|out| String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_owned));
    line.unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A header without facts about a machine.
    pub(crate) fn header() -> Header {
        Header {
            processor: "AMD EPYC".into(),
            cores: 2,
            memory: String::new(),
            kernel: String::new(),
            rustc: String::new(),
            profile: "release".into(),
            rustflags: String::new(),
            commit: "c0ffee".into(),
            clean: true,
            date: "2026-11-23".into(),
            began: String::new(),
            arguments: vec![],
            rounds: 9,
            repeats: 9,
            peers: BTreeMap::new(),
        }
    }

    #[test]
    fn only_the_same_build_on_the_same_machine_goes_on() {
        let now = Header { began: "later".into(), ..header() };
        assert_eq!(header().differs_from(&now), None);
        let other = Header { commit: "bad".into(), ..header() };
        assert!(header().differs_from(&other).unwrap().contains("commit"));
        let dirty = Header { clean: false, ..header() };
        assert!(header().differs_from(&dirty).unwrap().contains("clean"));
        let peers = [("tokio".to_owned(), "2".to_owned())].into();
        assert!(header().differs_from(&Header { peers, ..header() }).unwrap().contains("peers"));
    }
}
