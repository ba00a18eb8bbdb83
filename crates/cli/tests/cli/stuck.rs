//! Programs that hang: the first five lines of a dump name the cause, the task and the source line.

use crate::support::{path, said, start, until};

/// Dumps a program until the first five lines have all of these parts, and a line of its source.
/// The parts name the cause and the task.
#[track_caller]
fn names(program: &str, parts: &[&str]) -> String {
    let program = start(program);
    let head = || {
        let dump = said(&["dump", path(&program.socket)]);
        dump.lines().take(5).collect::<Vec<_>>().join("\n")
    };
    until(head, |head| parts.iter().all(|part| head.contains(part)) && has_line(head))
}

/// Returns whether a text has a line number of the programs, with a column.
fn has_line(text: &str) -> bool {
    text.split("tests/cli/programs.rs:").skip(1).any(|behind| {
        let mut numbers = behind.splitn(3, |c: char| !c.is_ascii_digit());
        numbers.by_ref().take(2).all(|number| number.parse::<u32>().is_ok())
    })
}

#[test]
fn a_line_has_a_number() {
    assert!(has_line("task 'a', spawned at crates/cli/tests/cli/programs.rs:12:5: waits"));
    assert!(has_line("at tests/cli/programs.rs:12:5"));
    assert!(!has_line("at tests/cli/programs.rs: waits"));
    assert!(!has_line("at tests/cli/other.rs:12:5"));
}

#[test]
fn a_cycle_of_three_locks_beside_running_work_slow() {
    let head =
        names("locks", &["3 tasks wait for each other", "'philosopher-2'", "a lock ('left'"]);
    assert_eq!(head.matches(", held by task #").count(), 3, "{head}");
}

#[test]
fn a_join_under_a_lock_slow() {
    let parts = ["2 tasks wait for each other", "'closing'", "'entry'", "'ledger'"];
    names("join", &parts);
}

#[test]
fn a_reader_that_wants_to_write_slow() {
    let parts = ["1 task waits for itself", "'reloader'", "'settings'", "a reader has it"];
    names("upgrade", &parts);
}

#[test]
fn a_worker_that_sleeps_slow() {
    let parts = ["is busy with a task 'poller' spawned at", "use `ecru::sleep`"];
    names("sleep", &parts);
}

#[test]
fn a_mutex_of_std_across_a_wait_slow() {
    let parts = ["is busy with a task '", "hold no `std` lock across a wait"];
    names("mutex", &parts);
}

#[test]
fn a_channel_of_std_slow() {
    let parts = ["is busy with a task 'consumer' spawned at", "`ecru::channel`"];
    names("mpsc", &parts);
}

#[test]
fn a_leaked_sender_slow() {
    let parts = ["'consumer'", "a value from a channel 'orders' of u32 (bounded(5)", "1 sender"];
    names("leak", &parts);
}

#[test]
fn an_exhausted_pool_slow() {
    let parts = ["'handler-", "a value of a pool ('connections', ", "0 free", ", held by task #"];
    names("pool", &parts);
}

#[test]
fn a_slow_subscriber_that_stalls_a_multiplexer_slow() {
    let parts =
        ["'multiplexer'", "room in a channel 'inbox of audit' of u32 (bounded(2)", "2 in it"];
    names("subscriber", &parts);
}

#[test]
fn connections_that_are_never_given_back_slow() {
    let parts = ["'handler-", "a value of a pool ('connections', ", "0 free"];
    let head = names("connections", &parts);
    // Both tasks that have taken one are named, although they have ended.
    assert!(
        head.contains(", held by task #")
            && head.matches("(not listed: it may have ended)").count() == 2,
        "{head}"
    );
}

#[test]
fn a_task_that_never_waits_slow() {
    let parts = ["is busy with a task 'sum' spawned at", "`ecru::checkpoint`"];
    names("computes", &parts);
}
