//! Which socket is meant.

use std::path::PathBuf;

use crate::Failure;
use crate::runtimes::{self, Runtime};

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

/// Returns the path of the socket. The target is that path, a process id, or a process id with the
/// number or the name of one of its runtimes.
fn socket_of(target: &str) -> Result<PathBuf, Failure> {
    let (process, which) = match target.split_once(':') {
        Some((process, which)) => (process, Some(which)),
        None => (target, None),
    };
    let Ok(process) = process.parse::<u32>() else { return Ok(PathBuf::from(target)) };
    let found = runtimes::all(Some(process));
    match (&found[..], which) {
        ([], _) => Err(none_of(process)),
        // Whether it is served is found out by asking it.
        ([only], None) => Ok(only.socket.clone()),
        _ => choose(process, which),
    }
}

fn none_of(process: u32) -> Failure {
    let folders: Vec<String> =
        runtimes::folders().iter().map(|folder| folder.display().to_string()).collect();
    Failure::Answer(format!(
        "process {process} has no socket in {}; start it with ECRU_INSPECT=1, or give the path of its socket",
        folders.join(" or ")
    ))
}

/// Chooses among the runtimes of a process that are served.
fn choose(process: u32, which: Option<&str>) -> Result<PathBuf, Failure> {
    let served = runtimes::served(Some(process));
    let fits: Vec<&Runtime> = match which {
        None => served.iter().collect(),
        Some(which) => match served.iter().find(|one| one.number.to_string() == which) {
            Some(one) => vec![one],
            None => {
                let has_name = |one: &&Runtime| one.about().is_ok_and(|about| about.name == which);
                served.iter().filter(has_name).collect()
            }
        },
    };
    let problem = match (&fits[..], which) {
        ([one], _) => return Ok(one.socket.clone()),
        _ if served.is_empty() => {
            return Err(Failure::Answer(format!("process {process} has ended")));
        }
        (_, None) => format!("has {} runtimes; choose one by its number or its name", fits.len()),
        ([], Some(which)) => format!("has no runtime {which:?}; it has"),
        (_, Some(which)) => {
            format!("has {} runtimes named {which:?}; choose one by its number", fits.len())
        }
    };
    let lines: Vec<String> = served.iter().map(|one| format!("\n  {}", one.line())).collect();
    Err(Failure::Answer(format!("process {process} {problem}:{}", lines.concat())))
}
