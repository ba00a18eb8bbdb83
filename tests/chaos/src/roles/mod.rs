//! The processes of the fleet. The program starts itself for each of them: see `main`.

mod coordinator;
mod sender;
mod worker;

pub(crate) use sender::{Way, send_one};

use std::io;
use std::path::Path;

use ecru::{Cancelled, Runtime, Scope};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::journal::Journal;

/// The exit code of a coordinator to which the map has reported an error. It is started again.
pub(crate) const MAP_FAILED: i32 = 7;

/// What a process needs to know.
struct Place<'a> {
    journal: Journal,
    urls: &'a str,
}

/// Runs a role until the process gets `SIGTERM`, or is done. Returns the exit code.
pub(crate) fn run(role: &str, journal: &str, urls: &str, rest: &[&str]) -> io::Result<i32> {
    // A conductor that dies leaves no processes behind.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Poison leaves no core files.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let place = Place { journal: Journal::create(Path::new(journal))?, urls };
    let runtime = Runtime::builder().workers(1).cancel_on_terminate(true).build()?;
    let ended = runtime.run(|| ecru::scope(|s| act(s, role, &place, rest)));
    match ended {
        Err(error) if Cancelled::find(&error).is_some() => Ok(0),
        ended => ended,
    }
}

fn act<'s>(s: &'s Scope<'s, '_>, role: &str, place: &Place<'_>, rest: &[&str]) -> io::Result<i32> {
    match (role, rest) {
        ("worker", []) => worker::work(s, place),
        ("control", []) => worker::work_after_acknowledging(s, place),
        ("sender", [name, queue]) => sender::send(s, place, name, queue),
        ("coordinator", [run]) => coordinator::map(s, place, run),
        _ => Err(io::Error::other(format!("no role {role:?} with {rest:?}"))),
    }
}
