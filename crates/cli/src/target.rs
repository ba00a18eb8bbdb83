//! Which socket is meant.

use std::path::{Path, PathBuf};

use crate::Failure;

/// The arguments of a command: a target, and flags.
pub(crate) struct Arguments {
    pub(crate) target: PathBuf,
    flags: Vec<String>,
}

impl Arguments {
    /// Reads the arguments. Only these flags are allowed.
    pub(crate) fn parse(arguments: &[String], allowed: &[&str]) -> Result<Arguments, Failure> {
        let (flags, others): (Vec<&String>, Vec<&String>) =
            arguments.iter().partition(|one| one.starts_with("--"));
        if let Some(unknown) = flags.iter().find(|flag| !allowed.contains(&flag.as_str())) {
            return Err(Failure::Usage(format!("there is no option `{unknown}`")));
        }
        let [target] = others[..] else {
            return Err(Failure::Usage(String::from("give one socket or process id")));
        };
        let flags = flags.into_iter().cloned().collect();
        Ok(Arguments { target: socket_of(target)?, flags })
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|one| one == flag)
    }
}

/// Returns the path of the socket: the target, or that of a process at the default place.
fn socket_of(target: &str) -> Result<PathBuf, Failure> {
    let Ok(process) = target.parse::<u32>() else { return Ok(PathBuf::from(target)) };
    let folders = folders();
    let found = folders.iter().map(|folder| folder.join(format!("{process}.sock")));
    found.into_iter().find(|path| path.exists()).ok_or_else(|| {
        let folders: Vec<String> =
            folders.iter().map(|folder| folder.display().to_string()).collect();
        Failure::Answer(format!(
            "process {process} has no socket in {}; start it with ECRU_INSPECT=1, or give the path of its socket",
            folders.join(" or ")
        ))
    })
}

/// The places where ecru's runtimes put their sockets: see `RuntimeBuilder::inspect`. Programs that
/// were started elsewhere may lack the variable.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let user = rustix::process::geteuid().as_raw();
    let mut folders: Vec<PathBuf> =
        runtime.iter().map(|folder| Path::new(folder).join("ecru")).collect();
    folders.push(PathBuf::from(format!("/tmp/ecru-{user}")));
    folders
}
