//! The commands that print one text: `ecru list`, `ecru dump`, `ecru trace`, `ecru metrics`,
//! `ecru gdb-script`, `ecru lldb-script`.

use std::io::{self, Write};

use crate::Failure;
use crate::client::ask;
use crate::runtimes;
use crate::target::Arguments;

pub(crate) fn list(arguments: &[String]) -> Result<(), Failure> {
    let process = match arguments {
        [] => None,
        [one] => Some(one.parse().map_err(|_| {
            Failure::Usage(format!("`list` takes a process id, but {one:?} was given"))
        })?),
        _ => return Err(Failure::Usage(String::from("give at most one process id"))),
    };
    for runtime in runtimes::served(process) {
        writeln!(io::stdout(), "{}", runtime.line())?;
    }
    Ok(())
}

pub(crate) fn dump(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--json"])?;
    print(&arguments, if arguments.has("--json") { "dump json" } else { "dump" })
}

pub(crate) fn trace(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--json"])?;
    print(&arguments, if arguments.has("--json") { "trace" } else { "page" })
}

pub(crate) fn metrics(arguments: &[String]) -> Result<(), Failure> {
    print(&Arguments::parse(arguments, &[])?, "metrics")
}

/// What the scripts of all debuggers have.
static TASKS: &str = include_str!("debugger/tasks.py");

pub(crate) fn gdb_script(arguments: &[String]) -> Result<(), Failure> {
    script("gdb-script", arguments, include_str!("debugger/gdb.py"))
}

pub(crate) fn lldb_script(arguments: &[String]) -> Result<(), Failure> {
    script("lldb-script", arguments, include_str!("debugger/ecru_lldb.py"))
}

fn script(command: &str, arguments: &[String], own: &str) -> Result<(), Failure> {
    if let Some(one) = arguments.first() {
        return Err(Failure::Usage(format!(
            "`{command}` takes no argument, but {one:?} was given"
        )));
    }
    Ok(io::stdout().write_all(format!("{own}\n\n{TASKS}").as_bytes())?)
}

fn print(arguments: &Arguments, request: &str) -> Result<(), Failure> {
    let mut answer = ask(&arguments.target, request)?;
    if !answer.ends_with('\n') {
        answer.push('\n');
    }
    Ok(io::stdout().write_all(answer.as_bytes())?)
}
