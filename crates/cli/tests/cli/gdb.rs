//! The commands for gdb, on live programs and on cores. A test is skipped if there is no gdb, or if
//! it may not attach, unless `ECRU_REQUIRE_GDB=1`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{Folder, Program, part, path, said, start, start_copy, text, until};

fn is_required() -> bool {
    std::env::var("ECRU_REQUIRE_GDB").is_ok_and(|value| value == "1")
}

/// Runs gdb with the script and these commands. Returns what it prints, or `None` if it cannot run.
pub(crate) fn gdb(target: &[&str], program: &Program, commands: &[&str]) -> Option<String> {
    let script: PathBuf = program.folder.0.join("ecru-gdb.py");
    std::fs::write(&script, said(&["gdb-script"])).unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set width 0"]);
    gdb.args(["-iex", "set auto-load no"]).args(target).args(["-x", path(&script)]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if is_required() => panic!("gdb does not start: {error}"),
        Err(error) => {
            eprintln!("skipped: gdb does not start: {error}");
            return None;
        }
    };
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    if said.contains("ptrace: Operation not permitted") && !is_required() {
        eprintln!("skipped: gdb may not attach");
        return None;
    }
    Some(said)
}

/// The tasks and stacks of three tasks that wait for each other.
const LOOK: [&str; 14] = [
    "echo <tasks>\\n",
    "ecru tasks",
    "echo </tasks>\\n<bt>\\n",
    "ecru bt philosopher-1",
    "echo </bt>\\n<switched>\\n",
    "ecru switch philosopher-2",
    "bt",
    "echo </switched>\\n<back>\\n",
    "ecru switch",
    "bt",
    "echo </back>\\n<all>\\n",
    "ecru bt all",
    "echo </all>\\n",
    "python print('done')",
];

#[track_caller]
fn check_philosophers(output: &str) {
    let tasks = part(output, "tasks");
    for n in 0..3 {
        let line = tasks.lines().find(|line| line.contains(&format!(" 'philosopher-{n}': ")));
        let line = line.unwrap_or_else(|| panic!("{output}"));
        assert!(line.contains("waits for a lock at "), "{line}");
        assert_eq!(line.matches("tests/cli/programs.rs:").count(), 2, "{line}");
    }
    // A task that has answered the dump may not have ended yet, so there may be more than five.
    assert!(tasks.contains("the root, run at ") && tasks.ends_with(" tasks\n"), "{tasks}");
    // The stack begins at the switch, and ends with the first frame of the task.
    let bt = part(output, "bt");
    assert!(bt.contains("'philosopher-1': waits for a lock"), "{bt}");
    let frames: Vec<&str> = bt.lines().filter(|line| line.starts_with('#')).collect();
    assert!(bt.contains("programs::dine") && frames.len() < 60, "{bt}");
    // This package is built with debug information in the profiles of the tests.
    assert!(bt.contains("helpings = 4701"), "{bt}");
    let is_of_the_thread = |frame: &&str| frame.contains("start_thread");
    assert!(!frames.iter().any(is_of_the_thread), "{bt}");
    let switched = part(output, "switched");
    assert!(switched.contains("programs::dine"), "{switched}");
    assert!(switched.contains("stack_init_trampoline ()"), "{switched}");
    assert!(!switched.contains("start_thread") && !switched.contains("corrupt"), "{switched}");
    let back = part(output, "back");
    assert!(!back.contains("programs::dine"), "{back}");
    // The root's stack goes on to the thread's beginning.
    let all = part(output, "all");
    assert!(all.contains("programs::is_a_program"), "{all}");
    assert!(!output.contains("Python Exception") && output.contains("done\n"), "{output}");
}

/// Live and from a core, in a program built as the profile of the tests says.
#[test]
fn gdb_shows_the_tasks_of_a_stuck_program_and_of_its_core_slow() {
    let program = start("locks");
    let dump = || said(&["dump", path(&program.socket)]);
    until(dump, |dump| dump.contains("3 tasks wait for each other"));
    let core = program.folder.0.join("core");
    let save = format!("ecru core {}", path(&core));
    let commands: Vec<&str> = LOOK.into_iter().chain([save.as_str()]).collect();
    let pid = program.child.id().to_string();
    let Some(live) = gdb(&["-p", &pid], &program, &commands) else { return };
    check_philosophers(&live);
    // The program goes on.
    until(dump, |dump| dump.contains("3 tasks wait for each other"));
    let own = std::env::current_exe().unwrap();
    let dead = gdb(&[path(&own), path(&core)], &program, &LOOK).unwrap();
    check_philosophers(&dead);
}

