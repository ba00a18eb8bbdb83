//! The runtimes whose sockets are at the default place: `PID.sock`, and `PID-2.sock` and so on for
//! further runtimes of a process. See ecru's `src/diag/inspect/place.rs`.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Failure;
use crate::client::ask;

/// A socket at the default place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Runtime {
    pub(crate) process: u32,
    /// 1 for the first runtime of the process.
    pub(crate) number: u32,
    pub(crate) socket: PathBuf,
}

/// What a runtime says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// The name of its threads. Empty if its version of ecru does not say it.
    pub(crate) name: String,
    pub(crate) workers: Option<u64>,
}

impl Runtime {
    /// Returns what the name of a socket says.
    fn at(socket: PathBuf) -> Option<Runtime> {
        let name = socket.file_name()?.to_str()?.strip_suffix(".sock")?;
        let (process, number) = name.split_once('-').unwrap_or((name, "1"));
        let (process, number) = (process.parse().ok()?, number.parse().ok()?);
        Some(Runtime { process, number, socket })
    }

    /// Returns whether a program listens. A process that was killed leaves its sockets behind.
    fn is_served(&self) -> bool {
        match UnixStream::connect(&self.socket) {
            Ok(_) => true,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
            }
        }
    }

    /// Asks the runtime for its name.
    pub(crate) fn about(&self) -> Result<About, Failure> {
        let answer = ask(&self.socket, "about")?;
        let value: Value = serde_json::from_str(&answer).unwrap_or_default();
        Ok(About {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            workers: value["workers"].as_u64(),
        })
    }

    /// Returns one line about the runtime, as the commands take it.
    pub(crate) fn line(&self) -> String {
        let described = match self.about() {
            Ok(about) => {
                let workers = about.workers.map_or(String::from("?"), |count| count.to_string());
                let workers = format!("{workers} worker{}", if workers == "1" { "" } else { "s" });
                format!("'{}', {workers}", about.name.escape_debug())
            }
            Err(_) => String::from("does not answer"),
        };
        format!("{}:{}  {described}  {}", self.process, self.number, self.socket.display())
    }
}

/// Returns the runtimes that are served, of this process or of all, in the order of their numbers.
pub(crate) fn served(process: Option<u32>) -> Vec<Runtime> {
    let mut found = all(process);
    found.retain(Runtime::is_served);
    found
}

/// Returns the runtimes whose sockets exist, of this process or of all, in the order of their
/// numbers.
pub(crate) fn all(process: Option<u32>) -> Vec<Runtime> {
    let mut found: Vec<Runtime> = folders()
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Runtime::at(entry.ok()?.path()))
        .filter(|runtime| process.is_none_or(|process| runtime.process == process))
        .collect();
    found.sort_unstable();
    found
}

/// The places where ecru's runtimes put their sockets: see `RuntimeBuilder::inspect`. Programs that
/// were started elsewhere may lack the variable.
pub(crate) fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let user = rustix::process::geteuid().as_raw();
    let mut folders: Vec<PathBuf> =
        runtime.iter().map(|folder| Path::new(folder).join("ecru")).collect();
    folders.push(PathBuf::from(format!("/tmp/ecru-{user}")));
    folders
}

#[cfg(test)]
mod tests {
    use super::Runtime;
    use std::path::PathBuf;

    #[test]
    fn names_of_sockets_are_read() {
        let at = |name: &str| {
            Runtime::at(PathBuf::from(name)).map(|runtime| (runtime.process, runtime.number))
        };
        assert_eq!(at("/tmp/ecru-0/4711.sock"), Some((4711, 1)));
        assert_eq!(at("4711-2.sock"), Some((4711, 2)));
        for other in ["4711", "a.sock", "4711-x.sock", "4711-.sock", "-1.sock", ".sock", "/"] {
            assert_eq!(at(other), None, "{other}");
        }
    }
}
