//! The sessions of the guide: each page shows a program, commands, and what they print. The programs
//! are in `doc/guide/programs`. They run here, and what the commands print is compared with the page,
//! except numbers that differ from run to run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::guide;
use crate::support::{Folder, Program, ecru, path, start, start_with, text, until};

fn guide_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/guide")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns what the command prints. It fails as long as the program has not opened its socket: a
/// program of the guide does not say when it has.
fn asks(arguments: &[&str]) -> String {
    let output = ecru(arguments);
    text(if output.status.success() { &output.stdout } else { &output.stderr })
}

/// A page of the guide, as its code blocks: the words after the fence, and the content.
struct Page(Vec<(String, String)>);

impl Page {
    /// Reads a page, which must have the program of its name.
    #[track_caller]
    fn about(name: &str) -> Page {
        let page = Page::named(name);
        page.place_of(name);
        page
    }

    fn named(name: &str) -> Page {
        let text = read(&guide_folder().join(format!("src/10-{name}.md")));
        let mut blocks: Vec<(String, String)> = Vec::new();
        let mut is_inside = false;
        for line in text.lines() {
            match (line.strip_prefix("```"), is_inside) {
                (Some(words), false) => blocks.push((words.to_owned(), String::new())),
                (Some(_), true) => {}
                (None, true) => {
                    let (_, content) = blocks.last_mut().unwrap();
                    content.push_str(line);
                    content.push('\n');
                }
                (None, false) => continue,
            }
            is_inside = line.starts_with("```") != is_inside;
        }
        Page(blocks)
    }

    /// Returns the place of a program among the blocks.
    #[track_caller]
    fn place_of(&self, program: &str) -> usize {
        let text = read(&guide_folder().join(format!("programs/{program}.rs")));
        let is_it = |(words, shown): &(String, String)| words.starts_with("rust") && *shown == text;
        self.0.iter().position(is_it).unwrap_or_else(|| panic!("the page lacks {program}.rs"))
    }

    /// Returns the text that the page shows after a command.
    #[track_caller]
    fn output_of(&self, command: &str) -> &str {
        let shows = |block: &(String, String)| block.1.lines().any(|line| line == command);
        let place = self.0.iter().position(shows).unwrap_or_else(|| panic!("no {command}"));
        self.output_after(place)
    }

    #[track_caller]
    fn output_after(&self, place: usize) -> &str {
        let (words, output) = &self.0[place + 1];
        assert_eq!(words, "text", "what {} prints", self.0[place].1);
        output
    }

    /// Waits until each line that the page shows after the command is among those that `look`
    /// returns. A line `..` stands for any lines.
    #[track_caller]
    fn is_true_of(&self, command: &str, look: impl Fn() -> String) {
        is_true(command, self.output_of(command), look);
    }

    /// Does the same for what the page shows after a program.
    #[track_caller]
    fn is_true_of_program(&self, program: &str, look: impl Fn() -> String) {
        is_true(program, self.output_after(self.place_of(program)), look);
    }
}

#[track_caller]
fn is_true(of: &str, shown: &str, look: impl Fn() -> String) {
    let shown = plain(shown);
    let missing = || -> String {
        let seen = plain(&look());
        let lacks = |line: &&str| *line != ".." && !seen.lines().any(|one| one == *line);
        let missing: Vec<&str> = shown.lines().filter(lacks).collect();
        match missing[..] {
            [] => String::new(),
            _ => format!("{of}: missing\n{}\n\nin\n{seen}", missing.join("\n")),
        }
    };
    until(missing, str::is_empty);
}

/// Returns a text without what differs from run to run: numbers of tasks, addresses, times, the
/// folder of the program, and the widths of columns.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            let word = plain_word(word);
            match (word.as_str(), words.last().map(String::as_str)) {
                // A list of tasks, which is cut after some.
                ("#_" | "..", Some("#_")) => continue,
                ("tasks" | "s" | "s:" | "s,", Some(number)) if number.parse::<f64>().is_ok() => {
                    words.pop();
                    words.push(String::from("_"));
                }
                _ => {}
            }
            words.push(word);
        }
        // A wait of less than a second is printed without its time.
        plain.push_str(&words.join(" ").replace(", for _ s", ""));
        plain.push('\n');
    }
    plain
}

