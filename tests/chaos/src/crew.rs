//! The processes of the fleet as the conductor sees them: it starts, kills and stops them, and
//! notes how each has ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::journal;
use crate::proof::{End, Process};
use crate::roles::MAP_FAILED;

/// The processes.
pub(crate) struct Crew {
    folder: PathBuf,
    urls: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<u32, Running>,
    ended: BTreeMap<u32, Ended>,
    unexpected: Vec<String>,
    last: u32,
}

struct Running {
    role: &'static str,
    child: Child,
    killed: bool,
    stopped: bool,
    terminated: bool,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) role: &'static str,
    pub(crate) end: End,
    /// The map has reported an error to the coordinator.
    pub(crate) map_failed: bool,
}

impl Crew {
    /// Creates a crew without processes. They write into the folder.
    pub(crate) fn new(folder: &Path, urls: &str) -> io::Result<Crew> {
        fs::create_dir(folder)?;
        let (folder, urls) = (folder.to_owned(), urls.to_owned());
        Ok(Crew { folder, urls, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number}.journal"))
    }

    /// Starts a process, and returns its number.
    pub(crate) fn start(&self, role: &'static str, rest: &[&str]) -> io::Result<u32> {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let said = File::create(self.folder.join(format!("{number}.{role}.stderr")))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", role]).arg(self.journal(number)).arg(&self.urls).args(rest);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?;
        let running = Running { role, child, killed: false, stopped: false, terminated: false };
        state.running.insert(number, running);
        Ok(number)
    }

    /// Notes which processes have ended.
    pub(crate) fn reap(&self) -> io::Result<()> {
        let mut state = self.state();
        let State { running, ended, unexpected, .. } = &mut *state;
        let mut gone = Vec::new();
        for (number, process) in running.iter_mut() {
            if let Some(status) = process.child.try_wait()? {
                gone.push(*number);
                let text = self.text(*number);
                let of = |end, map_failed| Ended { role: process.role, end, map_failed };
                match end(process, status, &text) {
                    Some((end, map_failed)) => {
                        ended.insert(*number, of(end, map_failed));
                    }
                    None => {
                        let said = self.folder.join(format!("{number}.{}.stderr", process.role));
                        let said = fs::read_to_string(said)?;
                        let role = process.role;
                        unexpected.push(format!("{role} {number} ended by {status}:\n{said}"));
                        ended.insert(*number, of(End::Aborted, false));
                    }
                }
            }
        }
        running.retain(|number, _| !gone.contains(number));
        Ok(())
    }

    /// Returns what is in a journal now.
    fn text(&self, number: u32) -> String {
        fs::read_to_string(self.journal(number)).unwrap_or_default()
    }

    /// Returns how often a word is in the journal of a process.
    pub(crate) fn count(&self, number: u32, word: &str) -> usize {
        self.text(number).matches(word).count()
    }

    /// Returns the processes of a role that run, or are stopped.
    pub(crate) fn running(&self, role: &str) -> Vec<u32> {
        let state = self.state();
        let of_role = state.running.iter().filter(|(_, process)| process.role == role);
        of_role.map(|(number, _)| *number).collect()
    }

    /// Returns those that are neither stopped nor killed and have begun a job.
    pub(crate) fn busy(&self, role: &str) -> Vec<u32> {
        let state = self.state();
        let free = state.running.iter().filter(|(number, process)| {
            process.role == role
                && !process.killed
                && !process.stopped
                && !process.terminated
                && self.count(**number, "\"Begun\"") > 0
        });
        free.map(|(number, _)| *number).collect()
    }

    /// Returns how a process has ended, if it has.
    pub(crate) fn ended(&self, number: u32) -> Option<Ended> {
        self.state().ended.get(&number).copied()
    }

    /// Returns how many processes of a role have ended in this way.
    pub(crate) fn ends(&self, role: &str, end: End) -> usize {
        let state = self.state();
        state.ended.values().filter(|ended| ended.role == role && ended.end == end).count()
    }

    /// Kills a process.
    pub(crate) fn kill(&self, number: u32) -> io::Result<()> {
        match self.state().running.get_mut(&number) {
            Some(process) => {
                process.killed = true;
                process.child.kill()
            }
            None => Ok(()),
        }
    }

    /// Stops a process, or wakes it up.
    pub(crate) fn stop(&self, number: u32, stopped: bool) -> io::Result<()> {
        let signal = if stopped { Signal::STOP } else { Signal::CONT };
        match self.state().running.get_mut(&number) {
            Some(process) => {
                process.stopped = stopped;
                send(&process.child, signal)
            }
            None => Ok(()),
        }
    }

    /// Asks a process to end.
    pub(crate) fn terminate_one(&self, number: u32) -> io::Result<()> {
        match self.state().running.get_mut(&number) {
            Some(process) => {
                process.terminated = true;
                send(&process.child, Signal::TERM)
            }
            None => Ok(()),
        }
    }

    /// Asks all processes of a role to end. Each one is asked once, because a second signal does
    /// not wait for what the first one has begun.
    pub(crate) fn terminate(&self, role: &str) -> io::Result<()> {
        let mut state = self.state();
        let asked = |process: &&mut Running| process.role == role && !process.terminated;
        for process in state.running.values_mut().filter(asked) {
            process.terminated = true;
            send(&process.child, Signal::TERM)?;
        }
        Ok(())
    }

    /// Returns what has ended otherwise than the conductor wanted.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        self.state().unexpected.clone()
    }

    /// Returns the processes that have ended, with their journals.
    pub(crate) fn processes(&self) -> io::Result<Vec<Process>> {
        let ended = self.state().ended.clone();
        let read = |(number, ended): (&u32, &Ended)| {
            let path = self.journal(*number);
            // A process may be killed before it has created the file.
            let lines = if path.exists() { journal::read(&path)? } else { Vec::new() };
            Ok(Process { end: ended.end, lines })
        };
        ended.iter().map(read).collect()
    }
}

/// The process has not been waited for, so its id is its own.
fn send(child: &Child, signal: Signal) -> io::Result<()> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(kill_process(id.expect("the id of a process is positive"), signal)?)
}

/// Returns how a process has ended, or `None` if that is a fault.
fn end(process: &Running, status: ExitStatus, journal: &str) -> Option<(End, bool)> {
    let has_poison =
        || journal.lines().any(|line| line.contains("\"Begun\"") && line.contains("poison-"));
    match (status.code(), status.signal()) {
        (Some(0), _) => Some((End::Finished, false)),
        (Some(MAP_FAILED), _) => Some((End::Finished, true)),
        // It did not listen to signals yet.
        (_, Some(signal)) if signal == Signal::TERM.as_raw() && process.terminated => {
            Some((End::Finished, false))
        }
        (_, Some(signal)) if signal == Signal::KILL.as_raw() && process.killed => {
            Some((End::Killed, false))
        }
        (_, Some(signal)) if signal == Signal::ABORT.as_raw() && has_poison() => {
            Some((End::Aborted, false))
        }
        _ => None,
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for process in self.state().running.values_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
