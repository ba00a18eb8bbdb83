//! What the command prints, and how sockets come and go.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::programs;
use crate::support::{Folder, ecru, path, said, start, start_with, text, until};

/// The socket has its mode, and is removed when the program ends.
#[test]
fn a_program_works_and_ends_while_it_is_inspected_slow() {
    let mut program = start("works");
    let mode = std::fs::metadata(&program.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The tasks may begin after the program has said that it is ready.
    let dump = || said(&["dump", path(&program.socket)]);
    let all = ["'beats'", "'idle-", "more that look the same"];
    until(dump, |dump| all.iter().all(|part| dump.contains(part)));
    let json = said(&["dump", path(&program.socket), "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["version"], 1);
    assert!(value["tasks"].as_array().unwrap().len() >= 22, "{json}");
    drop(program.child.stdin.take());
    assert!(program.said.any(|line| line.unwrap().contains("over")));
    assert!(program.child.wait().unwrap().success());
    assert!(!program.socket.exists());
    let output = ecru(&["dump", path(&program.socket)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is the program running?"));
}

/// The last events as a trace and as a page, and the numbers. A program without a recorder says what
/// is missing.
#[test]
fn a_program_is_traced_and_counted_slow() {
    let program = start("works");
    let socket = path(&program.socket);
    let trace = until(|| said(&["trace", socket, "--json"]), |trace| trace.contains("beats"));
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 20), "{trace}");
    let page = said(&["trace", socket]);
    assert!(page.starts_with("<!doctype html>") && page.contains("beats"));
    let metrics = said(&["metrics", socket]);
    assert!(metrics.starts_with("# ") && metrics.ends_with("# EOF\n"), "{metrics}");
    let program = start("leak");
    let output = ecru(&["trace", path(&program.socket)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("record(1 << 20)"), "{}", text(&output.stderr));
}

#[test]
fn top_prints_one_screen_slow() {
    let program = start("locks");
    let screen = || said(&["top", path(&program.socket), "--once"]);
    let screen = until(screen, |screen| screen.contains("wait for each other: #"));
    assert!(screen.starts_with("ecru top "), "{screen}");
    for part in ["TASK", "WAITS FOR", "philosopher-1", "a lock ('", "programs.rs:", "q quit"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 120), "{screen}");
    let program = start("works");
    let screen = || said(&["top", path(&program.socket), "--once"]);
    let screen = until(screen, |screen| screen.contains("x20"));
    assert_eq!(screen.matches("idle-").count(), 1, "{screen}");
}

/// The socket at the default place is found by the process id. Another runtime gets another one.
#[test]
fn a_process_id_is_enough_slow() {
    let folder = Folder::new();
    let runtime = folder.0.clone();
    let program = start_with("works", folder, runtime.join("none"), |command| {
        command.env("ECRU_INSPECT", "1").env("XDG_RUNTIME_DIR", &runtime);
    });
    let id = program.child.id().to_string();
    assert!(runtime.join(format!("ecru/{id}.sock")).exists());
    let dump = |id: &str| {
        Command::new(env!("CARGO_BIN_EXE_ecru"))
            .args(["dump", id])
            .env("XDG_RUNTIME_DIR", &program.folder.0)
            .output()
            .unwrap()
    };
    // The task may begin after the program has said that it is ready.
    until(|| text(&dump(&id).stdout), |dump| dump.contains("'beats'"));
    // This process has no socket.
    let output = dump(&std::process::id().to_string());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("ECRU_INSPECT=1"), "{}", text(&output.stderr));
}

/// Each runtime of a process is found by its number, and by its name if only one has it. One that is
/// left alone needs neither.
#[test]
fn a_process_with_several_runtimes_slow() {
    let folder = Folder::new();
    let runtime = folder.0.clone();
    let mut program = start_with("several", folder, runtime.join("none"), |command| {
        command.env("ECRU_INSPECT", "1").env("XDG_RUNTIME_DIR", &runtime);
    });
    let id = program.child.id().to_string();
    // What a killed process with this number has left.
    drop(UnixListener::bind(runtime.join(format!("ecru/{id}-9.sock"))).unwrap());
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecru"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &runtime).output().unwrap()
    };
    let of = |which: &str| format!("{id}:{which}");
    for (which, task) in [("1", "'accepts'"), ("web", "'accepts'"), ("2", "'fetches'")] {
        until(|| text(&ask(&["dump", &of(which)]).stdout), |dump| dump.contains(task));
    }
    until(|| text(&ask(&["top", &of("3"), "--once"]).stdout), |top| top.contains("stores"));
    let listed = text(&ask(&["list", &id]).stdout);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    for (line, (number, name)) in lines.iter().zip([(1, "web"), (2, "jobs"), (3, "jobs")]) {
        assert!(line.starts_with(&format!("{id}:{number}  '{name}', 1 worker  /")), "{listed}");
    }
    assert!(text(&ask(&["list"]).stdout).contains(&listed));
    for (target, part) in [
        (id.clone(), "has 3 runtimes; choose one by its number or its name:\n"),
        (of("jobs"), "has 2 runtimes named \"jobs\"; choose one by its number:\n"),
        (of("9"), "has no runtime \"9\"; it has:\n"),
        (of(""), "has no runtime \"\"; it has:\n"),
    ] {
        let output = ask(&["metrics", &target]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(part) && said.contains(listed.lines().next().unwrap()), "{said}");
    }
    drop(program.child.stdin.take());
    assert!(program.said.any(|line| line.unwrap().contains("over")));
    assert!(text(&ask(&["dump", &id]).stdout).contains("'stores'"));
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    for target in [&id, &of("3")] {
        let output = ask(&["dump", target]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(" has ended"), "{}", text(&output.stderr));
    }
    assert!(text(&ask(&["list"]).stdout).lines().all(|line| !line.starts_with(&id)));
}

/// A socket that a killed process has left is replaced. One that is served is not, nor is a file.
#[test]
fn sockets_of_dead_programs_are_replaced_slow() {
    let folder = Folder::new();
    let socket = folder.0.join("socket");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "std leaves the file");
    let output = ecru(&["dump", path(&socket)]);
    assert!(text(&output.stderr).contains("its program has ended"));
    let runtime = || ecru::Runtime::builder().workers(1).inspect(&socket).build();
    let first = runtime().unwrap();
    let error = runtime().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("a running program serves it"), "{error}");
    assert!(said(&["dump", path(&socket)]).contains("no task: no run is going on"));
    drop(first);
    assert!(!socket.exists());
    std::fs::write(&socket, "a letter").unwrap();
    let error = runtime().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "a letter");
    let error = ecru::Runtime::builder().inspect("/no/such/folder/socket").build().unwrap_err();
    assert!(error.to_string().contains("/no/such/folder/socket"), "{error}");
    // Another file is there by the time at which the runtime ends.
    std::fs::remove_file(&socket).unwrap();
    let second = runtime().unwrap();
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "a letter").unwrap();
    drop(second);
    assert!(socket.exists());
}

/// A program whose environment asks for a socket that cannot be opened goes on without it.
#[test]
fn an_impossible_socket_does_not_stop_the_program_slow() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "programs::is_a_program", "--nocapture"])
        .env(programs::VARIABLE, "works")
        .env("ECRU_INSPECT", "/no/such/folder/socket")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("over"));
    let said = text(&output.stderr);
    assert!(said.contains("ecru: ECRU_INSPECT: the inspect socket /no/such/folder"), "{said}");
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, part) in [
        (&[][..], "which command?"),
        (&["paint"], "there is no command `paint`"),
        (&["dump"], "give one socket or process id"),
        (&["dump", "1", "2"], "give one socket or process id"),
        (&["dump", "1", "--loud"], "there is no option `--loud`"),
        (&["list", "one"], "`list` takes a process id, but \"one\" was given"),
        (&["list", "1", "2"], "give at most one process id"),
    ] {
        let output = ecru(arguments);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(part) && said.contains("usage:"), "{said}");
    }
    let help = said(&["--help"]);
    assert!(help.contains("ecru dump SOCKET|PID") && help.contains("ECRU_INSPECT=1"), "{help}");
}
