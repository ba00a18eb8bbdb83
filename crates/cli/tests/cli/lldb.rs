//! The commands for lldb, on a live program and on a core. The test is skipped if there is no lldb, or
//! if it may not attach, unless `ECRU_REQUIRE_LLDB=1`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::gdb::gdb;
use crate::support::{Program, part, path, said, start, text, until};

/// Returns where lldb's module for Python is, if that is not where lldb looks for it: Debian 12 has
/// it elsewhere.
fn module() -> Option<PathBuf> {
    let output = Command::new("lldb").arg("-P").stderr(Stdio::null()).output().ok()?;
    if Path::new(text(&output.stdout).trim()).join("lldb").exists() {
        return None;
    }
    let found = |folder: &Path, begin: &str| -> Option<PathBuf> {
        let names = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut fits: Vec<PathBuf> = names
            .filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin))
            })
            .collect();
        fits.sort_unstable();
        fits.pop()
    };
    let python = found(&found(Path::new("/usr/lib"), "llvm-")?.join("lib"), "python3.")?;
    Some(python.join("dist-packages"))
}

/// Runs lldb with the script and these commands. Returns what it prints, or `None` if it cannot run.
fn lldb(target: &[&str], program: &Program, commands: &[&str]) -> Option<String> {
    // The name of a module of Python.
    let script = program.folder.0.join("ecru_lldb.py");
    std::fs::write(&script, said(&["lldb-script"])).unwrap();
    let mut lldb = Command::new("lldb");
    lldb.args(["--no-lldbinit", "--batch"]).args(target).args([
        "-o",
        "settings set symbols.enable-external-lookup false",
        "-o",
        &format!("command script import {}", path(&script)),
    ]);
    for command in commands {
        lldb.args(["-o", command]);
    }
    if let Some(module) = module() {
        lldb.env("PYTHONPATH", module);
    }
    let output = lldb.stdin(Stdio::null()).output();
    let is_required = std::env::var("ECRU_REQUIRE_LLDB").is_ok_and(|value| value == "1");
    let output = match output {
        Ok(output) => output,
        Err(error) if is_required => panic!("lldb does not start: {error}"),
        Err(error) => {
            eprintln!("skipped: lldb does not start: {error}");
            return None;
        }
    };
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let is_refused = ["Operation not permitted", "No module named 'lldb", "no scripting"];
    if !is_required && is_refused.iter().any(|part| said.contains(part)) {
        eprintln!("skipped: lldb may not attach, or has no Python");
        return None;
    }
    Some(said)
}

/// The tasks and stacks of three tasks that wait for each other. lldb prints the commands, too.
const LOOK: [&str; 14] = [
    "script print('<' 'tasks>')",
    "ecru tasks",
    "script print('</' 'tasks><' 'bt>')",
    "ecru bt philosopher-1",
    "script print('</' 'bt><' 'switched>')",
    "ecru switch philosopher-2",
    "bt",
    "script print('</' 'switched><' 'back>')",
    "ecru switch",
    "thread list",
    "script print('</' 'back><' 'all>')",
    "ecru bt all",
    "script print('</' 'all>')",
    "script print('do' 'ne')",
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
    assert!(tasks.contains("the root, run at ") && tasks.contains(" tasks\n"), "{tasks}");
    // The stack begins at the switch, and ends with the first frame of the task.
    let bt = part(output, "bt");
    assert!(bt.contains("'philosopher-1': waits for a lock"), "{bt}");
    assert!(bt.contains("programs::dine") && bt.contains("helpings = 4701"), "{bt}");
    assert!(!bt.contains("start_thread") && !bt.contains("clone3"), "{bt}");
    // The task is a thread with its name. In an optimized build its arguments may be gone.
    let switched = part(output, "switched");
    assert!(switched.contains("name = 'philosopher-2'"), "{switched}");
    assert!(switched.contains("programs::dine"), "{switched}");
    let back = part(output, "back");
    assert!(back.contains("thread #1") && !back.contains("philosopher"), "{back}");
    // The root's stack goes on to the thread's beginning.
    let all = part(output, "all");
    assert!(all.contains("programs::is_a_program"), "{all}");
    for n in 0..3 {
        assert!(all.contains(&format!("helpings = {}", 4700 + n)), "{all}");
    }
    assert!(!output.contains("Traceback") && output.contains("\ndone\n"), "{output}");
}

/// Live and from a core, in a program built as the profile of the tests says.
#[test]
fn lldb_shows_the_tasks_of_a_stuck_program_and_of_its_core_slow() {
    let program = start("locks");
    let dump = || said(&["dump", path(&program.socket)]);
    until(dump, |dump| dump.contains("3 tasks wait for each other"));
    let pid = program.child.id().to_string();
    let wrong = ["ecru bt nothing", "ecru paint"];
    let commands: Vec<&str> = LOOK.into_iter().chain(wrong).collect();
    let Some(live) = lldb(&["-p", &pid], &program, &commands) else { return };
    check_philosophers(&live);
    assert!(live.contains("There is no task nothing: see `ecru tasks`."), "{live}");
    // The program goes on.
    until(dump, |dump| dump.contains("3 tasks wait for each other"));
    let core = program.folder.0.join("core");
    let save = format!("ecru core {}", path(&core));
    if gdb(&["-p", &pid], &program, &[&save]).is_none() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let dead = lldb(&["-c", path(&core), path(&own)], &program, &LOOK).unwrap();
    check_philosophers(&dead);
}
