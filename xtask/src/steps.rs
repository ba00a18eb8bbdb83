//! The checks that build and run programs. Each fails if nothing ran.

use crate::outcome::Outcome;
use crate::process::{Said, cargo, run, target_folder};
use crate::tree::Tree;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The packages that have models.
const MODELLED: [&str; 2] = ["ecru", "ecru-flow"];

/// `cargo xtask loom` runs the models beside the protocols, in every interleaving with at most two
/// preemptions. Each package must have run some.
pub(crate) fn loom(root: &Path) -> Outcome {
    let mut models = 0;
    for package in MODELLED {
        let mut command =
            cargo(root, &["test", "--profile", "loom", "--package", package, "--lib", "loom"]);
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_folder(root, "loom"));
        if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
            command.env("LOOM_MAX_PREEMPTIONS", "2");
        }
        match run(&mut command) {
            Ok(said) if said.passed > 0 => models += said.passed,
            Ok(_) => return Outcome::broken(format!("the package {package} has run no models")),
            Err(problem) => return Outcome::broken(problem),
        }
    }
    outcome(Ok((models, "models")))
}

/// `cargo xtask baton` runs the tests of the runtime with each coroutine and each task on an OS
/// thread of its own.
pub(crate) fn baton(root: &Path) -> Outcome {
    let suites =
        ["coroutine", "attack", "attack_cancel", "attack_channel", "channel_model", "behaviour"];
    let mut command = cargo(root, &["test", "--lib"]);
    command
        .args(suites.iter().flat_map(|suite| ["--test", suite]))
        .env("RUSTFLAGS", "--cfg ecru_baton")
        .env("CARGO_TARGET_DIR", target_folder(root, "baton"));
    tests("tests on threads", run(&mut command))
}

/// The topics that Miri checks by default: tests of all layers that need no kernel, few enough to
/// run in a few minutes.
const FOR_MIRI: [&str; 7] = [
    "::coroutine_0",
    "::scope_0",
    "::select_0",
    "::source_0",
    "::channel_02",
    "::channel_03",
    "::callback_0",
];

/// `cargo xtask miri` runs behaviour tests in Rust's interpreter, which checks every memory access
/// for undefined behaviour, races and use after free. Each task is on a thread of its own, by the
/// second backend. It needs a nightly toolchain with the component `miri`. For that reason, and
/// because it is slow, it is not part of CI.
pub(crate) fn miri(root: &Path, topics: &[&str]) -> Outcome {
    let topics = if topics.is_empty() { &FOR_MIRI[..] } else { topics };
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "test", "--test", "behaviour", "--"]);
    // The service thread never ends, which Miri reports as a leak. Tree borrows are needed because
    // a node of an intrusive list is reached through its link, which the older model does not
    // allow.
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-tree-borrows";
    command.args(topics).current_dir(root).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env("MIRIFLAGS", flags).env("CARGO_TARGET_DIR", target_folder(root, "miri"));
    tests("tests in Miri", run(&mut command))
}

/// The suites that run under AddressSanitizer unless others are named.
const FOR_ASAN: [&str; 2] = ["coroutine", "attack"];

/// Tests that cannot pass under AddressSanitizer. Its functions need more stack than the smallest
/// stack has, its memory counts, and a backtrace contains its frames.
const NOT_FOR_ASAN: [&str; 4] = [
    "coroutine_14_own_stack",
    "task_27_million_unstarted_slow",
    "task_29_fork_join_memory_slow",
    "task_64_backtrace_without_own_frames",
];

/// `cargo xtask asan` runs tests on the native switch under AddressSanitizer. It needs a nightly
/// toolchain, but not the sources of std.
///
/// Only memory outside of the stacks is watched. The sanitizer does not know ecru's stacks. It
/// would move locals to a stack of its own, where `suspend` does not find them, and it would not
/// notice that a panic has left the frames of a stack.
pub(crate) fn asan(root: &Path, suites: &[&str]) -> Outcome {
    let suites = if suites.is_empty() { &FOR_ASAN[..] } else { suites };
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "test", "--lib"]);
    command.args(suites.iter().flat_map(|suite| ["--test", suite]));
    // With a target named, build scripts and macros are built without the sanitizer.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args(["--target", &target, "--"]);
    command.args(NOT_FOR_ASAN.iter().flat_map(|test| ["--skip", test])).current_dir(root);
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command.env("RUSTFLAGS", "-Zsanitizer=address -Cllvm-args=-asan-stack=0");
    command.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
    command.env("CARGO_TARGET_DIR", target_folder(root, "asan"));
    tests("tests under AddressSanitizer", run(&mut command))
}

