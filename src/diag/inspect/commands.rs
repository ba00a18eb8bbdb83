//! The commands of the inspect socket.

use std::sync::Arc;

use crate::diag::Recorder;
use crate::diag::dump::{Traces, dump_with, dump_with_leaks};
use crate::diag::json;
use crate::diag::metrics::measure;
use crate::sched::Pool;

/// A command: its name with a description of its arguments, and what it returns.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&Arc<Pool>, &str) -> Result<String, String>,
}

/// All commands. A later version may have more.
static COMMANDS: &[Command] = &[
    Command { name: "help", help: "the list of commands", run: help },
    Command { name: "about", help: "the process and the runtime, as JSON", run: about },
    Command {
        name: "dump",
        help: "[json]: all tasks with their stacks, as text or JSON",
        run: dump,
    },
    Command { name: "tasks", help: "all tasks without stacks, as JSON", run: tasks },
    Command { name: "stack", help: "ID: the stack of one task, as text", run: stack },
    Command { name: "metrics", help: "the numbers of the runtime, as OpenMetrics", run: metrics },
    Command { name: "trace", help: "the last events, as a trace for Perfetto", run: trace },
    Command { name: "page", help: "the last events, as a page for a browser", run: page },
];

/// Carries out a request: a command and its arguments.
pub(super) fn run(pool: &Arc<Pool>, request: &str) -> Result<String, String> {
    let (name, arguments) = request.split_once(' ').unwrap_or((request, ""));
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(pool, arguments.trim()),
        None => Err(format!("there is no command {name:?}; `help` lists the commands")),
    }
}

fn help(_: &Arc<Pool>, _: &str) -> Result<String, String> {
    let line = |command: &Command| format!("{} {}\n", command.name, command.help);
    Ok(COMMANDS.iter().map(line).collect())
}

fn about(pool: &Arc<Pool>, _: &str) -> Result<String, String> {
    let (workers, version) = (pool.settings.workers, env!("CARGO_PKG_VERSION"));
    let process = std::process::id();
    let mut name = String::new();
    json::text(&mut name, &pool.settings.name);
    Ok(format!(
        r#"{{"protocol":1,"ecru":"{version}","process":{process},"name":{name},"workers":{workers}}}"#
    ))
}

fn dump(pool: &Arc<Pool>, arguments: &str) -> Result<String, String> {
    match arguments {
        "" => Ok(format!("{:#}\n", dump_with_leaks(pool))),
        "json" => Ok(dump_with_leaks(pool).to_json()),
        other => Err(format!("`dump` has no form {other:?}; use `dump` or `dump json`")),
    }
}

fn tasks(pool: &Arc<Pool>, _: &str) -> Result<String, String> {
    Ok(dump_with(pool, Traces::None).to_json())
}

fn metrics(pool: &Arc<Pool>, _: &str) -> Result<String, String> {
    Ok(measure(pool).to_openmetrics())
}

fn trace(pool: &Arc<Pool>, _: &str) -> Result<String, String> {
    last_events(pool, false)
}

fn page(pool: &Arc<Pool>, _: &str) -> Result<String, String> {
    last_events(pool, true)
}

fn last_events(pool: &Arc<Pool>, as_page: bool) -> Result<String, String> {
    let Some(rings) = pool.recorder.clone() else {
        return Err(String::from(
            "the runtime records nothing; set `Runtime::builder().record(1 << 20)`",
        ));
    };
    let text = Recorder::new(rings).last_events(as_page).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|error| error.to_string())
}

fn stack(pool: &Arc<Pool>, arguments: &str) -> Result<String, String> {
    let id = arguments.trim_start_matches('#');
    let id: u64 = id.parse().map_err(|_| format!("{arguments:?} is not the number of a task"))?;
    let tree = dump_with(pool, Traces::Only(id));
    let Some(task) = tree.tasks().find(|task| task.id().shown() == id) else {
        return Err(format!("there is no task {id}"));
    };
    let stack = task.stack_trace().map_or_else(
        || String::from("no stack: the task does not wait, or has too little room left"),
        ToString::to_string,
    );
    Ok(format!("{task}\n{stack}\n"))
}