/// Starts the philosophers from a copy of this executable that `objcopy` has made with this option.
/// Returns `None` if there is no `objcopy`.
fn start_stripped(option: &str) -> Option<(Program, PathBuf)> {
    let folder = Folder::new();
    let executable = folder.0.join("stripped");
    let own = std::env::current_exe().unwrap();
    match Command::new("objcopy").args([option, path(&own), path(&executable)]).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) if is_required() => panic!("objcopy does not start: {error}"),
        Err(error) => {
            eprintln!("skipped: objcopy does not start: {error}");
            return None;
        }
    }
    let socket = folder.0.join("socket");
    let program = start_copy(&executable, "locks", folder, socket.clone(), |command| {
        command.env("ECRU_INSPECT", &socket);
    });
    let dump = || said(&["dump", path(&program.socket)]);
    until(dump, |dump| dump.contains("3 tasks wait for each other"));
    Some((program, executable))
}

/// Checks what gdb shows of the philosophers without debug information: `function` is part of the
/// frame of the function in which each waits.
#[track_caller]
fn check_without_debug_information(output: &str, function: &str) {
    let tasks = part(output, "tasks");
    for n in 0..3 {
        let line = tasks.lines().find(|line| line.contains(&format!(" 'philosopher-{n}': ")));
        let line = line.unwrap_or_else(|| panic!("{output}"));
        assert!(line.contains("waits for a lock at "), "{line}");
        assert_eq!(line.matches("tests/cli/programs.rs:").count(), 2, "{line}");
    }
    assert!(tasks.contains("the root, run at ") && tasks.ends_with(" tasks\n"), "{tasks}");
    let bt = part(output, "bt");
    let (task, frames) = bt.trim_start().split_once('\n').unwrap_or_else(|| panic!("{output}"));
    assert!(task.contains("'philosopher-1': waits for a lock"), "{bt}");
    let count = frames.lines().filter(|line| line.starts_with('#')).count();
    assert!((4..60).contains(&count) && frames.contains(function), "{bt}");
    // Lines and locals are debug information.
    assert!(!frames.contains("programs.rs") && !frames.contains("helpings"), "{bt}");
    let switched = part(output, "switched");
    assert!(switched.contains(function) && !switched.contains("corrupt"), "{switched}");
    let back = part(output, "back");
    assert!(!back.contains("programs::dine") && !back.contains("corrupt"), "{back}");
    assert!(!output.contains("Python Exception") && output.contains("done\n"), "{output}");
}

/// Looks at a copy of this program without debug information, live and from a core.
#[track_caller]
fn check_stripped(option: &str, function: &str) {
    let Some((program, executable)) = start_stripped(option) else { return };
    let core = program.folder.0.join("core");
    let save = format!("ecru core {}", path(&core));
    let commands: Vec<&str> = LOOK.into_iter().chain([save.as_str()]).collect();
    let pid = program.child.id().to_string();
    let Some(live) = gdb(&["-p", &pid], &program, &commands) else { return };
    check_without_debug_information(&live, function);
    let dead = gdb(&[path(&executable), path(&core)], &program, &LOOK).unwrap();
    check_without_debug_information(&dead, function);
}

/// Without debug information, as cargo's default profile builds a release, the tasks, their waits
/// with places, and the names of functions are there.
#[test]
fn gdb_shows_tasks_without_debug_information_slow() {
    check_stripped("--strip-debug", "programs::dine");
}

/// Without symbols, the frames are addresses.
#[test]
fn gdb_shows_tasks_of_a_stripped_program_slow() {
    check_stripped("--strip-all", "0x");
}

/// A task that blocks its worker is shown on its thread's stack, and a wrong name is refused.
#[test]
fn gdb_shows_a_task_that_blocks_its_worker_slow() {
    let program = start("sleep");
    let dump = || said(&["dump", path(&program.socket)]);
    until(dump, |dump| dump.contains("is busy with a task 'poller'"));
    let commands = [
        "echo <tasks>\\n",
        "ecru tasks",
        "echo </tasks>\\n<bt>\\n",
        "ecru bt poller",
        "echo </bt>\\n<running>\\n",
        "ecru bt running",
        "echo </running>\\n",
        "ecru bt nothing",
    ];
    let pid = program.child.id().to_string();
    let Some(output) = gdb(&["-p", &pid], &program, &commands) else { return };
    let tasks = part(&output, "tasks");
    assert!(tasks.contains(" 'poller': running, spawned at "), "{output}");
    assert!(tasks.contains(" 'other': "), "{output}");
    let bt = part(&output, "bt");
    assert!(bt.contains("nanosleep") && bt.contains("programs::std_sleep"), "{output}");
    let running = part(&output, "running");
    assert!(running.contains("programs::std_sleep"), "{output}");
    assert!(output.contains("There is no task nothing: see `ecru tasks`."), "{output}");
}