fn plain_word(word: &str) -> String {
    let word = match word.find("doc/guide/programs/") {
        Some(at) => {
            let start = word[..at].rfind(['(', '\'']).map_or(0, |before| before + 1);
            let rest = &word[at + "doc/guide/programs/".len()..];
            let rest = rest.split_once(".rs").map_or(rest, |(_, rest)| rest);
            format!("{}src/main.rs{rest}", &word[..start])
        }
        None => word.to_owned(),
    };
    let is_digit = |c: char| c.is_ascii_digit();
    if let Some(at) = word.find("0x") {
        let rest = word[at + 2..].trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '.');
        return format!("{}0x_{rest}", &word[..at]);
    }
    if let Some(rest) = word.strip_prefix('#') {
        return format!("#_{}", rest.trim_start_matches(is_digit));
    }
    // A time such as `201.5ms:` or `1.0s`, perhaps behind a parenthesis.
    if let Some(rest) = word.strip_prefix('(')
        && rest.starts_with(is_digit)
    {
        return format!("({}", plain_word(rest));
    }
    let unit = word.trim_start_matches(|c: char| is_digit(c) || c == '.');
    let bare = unit.trim_end_matches([',', ':', ')']);
    if unit.len() < word.len() && matches!(bare, "s" | "ms" | "µs") {
        return format!("_{}", &unit[bare.len()..]);
    }
    word
}

/// Starts a program of the guide with its standard error in a file.
fn start_with_stderr(name: &str, set: impl FnOnce(&mut Command)) -> (Program, PathBuf) {
    let folder = Folder::new();
    let (socket, stderr) = (folder.0.join("socket"), folder.0.join("stderr"));
    let file = File::create(&stderr).unwrap();
    let program = start_with(name, folder, socket.clone(), |command| {
        command.env("ECRU_INSPECT", &socket).stderr(file);
        set(command);
    });
    (program, stderr)
}

#[test]
fn my_program_hangs_slow() {
    let page = Page::about("hangs");
    let program = start(guide::HANGS);
    page.is_true_of("ecru dump $!", || asks(&["dump", path(&program.socket)]));
    let (_program, stderr) = start_with_stderr(guide::HANGS, |command| {
        command.env("ECRU_DETECT_DEADLOCK", "1");
    });
    page.is_true_of("ECRU_DETECT_DEADLOCK=1 target/debug/hangs", || read(&stderr));
}

#[test]
fn my_program_is_slow_slow() {
    let page = Page::about("slow");
    let (program, stderr) = start_with_stderr(guide::SLOW, |command| {
        command.env("ECRU_WATCHDOG", "200ms");
    });
    let process = program.child.id().to_string();
    let report = || read(&stderr).replace(&process, "20184");
    page.is_true_of("ECRU_INSPECT=1 ECRU_WATCHDOG=200ms target/debug/slow &", report);
    let screen = || {
        let screen = asks(&["top", path(&program.socket), "--once"]);
        // The folder is too long for the screen, so the line is cut.
        let screen = screen.replace("programs/slow.rs\n", "programs/slow.rs:12:42\n");
        screen.replace(path(&program.socket), "20184")
    };
    page.is_true_of("ecru top --once $!", screen);
    let trace = || asks(&["trace", path(&program.socket)]);
    until(trace, |page| page.starts_with("<!doctype html>") && page.contains("renderer"));
}

#[test]
fn my_program_leaks_slow() {
    let page = Page::about("leaks");
    let (program, stderr) = start_with_stderr(guide::LEAKS, |_| {});
    page.is_true_of("ecru dump $!", || asks(&["dump", path(&program.socket)]));
    // The other output must not be there before the signal.
    assert!(!read(&stderr).contains("suspected"));
    ask_by_signal(&program);
    page.is_true_of("kill -USR1 $!", || read(&stderr));
}

#[track_caller]
fn ask_by_signal(program: &Program) {
    let process = program.child.id().to_string();
    assert!(Command::new("kill").args(["-USR1", &process]).status().unwrap().success());
}

#[test]
fn tasks_that_are_left_are_reported_slow() {
    let page = Page::named("leaks");
    let (_program, stderr) = start_with_stderr(guide::LEFT, |command| {
        command.env("ECRU_WATCHDOG", "1s");
    });
    page.is_true_of_program("left", || read(&stderr));
}

#[test]
fn a_signal_makes_a_program_print_its_tasks_slow() {
    Page::named("when-it-goes-wrong").place_of("signal");
    let (program, stderr) = start_with_stderr(guide::SIGNAL, |_| {});
    // By then it has a handler of the signal.
    until(|| asks(&["dump", path(&program.socket)]), |dump| dump.contains("the root"));
    ask_by_signal(&program);
    until(|| read(&stderr), |dump| dump.contains("the root") && dump.contains("signal.rs"));
}