/// Tests that cannot pass in the emulator. It has no io_uring and not all of epoll, which the tests
/// of the drivers need. Its own tables fill the memory if terabytes are mapped, or the memory is
/// limited. The system calls that /proc shows are numbered as those of the real processor.
const NOT_FOR_QEMU: [&str; 4] = [
    "driver::",
    "coroutine_16_stack_cannot_be_mapped",
    "a_short_text_does_not_fill_the_memory",
    "what_a_thread_waits_for_is_known",
];

/// `cargo xtask aarch64` runs the library's own tests and those of coroutines on an emulated ARM
/// processor, and compiles the library for RISC-V. Debian's `rustc-web` and `rust-web-src` compile
/// std for both, and `qemu-user` emulates.
pub(crate) fn aarch64(root: &Path, topics: &[&str]) -> Outcome {
    let with_std = |action: &str, target: &str| {
        let mut command = cargo(root, &[action, "--package", "ecru", "-Zbuild-std", "--lib"]);
        command.args(["--features", "sim", "--target", target]);
        command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_DIR", target_folder(root, "aarch64"));
        command
    };
    let (linker, emulator) = ("aarch64-linux-gnu-gcc", "qemu-aarch64 -L /usr/aarch64-linux-gnu");
    let mut tested = with_std("test", "aarch64-unknown-linux-gnu");
    tested.args(["--test", "coroutine", "--"]).args(topics);
    tested.args(NOT_FOR_QEMU.iter().flat_map(|test| ["--skip", test]));
    tested.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", linker);
    tested.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", emulator);
    let compiled = run(&mut with_std("check", "riscv64gc-unknown-linux-gnu"));
    tests("tests on aarch64", compiled.and_then(|_| run(&mut tested)))
}

/// `cargo xtask slopes` compares instructions per operation with the stored counts. `--bless`
/// stores the current ones.
pub(crate) fn slopes(root: &Path, bless: bool) -> Outcome {
    // The gate expects the program that it measures in its own folder, so both are built first.
    let package = ["--release", "--package", "ecru-bench", "--features", "ecru"];
    let bins = ["build", "--bin", "ecru-slopes", "--bin", "slopes-gate"];
    let built = run(cargo(root, &bins).args(package));
    let ran = built.and_then(|_| {
        let mut gate = cargo(root, &["run", "--quiet", "--bin", "slopes-gate"]);
        run(gate.args(package).args(if bless { &["--", "--bless"][..] } else { &[] }))
    });
    outcome(ran.map(|said| (said.lines_with("instructions per operation"), "slopes")))
}

/// `cargo xtask examples`: each one ends by itself, well, and says something.
pub(crate) fn examples(root: &Path, tree: &Tree) -> Outcome {
    let names = names(tree, "examples/");
    let problems = run_each(root, &["--profile", "quick", "--package", "ecru"], &names);
    Outcome { cases: names.len(), summary: format!("{} examples run", names.len()), problems }
}

/// Symbols that only the simulator has.
const OF_SIM: [&str; 3] = ["ecru::sim", "driver::sim", "simulat"];

