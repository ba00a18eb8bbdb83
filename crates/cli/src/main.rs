//! The command `ecru`: what a running program of ecru is doing. See README.md.

mod client;
mod json;
mod print;
mod runtimes;
mod target;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

/// A command: its name, its arguments for the help, and its function.
struct Command {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

/// All commands. A command of the inspect socket gets a row here.
static COMMANDS: &[Command] = &[
    Command {
        name: "list",
        usage: "[PID]                       list the runtimes that have sockets at the default place",
        run: print::list,
    },
    Command {
        name: "dump",
        usage: "SOCKET|PID [--json]      print all tasks with their stacks",
        run: print::dump,
    },
    Command {
        name: "top",
        usage: "SOCKET|PID [--once]       show the tasks, again and again",
        run: top::run,
    },
    Command {
        name: "trace",
        usage: "SOCKET|PID [--json]     print the last events as a page, or for Perfetto",
        run: print::trace,
    },
    Command {
        name: "metrics",
        usage: "SOCKET|PID            print the numbers of the runtime as OpenMetrics",
        run: print::metrics,
    },
    Command {
        name: "gdb-script",
        usage: "                      print the commands for gdb: `ecru gdb-script >ecru-gdb.py`",
        run: print::gdb_script,
    },
    Command {
        name: "lldb-script",
        usage: "                     print the commands for lldb: `ecru lldb-script >ecru_lldb.py`",
        run: print::lldb_script,
    },
];

/// Why a command has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments are wrong.
    Usage(String),
    /// The program cannot be asked, or has refused to answer.
    Answer(String),
    /// The output cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

fn usage() -> String {
    let mut text = String::from("usage:\n");
    for command in COMMANDS {
        text.push_str(&format!("  ecru {} {}\n", command.name, command.usage));
    }
    text.push_str(
        "\nThe program must have a socket: `Runtime::builder().inspect(path)`, or ECRU_INSPECT=1 in its\n\
         environment. By the latter, its process id suffices to find it. If the process has several\n\
         runtimes, add the number or the name of one: `ecru dump 4711:2`, `ecru dump 4711:crawler`.\n",
    );
    text
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage(String::from("which command?")));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        return Ok(io::stdout().write_all(usage().as_bytes())?);
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None => Err(Failure::Usage(format!("there is no command `{name}`"))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprint!("ecru: {text}\n{}", usage());
            ExitCode::from(2)
        }
        Err(Failure::Answer(text)) => {
            eprintln!("ecru: {text}");
            ExitCode::FAILURE
        }
        // As with `ecru dump PID | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => {
            eprintln!("ecru: the output cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
