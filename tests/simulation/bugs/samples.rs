//! The messages in the documents are those that the programs here get. A comment with the name of
//! the program stands before each of them.
//!
//! After a change of the messages, or of the order in which tasks run:
//!
//! ```text
//! ECRU_SAMPLES=write cargo test --test simulation bugs::samples
//! ```

use super::table::Bug;
use super::{STRATEGIES, find};
use super::{half_open_connection, log_without_directory_sync, lost_wakeup, vote_after_reply};
use std::backtrace::Backtrace;
use std::fs;
use std::path::Path;

const PROGRAMS: [Bug; 4] = [
    ("half_open_connection", half_open_connection::BUG.1),
    ("log_without_directory_sync", log_without_directory_sync::BUG.1),
    ("lost_wakeup", lost_wakeup::BUG.1),
    ("vote_after_reply", vote_after_reply::BUG.1),
];

/// Replaces the samples of a page by what the programs print today, and returns how many there are.
/// A sample that begins with `timeline:` is the timeline alone.
fn renew(page: &str) -> (String, usize) {
    let mut lines = page.lines();
    let (mut renewed, mut samples) = (String::new(), 0);
    let mut push = |text: &str| {
        renewed.push_str(text);
        renewed.push('\n');
    };
    while let Some(line) = lines.next() {
        push(line);
        let name = line.strip_prefix("<!-- tests/simulation/bugs/");
        let Some(name) = name.and_then(|name| name.strip_suffix(".rs -->")) else { continue };
        let (_, program) = PROGRAMS.iter().find(|(one, _)| *one == name).expect(name);
        assert_eq!(lines.next(), Some("```text"), "after {line}");
        push("```text");
        let sample: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let message = find(*program, &STRATEGIES[0]).to_string();
        let message = message.replace("tests/simulation/bugs/", "src/");
        let timeline = || {
            let rest = &message[message.find("timeline:").expect("a timeline")..];
            rest.split("\nturns").next().unwrap_or(rest)
        };
        push(if sample.first() == Some(&"timeline:") { timeline() } else { &message });
        push("```");
        samples += 1;
    }
    (renewed, samples)
}

#[test]
fn samples_of_the_documents() {
    // They have the places that a build with line tables knows.
    if !Backtrace::force_capture().to_string().contains("samples.rs:") {
        return;
    }
    for (name, count) in
        [("doc/guide/src/09-testing-by-simulation.md", 3), ("doc/simulation.md", 2)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let page = fs::read_to_string(&path).expect("the page is read");
        let (renewed, samples) = renew(&page);
        assert_eq!(samples, count, "samples in {name}");
        if std::env::var_os("ECRU_SAMPLES").is_some_and(|what| what == "write") {
            fs::write(&path, &renewed).expect("the page is written");
        } else {
            assert_eq!(page, renewed, "{name} is out of date: see the head of this file");
        }
    }
}
