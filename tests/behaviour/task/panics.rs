//! What a panic reports about its task.

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::process::Output;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use crate::support::{alone_with, panic_text, quiet_panic, run_on};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[inline(never)]
fn a_function_that_panics() {
    std::hint::black_box(());
    panic!("oh dear");
}

/// - given: a task in a scope of a task in a scope
/// - when: it panics
/// - then: one line on standard error names it and where it was spawned; the panics of the scopes
///   add no lines
#[test]
fn task_61_panic_names_its_task() {
    const NAME: &str = "task::panics::task_61_panic_names_its_task";
    let ran = alone_with(
        NAME,
        |_| {},
        || {
            run_on(1, || {
                let text = panic_text(|| {
                    ecru::scope(|s| {
                        s.builder().name("outer").spawn(|| {
                            ecru::scope(|s| {
                                s.builder().name("inner").spawn(a_function_that_panics);
                            });
                        });
                    });
                });
                assert!(text.contains("oh dear"), "{text}");
            });
        },
    );
    let Some(output) = ran else { return };
    let said = text(&output);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("ecru: ")).collect();
    let [line] = lines[..] else { panic!("not one line: {said}") };
    assert!(line.contains("'inner'") && line.contains("panics.rs:"), "{said}");
    assert!(!said.contains("scope/core.rs"), "{said}");
}

/// - given: a child that panics after it has caught another panic, and a child that panics without
///   a panic hook
/// - when: it is not joined
/// - then: the scope's panic names the child, where it was spawned and, if a hook was called, where
///   it panicked; the location of the scope's panic is where the scope was opened
#[test]
fn scope_60_panic_says_where() {
    const NAME: &str = "task::panics::scope_60_panic_says_where";
    let ran = alone_with(
        NAME,
        |_| {},
        || {
            run_on(1, || {
                let opened = line!() + 2;
                let text = panic_text(|| {
                    ecru::scope(|s| {
                        s.builder().name("child").spawn(|| {
                            // An earlier panic, which is caught.
                            let caught = catch_unwind(|| panic!("caught"));
                            assert!(caught.is_err());
                            panic!("the second")
                        });
                    });
                });
                let place = format!("panics.rs:{}:", opened + 5);
                assert!(text.contains(&place), "{text}");
                assert!(text.contains("'child'") && text.contains("the second"), "{text}");
                // The place where it was spawned.
                assert!(text.contains(&format!("panics.rs:{}:", opened + 1)), "{text}");
                // A panic that calls no hook has no place.
                let text = panic_text(|| ecru::scope(|s| _ = s.spawn(|| quiet_panic("quiet"))));
                assert!(text.contains("quiet") && !text.contains("caught"), "{text}");
            });
        },
    );
    let Some(output) = ran else { return };
    let said = text(&output);
    // The location of the scope's own panic is where the scope was opened.
    assert!(said.contains("panicked at tests/behaviour/task/panics.rs:"), "{said}");
    assert!(!said.contains("src/scope"), "{said}");
}

/// - given: a panic hook that the program set before the first run, one set afterwards that calls
///   the previous hook, and one that does not
/// - when: a task panics by `panic!`, or by `resume_unwind`
/// - then: each hook is called as it would be without ecru; the line is printed unless a later hook
///   has replaced the one that prints it; `resume_unwind` calls no hook
#[test]
fn task_62_hooks_of_the_program() {
    const NAME: &str = "task::panics::task_62_hooks_of_the_program";
    let ran = alone_with(
        NAME,
        |_| {},
        || {
            static BEFORE: AtomicUsize = AtomicUsize::new(0);
            static AFTER: AtomicUsize = AtomicUsize::new(0);
            panic::set_hook(Box::new(|info| {
                assert_eq!(info.payload_as_str(), Some("oh dear"));
                assert!(info.location().unwrap().file().ends_with("panics.rs"));
                BEFORE.fetch_add(1, SeqCst);
            }));
            let run = || {
                run_on(1, || {
                    ecru::scope(|s| assert!(s.spawn(a_function_that_panics).join().is_err()));
                    // Without a hook.
                    ecru::scope(|s| assert!(s.spawn(|| quiet_panic("quiet")).join().is_err()));
                });
            };
            run();
            assert_eq!(BEFORE.load(SeqCst), 1);
            let hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                AFTER.fetch_add(1, SeqCst);
                hook(info);
            }));
            run();
            assert_eq!((BEFORE.load(SeqCst), AFTER.load(SeqCst)), (2, 1));
            panic::set_hook(Box::new(|_| _ = AFTER.fetch_add(1, SeqCst)));
            run();
            assert_eq!((BEFORE.load(SeqCst), AFTER.load(SeqCst)), (2, 2));
            // Outside a task, the library's hook has no effect.
            let _ = panic::take_hook();
            assert!(catch_unwind(AssertUnwindSafe(a_function_that_panics)).is_err());
        },
    );
    let Some(output) = ran else { return };
    let said = text(&output);
    // The third hook has replaced the library's.
    assert_eq!(said.matches("ecru: ").count(), 2, "{said}");
}

/// - given: a test in which a task panics
/// - when: the test runner captures its output
/// - then: the line is captured too
#[test]
fn task_63_line_is_captured() {
    const NAME: &str = "task::panics::task_63_line_is_captured";
    if crate::support::is_child(NAME) {
        run_on(2, || {
            ecru::scope(|s| assert!(s.spawn(a_function_that_panics).join().is_err()));
        });
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--test-threads=1"]).env("ECRU_TEST_CHILD", NAME);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output), "");
}

/// - given: `RUST_BACKTRACE` is `1`, or `full`
/// - when: a task that has waited, one that has not, and the root panic
/// - then: with `1`, the backtrace shows frames of the program, and of ecru only the functions that
///   the program has called; with `full`, all frames
#[test]
fn task_64_backtrace_without_own_frames() {
    const NAME: &str = "task::panics::task_64_backtrace_without_own_frames";
    for style in ["1", "full"] {
        let ran = alone_with(
            NAME,
            |command| _ = command.env("RUST_BACKTRACE", style),
            || {
                run_on(1, || {
                    ecru::scope(|s| {
                        assert!(s.spawn(a_function_that_panics).join().is_err());
                        ecru::yield_now().unwrap();
                        let slow = s.spawn(|| {
                            ecru::yield_now().unwrap();
                            a_function_that_panics();
                        });
                        ecru::yield_now().unwrap();
                        assert!(slow.join().is_err());
                    });
                    // This runs on the thread's own stack.
                    let body = || ecru::scope(|_| a_function_that_panics());
                    assert!(catch_unwind(AssertUnwindSafe(body)).is_err());
                });
            },
        );
        let Some(output) = ran else { return };
        let said = text(&output);
        let frames = said.lines().filter(|line| {
            line.trim_start().split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok())
        });
        let own: Vec<_> = frames.filter(|line| line.contains("ecru::")).collect();
        if style == "1" {
            assert_eq!(said.matches("a_function_that_panics").count(), 3, "{said}");
            // Functions that the program calls are included.
            let called = ["::run", "::scope"];
            let inner: Vec<_> = own
                .iter()
                .filter(|line| !called.iter().any(|end| line.trim_end().ends_with(end)))
                .collect();
            // This test does not check an optimizer's effect on frames.
            assert!(inner.is_empty() || !cfg!(debug_assertions), "{inner:#?}\n{said}");
        } else {
            assert!(!own.is_empty(), "{said}");
        }
    }
}