/// `cargo xtask without-sim` checks that nothing of the simulator is compiled without its feature:
/// no other code names it, nothing is left over that only it used, and an optimized program has
/// none of its symbols.
pub(crate) fn without_sim(root: &Path) -> Outcome {
    let clippy =
        ["clippy", "--quiet", "--package", "ecru", "--all-targets", "--", "-D", "warnings"];
    let hello = ["--package", "ecru", "--example", "01_hello"];
    let build = [&["build", "--quiet", "--profile", "quick"][..], &hello].concat();
    let ran = run(&mut cargo(root, &clippy)).and_then(|_| run(&mut cargo(root, &build)));
    let program = target_folder(root, "quick/examples/01_hello");
    let symbols = ran.and_then(|_| {
        let said = Command::new("nm").arg("-C").arg(program).output();
        let said = said.map_err(|error| format!("nm could not be run: {error}"))?;
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    });
    let symbols = match symbols {
        Ok(symbols) => symbols,
        Err(problem) => return Outcome::broken(problem),
    };
    let cases = symbols.lines().filter(|line| line.contains("ecru::")).count();
    let problems = of_sim(&symbols).map(|line| format!("01_hello has `{line}`")).collect();
    Outcome { cases, summary: format!("{cases} symbols of ecru, none of the simulator"), problems }
}

fn of_sim(symbols: &str) -> impl Iterator<Item = &str> {
    symbols.lines().filter(|line| OF_SIM.iter().any(|word| line.contains(word)))
}

/// `cargo xtask ecosystem` runs the examples that use other crates, in workspace members of
/// their own.
pub(crate) fn ecosystem(root: &Path, tree: &Tree) -> Outcome {
    let mut cases = 0;
    let mut problems = vec![];
    for (package, folder) in [
        ("ecru-ecosystem", "tests/ecosystem/examples/"),
        ("ecru-hyper", "crates/hyper/examples/"),
        ("ecru-metrics", "crates/metrics/examples/"),
    ] {
        let names = names(tree, folder);
        if names.is_empty() {
            problems.push(format!("there are no examples in {folder}"));
        }
        cases += names.len();
        problems.extend(run_each(root, &["--profile", "quick", "--package", package], &names));
    }
    Outcome { cases, summary: format!("{cases} examples run"), problems }
}

/// Returns the programs of a folder that consist of one file.
fn names<'a>(tree: &'a Tree, folder: &str) -> BTreeSet<&'a str> {
    tree.matching(folder, ".rs")
        .filter_map(|(file, _)| file.strip_prefix(folder)?.strip_suffix(".rs"))
        .filter(|name| !name.contains('/'))
        .collect()
}

/// Runs examples, and describes those that fail or print nothing.
fn run_each(root: &Path, package: &[&str], names: &BTreeSet<&str>) -> Vec<String> {
    let problem = |name: &&str| {
        println!("--- {name}");
        let mut command = cargo(root, &["run", "--quiet"]);
        match run(command.args(package).args(["--example", name])) {
            Ok(said) if said.lines.is_empty() => Some(format!("{name} printed nothing")),
            Ok(_) => None,
            Err(problem) => Some(problem),
        }
    };
    names.iter().filter_map(problem).collect()
}

/// `cargo xtask check`, the part that runs cargo: formatting, clippy and the tests.
pub(crate) fn ordinary(root: &Path) -> Vec<(&'static str, Outcome)> {
    let simple = |arguments: &[&str]| outcome(run(&mut cargo(root, arguments)).map(|_| (1, "run")));
    vec![
        ("fmt", simple(&["fmt", "--all", "--check"])),
        ("clippy", simple(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        ("test", tests("tests", run(&mut cargo(root, &["test"])))),
    ]
}

fn tests(what: &'static str, ran: Result<Said, String>) -> Outcome {
    outcome(ran.map(|said| (said.passed, what)))
}

fn outcome(ran: Result<(usize, &str), String>) -> Outcome {
    match ran {
        Ok((cases, what)) => {
            Outcome { cases, summary: format!("{cases} {what}"), problems: vec![] }
        }
        Err(problem) => Outcome::broken(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_sim, tests};
    use crate::process::Said;

    #[test]
    fn a_run_without_tests_does_not_stand() {
        assert!(!tests("tests", Ok(Said::default())).stands());
        assert!(!tests("tests", Err("broken".into())).stands());
        assert!(tests("tests", Ok(Said { passed: 1, ..Said::default() })).stands());
    }

    #[test]
    fn symbols_of_the_simulator_are_found() {
        let symbols = "0 T ecru::scope::Scope::spawn\n1 T ecru::sim::test\n2 t ecru::base::simulated::on::now\n";
        assert_eq!(of_sim(symbols).count(), 2);
    }
}
