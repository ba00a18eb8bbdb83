//! One seed, one run: in a process, between processes, and wherever the program's memory lies.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use ecru::sim::{self, Failure, Simulation, Strategy};

use super::sizeable;
use crate::support::{alone_with, is_child, panic_text, start_again};

/// The seeds of tests that run more than one process.
const SEEDS: u64 = 2;

/// What each line of [`sizeable::line`] begins with, as `.ci/determinism` expects it.
const WORD: &str = "seed ";

fn lines() -> Vec<String> {
    (0..SEEDS).map(sizeable::line).collect()
}

/// Returns what a test has printed that begins with the word.
fn printed(output: &std::process::Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with(WORD)).map(String::from).collect()
}

/// - given: a program with tasks, locks, channels, hosts, connections, datagrams, files and faults
/// - when: it is run twice with one seed
/// - then: both runs have the same hash, time, steps and result; other seeds have others
#[test]
fn sim_360_twice_in_a_process() {
    let all = || (0..4).map(sizeable::line).collect::<Vec<_>>();
    let (first, second) = (all(), all());
    assert_eq!(first, second);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
}

/// - given: the same program
/// - when: it is run in fresh processes, with the memory at other addresses, and at fixed ones
/// - then: the runs are the same
#[test]
fn sim_361_in_fresh_processes() {
    let test = "sim::same::sim_361_in_fresh_processes";
    if is_child(test) {
        // Each on a line of its own: the runner has begun one.
        println!();
        lines().iter().for_each(|line| println!("{line}"));
        println!("the stack is at {:p}", &raw const test);
        return;
    }
    let here = lines();
    let mut stacks = BTreeSet::new();
    for _ in 0..2 {
        let output = alone_with(test, |_| {}, || unreachable!("this is the parent")).unwrap();
        assert_eq!(printed(&output), here);
        let text = String::from_utf8(output.stdout).unwrap();
        stacks.extend(text.lines().find(|line| line.starts_with("the stack")).map(String::from));
    }
    let is_randomized = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    if is_randomized.is_ok_and(|level| level.trim() != "0") {
        assert!(stacks.len() > 1, "{stacks:?}");
    }
    // The same at fixed addresses, where the system allows that.
    let child = start_again(test);
    let mut fixed = Command::new("setarch");
    fixed.arg("-R").arg(child.get_program()).args(child.get_args());
    fixed.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    match fixed.output() {
        Ok(output) if output.status.success() => assert_eq!(printed(&output), here),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.starts_with("setarch: "), "{text}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
}

/// - given: the same program in a debug build, in an optimized one, and with a thread for each task
/// - when: `.ci/determinism` compares what this test prints in each of them
/// - then: the runs are the same
#[test]
fn sim_362_in_other_builds() {
    let lines: Vec<_> = (0..6).map(sizeable::line).collect();
    println!();
    lines.iter().for_each(|line| println!("{line}"));
    assert!(lines.iter().all(|line| line.starts_with(WORD)));
}

/// A program whose tasks come in the order of a `HashMap`.
fn by_a_hash_map() {
    let map: HashMap<u64, ()> = (0..50).map(|number| (number, ())).collect();
    ecru::scope(|s| {
        for number in map.into_keys() {
            s.spawn(move || (0..number).for_each(|_| sim::point()));
        }
    });
}

/// - given: a program that depends on the random order of a `HashMap`
/// - when: `sim::test` runs it, or its trace is replayed
/// - then: it fails; the text names the turn and the task at which the runs differ, and `HashMap`
#[test]
fn sim_363_a_hash_map() {
    let text = panic_text(|| sim::test(by_a_hash_map));
    for part in ["not deterministic", "diverged at turn ", "task #", "HashMap", ": spawned at "] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let first = Simulation::new(1).run(by_a_hash_map);
    let again = Simulation::new(1).strategy(Strategy::Replay(first.trace)).run(by_a_hash_map);
    let failure = again.result.unwrap_err();
    assert!(matches!(failure, Failure::Diverged(_)), "{failure}");
    let text = failure.to_string();
    assert!(text.contains("diverged at turn ") && text.contains("task #"), "{text}");
}

/// The body of a test that fails with some seeds only.
fn fails_with_some_seeds() {
    ecru::sleep(crate::support::ms(10)).unwrap();
    assert!(!sim::random_u64().is_multiple_of(4), "a multiple of four");
}

/// - given: the message of a `sim::test` that has failed
/// - when: the command in it is run, in a fresh process
/// - then: the same failure, with the same trace
#[test]
fn sim_364_the_command_repeats_the_failure() {
    let test = "sim::same::sim_364_the_command_repeats_the_failure";
    if is_child(test) {
        sim::test(fails_with_some_seeds);
        return;
    }
    let message = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let mut first = start_again(test);
    first.env_remove("ECRU_SIM_SEED").env_remove("ECRU_SIM_SEEDS");
    let first = message(&mut first);
    let command = first.split("the command that repeats it: ").nth(1).expect("it has a command");
    let command = command.lines().next().unwrap();
    // `cargo test` stands for all test programs of the package. This is one of them. The package is
    // known only if cargo has started the test.
    let (before, after) = command.split_once(" cargo test ").expect(command);
    let after = after.strip_prefix("-p ecru ").unwrap_or(after);
    let after = after.strip_prefix("-- --exact ").expect(command);
    let seed = before.strip_prefix("ECRU_SIM_SEED=").expect(command);
    assert_eq!(after, test, "{command}");
    let again = message(start_again(after).env("ECRU_SIM_SEED", seed).env_remove("ECRU_SIM_SEEDS"));
    let what = |message: &str| -> String {
        let (_, text) = message.split_once("the run with seed ").expect("it has failed");
        let (text, _) = text.split_once("the command that").expect("it has a command");
        text.to_owned()
    };
    assert!(
        first.contains("a multiple of four")
            && first.contains(&format!("the run with seed {seed} failed"))
    );
    assert_eq!(what(&again), what(&first));
}

/// - given: a program with a static, which makes its later runs fail
/// - when: `sim::test`, `sim::explore` or `sim::cancel_everywhere` finds a failure
/// - then: the text says that it may depend on what the process did before; that of a program that
///   keeps nothing does not
#[test]
fn sim_371_what_a_program_keeps_between_runs() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    let said = "the failure may depend on what the process did before";
    let runs = AtomicU32::new(0);
    let program = || {
        let number = runs.fetch_add(1, Relaxed);
        ecru::sleep(crate::support::ms(1)).unwrap_or(());
        assert!(number < 5, "it is worn out");
    };
    let plan = sim::Explore::Seeds { seeds: 0..100, strategy: Strategy::Random };
    let texts = [
        panic_text(|| sim::test(program)),
        {
            runs.store(0, Relaxed);
            sim::explore(plan, program).unwrap_err().to_string()
        },
        {
            runs.store(3, Relaxed);
            panic_text(|| sim::cancel_everywhere(program))
        },
    ];
    for text in texts {
        for part in [said, "it is worn out", "The first run, with seed 0, was repeated"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
    let text = panic_text(|| sim::test(fails_with_some_seeds));
    assert!(text.contains("a multiple of four") && !text.contains(said), "{text}");
}

/// - given: a program that sends a number which the seed does not decide through a TCP connection, a
///   Unix socket, a datagram or a pipe, or writes it to a file, and never fails
/// - when: it is explored
/// - then: it fails with `NotDeterministic`, and the text names the turn and the task
#[test]
fn sim_376_bytes_that_the_seed_does_not_decide() {
    use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    // It stands for the time of the machine.
    static REAL: AtomicU64 = AtomicU64::new(0);
    let ways: [fn(&[u8]); 6] = [
        |bytes| {
            let listener = TcpListener::bind("127.0.0.1:1").unwrap();
            let mut stream = TcpStream::connect("127.0.0.1:1").unwrap();
            stream.write_all(bytes).unwrap();
            drop(listener);
        },
        |bytes| UnixStream::pair().unwrap().0.write_all(bytes).unwrap(),
        |bytes| {
            let (one, _other) = UnixDatagram::pair().unwrap();
            one.send(bytes).unwrap();
        },
        |bytes| {
            let socket = UdpSocket::bind("127.0.0.1:1").unwrap();
            socket.send_to(bytes, "127.0.0.1:1").unwrap();
        },
        |bytes| {
            let (_reader, mut writer) = ecru::io::pipe().unwrap();
            writer.write_all(bytes).unwrap();
        },
        |bytes| ecru::fs::write("file", bytes).unwrap(),
    ];
    let plan = sim::Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
    for (number, way) in ways.into_iter().enumerate() {
        let found = sim::explore(plan.clone(), || way(&REAL.fetch_add(1, Relaxed).to_le_bytes()));
        let found = found.expect_err(&format!("way {number} is not noticed"));
        assert!(matches!(found.failure, sim::Failure::NotDeterministic), "{found}");
        let text = found.to_string();
        for part in ["the program is not deterministic: in a second run", "at turn ", "task #0"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        // The same bytes are the same run.
        sim::explore(plan.clone(), || way(b"the same")).unwrap();
    }
}

/// - given: a program of which one run in 16 is another one when it is repeated
/// - when: 100 seeds are explored, and none of them fails
/// - then: the run is noticed
#[test]
fn sim_377_one_in_sixteen_runs_is_repeated() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let runs = AtomicU64::new(0);
    let plan = sim::Explore::Seeds { seeds: 0..100, strategy: Strategy::Random };
    let found = sim::explore(plan, || {
        // The first run and its repetition, and fifteen others.
        let is_late = runs.fetch_add(1, Relaxed) > 17;
        (0..1 + u64::from(is_late) * runs.load(Relaxed)).for_each(|_| sim::point());
    });
    let found = found.unwrap_err();
    assert!(matches!(found.failure, sim::Failure::NotDeterministic), "{found}");
    assert!(found.seed <= 32 && found.to_string().contains("not deterministic"), "{found}");
}
