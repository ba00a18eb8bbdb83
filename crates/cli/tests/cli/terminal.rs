//! `ecru top` in a terminal, which is tmux.

use std::process::{Command, Output};

use crate::support::{path, start, text, until};

/// A server of tmux with one session, which is ended when this is dropped.
struct Terminal(String);

impl Terminal {
    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.0, "-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux is installed")
    }

    fn screen(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).stdout)
    }

    /// Presses keys, and waits until the screen has a part.
    #[track_caller]
    fn press(&self, keys: &[&str], part: &str) -> String {
        let mut arguments = vec!["send-keys"];
        arguments.extend(keys);
        self.tmux(&arguments);
        until(|| self.screen(), |screen| screen.contains(part))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn top_in_a_terminal_slow() {
    if Command::new("tmux").arg("-V").output().is_err() {
        assert!(std::env::var_os("ECRU_REQUIRE_SERVERS").is_none(), "tmux is not installed");
        eprintln!("skipped: tmux is not installed");
        return;
    }
    let program = start("locks");
    let terminal = Terminal(format!("ecru-cli-{}", std::process::id()));
    let top = format!("{} top {}", env!("CARGO_BIN_EXE_ecru"), path(&program.socket));
    let opened = terminal.tmux(&["new-session", "-d", "-x", "130", "-y", "40", &top]);
    assert!(opened.status.success(), "{}", text(&opened.stderr));
    let screen = until(
        || terminal.screen(),
        |screen| screen.contains("wait for each other: #") && screen.contains("ended/s"),
    );
    for part in ["ecru top ", "sorted by tree", "TASK", "philosopher-2", "'middle'", "q quit"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    terminal.press(&["s"], "sorted by longest wait");
    terminal.press(&["/"], "type a part of a name");
    terminal.press(&["philosopher-1", "Enter"], "filter: philosopher-1");
    let screen = until(|| terminal.screen(), |screen| !screen.contains("philosopher-2   "));
    // Also the one that waits for it.
    assert!(screen.contains("philosopher-1   ") && screen.contains("philosopher-0   "), "{screen}");
    // The stack of a task that is left. Both wait for ever, so they have one.
    terminal.press(&["Enter"], "   0: ");
    terminal.press(&["Escape"], "spawned at");
    terminal.tmux(&["send-keys", "q"]);
    until(
        || format!("{:?}", terminal.tmux(&["list-sessions"]).status.success()),
        |is_open| is_open == "false",
    );
}

/// A signal that ends the process does not leave the terminal as the table needs it.
#[test]
fn top_restores_the_terminal_at_a_signal_slow() {
    if Command::new("tmux").arg("-V").output().is_err() {
        assert!(std::env::var_os("ECRU_REQUIRE_SERVERS").is_none(), "tmux is not installed");
        eprintln!("skipped: tmux is not installed");
        return;
    }
    let program = start("locks");
    let terminal = Terminal(format!("ecru-cli-signal-{}", std::process::id()));
    let number = program.folder.0.join("number");
    let top = format!("{} top {}", env!("CARGO_BIN_EXE_ecru"), path(&program.socket));
    let shell =
        format!("sh -c 'echo $$ >{}; exec {top}'; echo over $?; stty -a; cat", path(&number));
    let opened = terminal.tmux(&["new-session", "-d", "-x", "130", "-y", "40", &shell]);
    assert!(opened.status.success(), "{}", text(&opened.stderr));
    until(|| terminal.screen(), |screen| screen.contains("sorted by tree"));
    let number = std::fs::read_to_string(number).unwrap();
    assert!(Command::new("kill").args(["-TERM", number.trim()]).status().unwrap().success());
    // 128 and the number of the signal.
    let is_over = |screen: &str| screen.contains("over 143") && screen.contains("icanon");
    let screen = until(|| terminal.screen(), is_over);
    assert!(!screen.contains("-icanon") && !screen.contains("sorted by tree"), "{screen}");
}

/// A terminal that is closed ends the table, which would otherwise read the end of it for ever.
#[test]
fn top_ends_with_its_terminal_slow() {
    if Command::new("tmux").arg("-V").output().is_err() {
        assert!(std::env::var_os("ECRU_REQUIRE_SERVERS").is_none(), "tmux is not installed");
        eprintln!("skipped: tmux is not installed");
        return;
    }
    let program = start("locks");
    let terminal = Terminal(format!("ecru-cli-closed-{}", std::process::id()));
    let number = program.folder.0.join("number");
    let top = format!("{} top {}", env!("CARGO_BIN_EXE_ecru"), path(&program.socket));
    let shell = format!("sh -c 'echo $$ >{}; exec {top}'", path(&number));
    let opened = terminal.tmux(&["new-session", "-d", "-x", "130", "-y", "40", &shell]);
    assert!(opened.status.success(), "{}", text(&opened.stderr));
    until(|| terminal.screen(), |screen| screen.contains("sorted by tree"));
    let process = format!("/proc/{}/cmdline", std::fs::read_to_string(number).unwrap().trim());
    let runs = || std::fs::read_to_string(&process).is_ok_and(|line| line.contains("top"));
    assert!(runs(), "{process}");
    drop(terminal);
    until(|| format!("{}", runs()), |runs| runs == "false");
}
