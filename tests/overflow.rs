//! Tests of stacks that are too small. Each case runs in a process of its own: this program,
//! started again.

#![cfg(not(ecru_baton))]
#![expect(unsafe_code, reason = "installs handlers and makes accesses that fault")]

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use ecru::coroutine::{Coroutine, STACK_FLOOR, Stack, Yielder};

/// Names the case that the child process runs.
const CASE: &str = "ECRU_OVERFLOW_CASE";

/// Runs a case in a process of its own.
fn child(case: &str, settings: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_child", "--nocapture", "--test-threads=1"]);
    command.env(CASE, case).env_remove("RUST_BACKTRACE").env_remove("ECRU_GUARD");
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// Does nothing except as the child of another test.
#[test]
fn the_child() {
    match std::env::var(CASE).as_deref() {
        Ok("recursion") => in_coroutine(STACK_FLOOR, || exhaust(1 << 30)),
        Ok("large frame") => in_coroutine(STACK_FLOOR, || {
            black_box([1_u8; 60 * 1024]);
        }),
        Ok("generator in a thread") => {
            std::thread::spawn(|| in_coroutine(64 * 1024, || exhaust(1 << 30))).join().unwrap();
        }
        Ok("second use") => {
            for _ in 0..100 {
                in_coroutine(STACK_FLOOR, || exhaust(10));
            }
            in_coroutine(STACK_FLOOR, || exhaust(1 << 30));
        }
        Ok("foreign address") => in_coroutine(STACK_FLOOR, || {
            // SAFETY: this is not sound, and is meant to fault.
            unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) }
        }),
        Ok("sent by kill") => in_coroutine(STACK_FLOOR, || {
            // std's handler uninstalls itself at the first signal that it cannot explain, and
            // returns. The second signal ends the process.
            for _ in 0..2 {
                // SAFETY: this sends a signal to the calling thread.
                unsafe { libc::raise(libc::SIGSEGV) };
            }
        }),
        Ok("thread") => {
            in_coroutine(STACK_FLOOR, || ());
            black_box(recurse(1 << 30));
        }
        Ok("previous handler") => {
            previous_handler();
            in_coroutine(STACK_FLOOR, || exhaust(1 << 30));
        }
        Ok("backtrace") => {
            let error =
                std::panic::catch_unwind(|| in_coroutine(STACK_FLOOR, || panic!("the panic")));
            assert!(error.is_err());
            eprintln!("caught");
        }
        Ok("future") => ecru::run(|| {
            ecru::scope(|s| _ = s.builder().name("deep").spawn_future(async { exhaust(1 << 30) }));
        }),
        Ok("too many") => too_many(),
        _ => {}
    }
}

fn in_coroutine(size: usize, body: impl FnOnce() + 'static) {
    let stack = Stack::new(size).unwrap();
    Coroutine::with_stack(stack, move |_: &Yielder<(), ()>, ()| body()).resume(());
}

fn exhaust(depth: u64) {
    black_box(recurse(depth));
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if depth == 0 { 0 } else { recurse(depth - 1) + frame[3] }
}

fn previous_handler() {
    extern "C" fn note(_: libc::c_int) {
        let text = b"the previous handler\n";
        // SAFETY: the text is readable.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::signal(libc::SIGSEGV, note as extern "C" fn(_) as usize) };
}

/// Guards made by `mprotect` are refused before the process runs out of mappings.
fn too_many() {
    let limit: usize =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    let mut stacks = Vec::new();
    let error = loop {
        match Stack::new(STACK_FLOOR) {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
        if stacks.len() > limit {
            return eprintln!("never refused");
        }
    };
    let lines = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    assert!(lines < limit / 100 * 90, "{lines} of {limit}");
    assert!(stacks.len() > limit / 100 * 30, "{}", stacks.len());
    eprintln!("{error}");
    drop(stacks);
    drop(Stack::new(STACK_FLOOR).unwrap());
    eprintln!("one more after all were given back");
}

fn died_of_overflow(output: &Output, text: &str, size: &str) {
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{:?}\n{text}", output.status);
    assert!(text.contains("stack overflow in a coroutine"), "{text}");
    assert!(text.contains(size) && text.contains("with_stack"), "{text}");
    assert!(text.contains("stack_size("), "{text}");
}

/// - given: a process whose coroutine recurses for ever
/// - when: its stack is exhausted
/// - then: the guard faults, the report names the size and the setting, and the process ends by
///   SIGSEGV
#[test]
fn coroutine_18_guarded() {
    let (output, text) = child("recursion", &[]);
    died_of_overflow(&output, &text, "16384 bytes");
    let (output, text) = child("recursion", &[("ECRU_GUARD", "mprotect")]);
    died_of_overflow(&output, &text, "16384 bytes");
}

/// The same holds for one large frame, for a coroutine on another thread, and for a reused stack.
#[test]
fn other_overflows_are_reported() {
    let (output, text) = child("large frame", &[]);
    died_of_overflow(&output, &text, "16384 bytes");
    let (output, text) = child("generator in a thread", &[]);
    died_of_overflow(&output, &text, "65536 bytes");
    let (output, text) = child("second use", &[]);
    died_of_overflow(&output, &text, "16384 bytes");
}

/// A future that overflows the stack on which its worker polls it is named.
#[test]
fn an_overflow_in_a_poll() {
    let (output, text) = child("future", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{:?}\n{text}", output.status);
    assert!(text.contains("stack overflow") && text.contains("'deep'"), "{text}");
    assert!(text.contains("stack_size("), "{text}");
}

/// A fault outside any guard, and a signal sent by a process, end the process as usual.
#[test]
fn other_faults_are_not_ours() {
    for case in ["foreign address", "sent by kill"] {
        let (output, text) = child(case, &[]);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{case}: {text}");
        assert!(!text.contains("stack overflow"), "{case}: {text}");
    }
}

/// `std` still reports the overflow of a plain thread, although ecru's handler is called first.
#[test]
fn a_threads_own_overflow_is_still_reported() {
    let (output, text) = child("thread", &[]);
    assert!(output.status.signal().is_some(), "{text}");
    assert!(text.contains("has overflowed its stack"), "{text}");
}

/// - given: a process with its own SIGSEGV handler
/// - when: it reads address 1 after a run
/// - then: its own handler is called
///
/// The handler is called after the report. Even if it returns, the process ends.
#[test]
fn run_18_chains_the_signal() {
    let (output, text) = child("previous handler", &[]);
    died_of_overflow(&output, &text, "16384 bytes");
    let (report, rest) = text.split_once("the previous handler").unwrap();
    assert!(report.contains("stack overflow") && !rest.contains("stack overflow"), "{text}");
}

/// - given: a process with `RUST_BACKTRACE=1` and a 16 KiB stack
/// - when: its task panics
/// - then: the panic is caught, or reported as an overflow; there is no bare SIGSEGV
#[test]
fn task_11_backtrace_on_a_small_stack() {
    for setting in ["0", "1", "full"] {
        let (output, text) = child("backtrace", &[("RUST_BACKTRACE", setting)]);
        if output.status.success() {
            assert!(text.contains("the panic") && text.contains("caught"), "{text}");
        } else {
            died_of_overflow(&output, &text, "16384 bytes");
        }
    }
}

/// Where guards take mappings, stacks are refused while the rest of the program still has mappings.
#[test]
fn guards_by_mprotect_are_counted() {
    let (output, text) = child("too many", &[("ECRU_GUARD", "mprotect")]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("vm.max_map_count") && text.contains("6.13"), "{text}");
    assert!(text.contains("one more after"), "{text}");
}
