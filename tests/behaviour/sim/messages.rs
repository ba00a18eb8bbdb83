//! What a person reads when a simulation has failed.

use std::backtrace::Backtrace;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use ecru::sim::{self, Explore, Failure, Simulation, Strategy, explore};
use ecru::sync::{Condvar, Mutex, Notify, RwLock, RwLockWriteGuard, poison};
use ecru::{Source as _, channel, sleep, source};

use super::simulate;
use crate::support::{alone_with, is_child, ms, panic_text};

/// Returns the line of a piece of this file's text, as a place in a message.
fn line_of(text: &str) -> String {
    let source = include_str!("messages.rs");
    let place = source.split_inclusive('\n').position(|line| line.contains(text)).unwrap();
    format!("{}:{}:", file!(), place + 1)
}

/// - given: a panic in the root, in a task, in a task of the run, on a host, or in an invariant
/// - when: it fails the simulation
/// - then: the text names the place of the panic and the task, or the invariant
#[test]
fn sim_340_a_panic_names_its_place_and_its_task() {
    let root = simulate::<()>(1, || panic!("of the root")).to_string();
    let place = format!("thrown at {}", line_of("panic!(\"of the root\")"));
    assert!(root.contains(&place) && root.contains("in task #0 (the root, run at "), "{root}");
    let child = simulate(1, || {
        ecru::scope(|s| drop(s.builder().name("child").spawn(|| panic!("of a child"))));
    });
    let (child, place) = (child.to_string(), line_of("panic!(\"of a child\")"));
    assert!(child.contains("task #1 'child'") && child.contains(&place), "{child}");
    let alone = simulate(1, || drop(ecru::spawn(|| panic!("of the run")))).to_string();
    let place = format!("thrown at {}", line_of("panic!(\"of the run\")"));
    assert!(alone.contains(&place) && alone.contains("in task #1 (spawned at "), "{alone}");
    let host = simulate(1, || {
        sim::host("server", || panic!("of a host"));
        sleep(ms(1)).unwrap();
    });
    let (host, place) = (host.to_string(), line_of("panic!(\"of a host\")"));
    assert!(host.contains(&format!("thrown at {place}")) && host.contains("'server'"), "{host}");
    let invariant = simulate(1, || sim::invariant("sums", || panic!("of an invariant")));
    let invariant = invariant.to_string();
    assert!(invariant.contains("thrown in the invariant 'sums'"), "{invariant}");
}

/// - given: an invariant that a task breaks before it waits, ends, yields or is interrupted
/// - when: the run has failed, or was found by `explore`
/// - then: the text names that task, where it was spawned, and where it waits
#[test]
fn sim_341_an_invariant_names_the_last_turn() {
    fn broken_by(then: fn()) -> String {
        let report = Simulation::new(1).run(|| {
            let value = Arc::new(AtomicI32::new(0));
            let seen = Arc::clone(&value);
            sim::invariant("it is zero", move || seen.load(SeqCst) == 0);
            ecru::scope(|s| {
                let task = s.builder().name("breaker");
                task.spawn(|| {
                    value.store(1, SeqCst);
                    then();
                });
                sim::settle();
            });
        });
        assert!(matches!(report.result, Err(Failure::Invariant { .. })), "{report}");
        report.to_string()
    }
    let waits = broken_by(|| sleep(ms(7)).unwrap());
    let begin = "the last turn before that was the one of task #1 'breaker' (spawned at ";
    let place = line_of("broken_by(|| sleep(ms(7)).unwrap())");
    assert!(
        waits.contains(begin) && waits.contains("it waits for ") && waits.contains(&place),
        "{waits}"
    );
    let ends = broken_by(|| ());
    assert!(ends.contains(begin) && ends.contains("it ended\n"), "{ends}");
    let yields = broken_by(|| ecru::yield_now().unwrap());
    assert!(yields.contains(begin) && yields.contains("it yielded\n"), "{yields}");
    let found = explore(Explore::Exhaustive { max_runs: 9 }, || {
        sim::invariant("never", || false);
    });
    let text = found.unwrap_err().to_string();
    assert!(text.contains("the one of task #0 (the root, run at "), "{text}");
}

/// A deadlock of tasks that wait for locks and channels.
fn deadlock() {
    let (one, two, three) = (Mutex::new(0), RwLock::new(0), Mutex::new(0));
    let (sender, receiver) = channel::bounded::<u32>(1);
    ecru::scope(|s| {
        s.spawn(|| {
            let _one = one.lock();
            sleep(ms(1)).unwrap();
            drop(two.write());
        });
        s.spawn(|| {
            let _two = two.write();
            sleep(ms(1)).unwrap();
            drop(one.lock());
        });
        s.spawn(|| {
            let _three = three.lock();
            receiver.recv()
        });
        sim::settle();
        s.spawn(|| drop(three.lock()));
        s.spawn(|| drop(one.lock()));
        let _ = receiver.recv();
    });
    drop(sender);
}

/// - given: a deadlock of tasks that wait for locks and channels
/// - when: it is run twice with one seed, also in other processes
/// - then: both texts are the same: objects have numbers instead of addresses, and tasks that wait
///   for one object show one number
#[test]
fn sim_342_one_seed_one_text() {
    let test = "sim::messages::sim_342_one_seed_one_text";
    let text =
        || (0..5).map(|seed| Simulation::new(seed).run(deadlock).to_string()).collect::<Vec<_>>();
    let first = text();
    if is_child(test) {
        println!("\nBEGIN\n{}\nEND", first.join("\n"));
        return;
    }
    assert_eq!(first, text());
    for text in &first {
        assert!(text.contains("deadlock") && !text.contains("0x"), "{text}");
        let of = |what: &str| {
            let waits = text.lines().filter(|line| line.contains(": waits for "));
            let all = waits.filter_map(|line| line.split_once(what));
            all.map(|(_, rest)| rest.split([',', ')']).next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let locks = of(" lock (");
        let numbers: std::collections::BTreeSet<_> = locks.iter().collect();
        assert_eq!((locks.len(), numbers.len()), (4, 3), "{text}");
        let channels = of("of u32 (bounded(1), ");
        assert!(channels.len() == 2 && channels[0] == channels[1], "{text}");
    }
    let output = alone_with(test, |_| {}, || unreachable!("this is the parent")).unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let other = output.split_once("BEGIN\n").unwrap().1.split_once("\nEND").unwrap().0;
    assert_eq!(other, first.join("\n"));
}

/// A deadlock around locks that are acquired in each way. A task named as the way waits for the
/// lock, which task 1 has.
fn locked_in_each_way() {
    let [plain, cancellable, tried, waited] = [const { Mutex::new(0) }; 4];
    let [written, in_time, written_tried] = [const { RwLock::new(0) }; 3];
    let (poisoning, condvar, end) = (poison::Mutex::new(0), Condvar::new(), Notify::new());
    ecru::scope(|s| {
        let holder = s.spawn(|| {
            // Those before are forgotten.
            drop((plain.lock(), tried.try_lock(), written.write(), written_tried.try_write()));
            let _plain = plain.lock(); // by lock
            let _cancellable = cancellable.lock_cancellable(); // by lock_cancellable
            let _tried = tried.try_lock(); // by try_lock
            let _written = written.write(); // by write
            let _in_time = in_time.write_cancellable(); // by write_cancellable
            let _written_tried = written_tried.try_write(); // by try_write
            let _poisoning = poisoning.lock(); // by poison
            let mut guard = waited.lock();
            let _ = condvar.wait_timeout(&mut guard, ms(1)); // by condvar
            let _ = end.wait();
        });
        sleep(ms(2)).unwrap();
        let by = |way: &str| s.builder().name(way);
        by("lock").spawn(|| drop(plain.lock()));
        by("lock_cancellable").spawn(|| drop(cancellable.lock()));
        by("try_lock").spawn(|| drop(tried.lock()));
        by("write").spawn(|| drop(written.write()));
        by("write_cancellable").spawn(|| drop(in_time.read()));
        by("try_write").spawn(|| drop(written_tried.read()));
        by("poison").spawn(|| drop(poisoning.lock()));
        by("condvar").spawn(|| drop(waited.lock()));
        let _ = holder.join();
    });
}

/// - given: a deadlock of tasks that wait for locks, in a debug build or an optimized one
/// - when: it is reported
/// - then: the text names the holder of each lock and where the holder has acquired it
#[test]
fn sim_345_the_holders_of_locks() {
    let text = Simulation::new(1).run(locked_in_each_way).to_string();
    for way in [
        "lock",
        "lock_cancellable",
        "try_lock",
        "write",
        "write_cancellable",
        "try_write",
        "poison",
        "condvar",
    ] {
        let task = text.lines().skip_while(|line| !line.contains(&format!("'{way}'")));
        let wait = task.take(3).collect::<Vec<_>>().join("\n");
        let place = line_of(&format!("// by {way}\n"));
        assert!(wait.contains(&format!("held by task #1 since {place}")), "{way}: {text}");
    }
}

/// - given: a lock that was released by the task that had it first, to the next one, to readers, or
///   to no task
/// - when: a deadlock is reported
/// - then: the text names no task that does not have the lock
#[test]
fn sim_368_a_lock_that_was_released() {
    let handed_over = simulate(1, || {
        let (lock, end) = (Mutex::new(0), Notify::new());
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let _guard = lock.lock();
                    sleep(ms(1)).unwrap();
                });
            }
            sleep(ms(5)).unwrap();
            s.spawn(|| {
                let _guard = lock.lock(); // the last one
                let _ = end.wait();
            });
            sim::settle();
            s.spawn(|| drop(lock.lock()));
        });
    });
    let (text, place) = (handed_over.to_string(), line_of("// the last one\n"));
    assert!(text.contains(&format!("held by task #3 since {place}")), "{text}");
    let read = simulate(1, || {
        let (lock, end) = (RwLock::new(0), Notify::new());
        ecru::scope(|s| {
            s.spawn(|| {
                let _guard = RwLockWriteGuard::downgrade(lock.write());
                let _ = end.wait();
            });
            sim::settle();
            s.spawn(|| drop(lock.write()));
        });
    });
    let text = read.to_string();
    assert!(text.contains("a reader has it)") && !text.contains("held by"), "{text}");
}

/// - given: a failure whose trace has turns of several tasks
/// - when: it is printed
/// - then: the text has the name and the place of each of these tasks
#[test]
fn sim_344_the_tasks_of_a_trace() {
    let plan = Explore::Exhaustive { max_runs: 1_000 };
    let found = explore(plan, || {
        let (one, two) = (Mutex::new(()), Mutex::new(()));
        ecru::scope(|s| {
            s.builder().name("forward").spawn(|| {
                let _one = one.lock();
                drop(two.lock());
            });
            s.spawn(|| {
                let _two = two.lock();
                drop(one.lock());
            });
        });
    });
    let text = found.unwrap_err().to_string();
    assert!(text.contains("\ntask #0: the root, run at "), "{text}");
    assert!(text.contains("\ntask #1: 'forward', spawned at "), "{text}");
    assert!(text.contains("\ntask #2: spawned at "), "{text}");
}

/// A program that fails after many turns.
fn long() {
    ecru::scope(|s| {
        for number in 0..30 {
            s.spawn(move || (0..number % 7 + 20).for_each(|_| ecru::yield_now().unwrap()));
        }
    });
    panic!("at last");
}

/// - given: a failure with a long trace
/// - when: it is printed by `{}`, by `{:#}`, or with `ECRU_SIM_TRACE=whole`
/// - then: the middle of the trace is left out and the text says how to get it, or it is whole
#[test]
fn sim_343_a_long_trace_is_abbreviated() {
    let test = "sim::messages::sim_343_a_long_trace_is_abbreviated";
    let plan = Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
    let found = explore(plan, long).unwrap_err();
    let trace = found.trace.to_string();
    assert!(trace.len() > 1_200, "{}", trace.len());
    if is_child(test) {
        assert!(found.to_string().contains(&trace));
        assert!(panic_text(|| sim::test(long)).len() > 1_200);
        return;
    }
    let (short, whole) = (found.to_string(), format!("{found:#}"));
    assert!(whole.contains(&trace), "{whole}");
    assert!(
        short.contains(&trace[..500]) && short.contains(&trace[trace.len() - 100..]),
        "{short}"
    );
    assert!(!short.contains(&trace) && short.len() < 8_000, "{short}");
    for part in [" .. ", "bytes of the trace are left out", "ECRU_SIM_TRACE=whole", "`{:#}`"] {
        assert!(short.contains(part), "{part:?} is not in {short}");
    }
    let text = panic_text(|| sim::test(long));
    assert!(text.contains("ECRU_SIM_TRACE=whole") && text.contains("ECRU_SIM_SEED="), "{text}");
    let whole = |command: &mut Command| {
        command.env("ECRU_SIM_TRACE", "whole");
    };
    alone_with(test, whole, || unreachable!("this is the parent"));
}

/// - given: a run with several tasks, which is not repeated
/// - when: it fails
/// - then: its report lists the last turns of the tasks, with their names, and where the tasks were
///   spawned; a run of the root alone has no such list
#[test]
fn sim_404_a_report_lists_the_turns() {
    let text = Simulation::new(3).run(|| {
        ecru::scope(|s| {
            s.builder().name("waiter").spawn(|| Notify::new().wait());
            s.builder().name("yields").spawn(|| (0..40).for_each(|_| ecru::yield_now().unwrap()));
        });
    });
    let text = text.to_string();
    assert!(text.contains("\nthe last 30 turns, after "), "{text}");
    let turns: Vec<&str> = text.lines().filter(|line| line.starts_with("#2 'yields'  ")).collect();
    assert!(turns.len() >= 10, "{text}");
    assert!(turns.iter().all(|line| line.ends_with("waits, yields or ends")), "{text}");
    assert!(text.contains("\ntask #2: 'yields', spawned at "), "{text}");
    let few = Simulation::new(3).run(|| {
        ecru::scope(|s| drop(s.builder().name("waiter").spawn(|| Notify::new().wait())));
    });
    let few = few.to_string();
    assert!(few.contains("\nturns:\n#0 root      passes "), "{few}");
    assert!(few.lines().any(|line| line.starts_with("#1 'waiter'  ")), "{few}");
    let alone = Simulation::new(3).run(|| Notify::new().wait().is_ok()).to_string();
    assert!(alone.contains("deadlock") && !alone.contains("turns"), "{alone}");
}

/// Returns whether this build has line tables.
fn has_lines() -> bool {
    Backtrace::force_capture().to_string().contains("messages.rs:")
}

/// - given: a task that accepts connections inside `serve`
/// - when: the run ends as a deadlock, and is repeated for its message
/// - then: the tree and the list of turns name the place in the program
#[test]
fn sim_405_a_wait_inside_serve_has_its_place() {
    fn program() {
        let listener = ecru::net::TcpListener::bind("0.0.0.0:80").unwrap();
        listener.serve(9, |_, _| Ok(())).unwrap();
    }
    let plan = Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
    let text = explore(plan, program).unwrap_err().to_string();
    let place = line_of("listener.serve(9,");
    let waits = "waits to accept a connection on 0.0.0.0:80";
    // An optimized build without lines names no place, and no wrong one either.
    let with_place = format!("{waits}, at {place}");
    let names = |line: &&str| match has_lines() {
        true => line.contains(&with_place),
        false => line.ends_with(waits),
    };
    let lines: Vec<&str> = text.lines().filter(names).collect();
    assert!(lines.iter().any(|line| line.starts_with("task #0, the root")), "{text}");
    assert!(lines.iter().any(|line| line.contains("  #0 root  ")), "{text}");
}

/// - given: a file whose name is on the disk, and to which a host writes without a sync
/// - when: the host loses its power, and what the file lacks then fails the run
/// - then: the message says how many bytes of which file are lost
#[test]
fn sim_406_lost_bytes_of_a_file() {
    use std::io::Write;
    fn program() {
        let host = sim::host("db", || {
            let mut file = ecru::fs::OpenOptions::new().create(true).append(true).open("log")?;
            ecru::fs::File::open(".")?.sync_all()?;
            file.write_all(b"12345")?;
            sleep(ms(1_000_000))?;
            Ok(())
        });
        sleep(ms(1_000)).unwrap();
        host.power_fail();
        host.restart();
        sleep(ms(1_000)).unwrap();
        panic!("to see the message");
    }
    // The seed decides whether all bytes are lost.
    let mut texts = (0..20).map(|seed| Simulation::new(seed).run(program).to_string());
    let loses = |line: &str| {
        line.contains("db    loses 5 bytes of '") && line.ends_with("/log' (not synced)")
    };
    let is_said = texts.any(|text| text.lines().any(loses));
    assert!(is_said, "{}", Simulation::new(0).run(program));
}

/// - given: a task that spawns two others, and waits for the second one before any of them has run
/// - when: the run fails, and is repeated for its message
/// - then: the message lists the turns by the numbers that the tasks have in the failed run, and does
///   not take the program for one that is not deterministic
#[test]
fn sim_407_a_message_does_not_number_the_tasks() {
    let plan = Explore::Seeds { seeds: 0..4, strategy: Strategy::Random };
    let found = explore(plan, || {
        let never = Notify::new();
        ecru::scope(|s| {
            s.builder().name("first").spawn_daemon(|| never.wait());
            s.builder().name("second").spawn(|| (sim::point(), sim::point())).join().unwrap();
            panic!("on purpose");
        });
    });
    let text = found.unwrap_err().to_string();
    assert!(!text.contains("not deterministic"), "{text}");
    assert!(text.contains("  #1 'first' ") && text.contains("  #2 'second' "), "{text}");
    assert!(text.contains("waits for the end of task #2 'second'"), "{text}");
}

/// - given: what fails a run in a turn while tasks of another host could run: an error of a host, its
///   panic, a panic that no join would return, and a call that no seed decides
/// - when: the run is repeated for its message
/// - then: the repetition takes the turn that fails as well, so the program is not taken for one that
///   is not deterministic
#[test]
fn sim_408_the_turn_that_fails_is_repeated() {
    type How = fn() -> std::io::Result<()>;
    let hows: [(&str, How); 4] = [
        ("an error", || Err(std::io::Error::other("on purpose"))),
        ("a panic", || panic!("on purpose")),
        ("a lost panic", || {
            ecru::spawn(|| panic!("on purpose"));
            Ok(ecru::sleep(ms(1))?)
        }),
        ("a call", || ecru::signal::ctrl_c().map(drop)),
    ];
    for (name, how) in hows {
        for seed in 0..20 {
            let plan = Explore::Seeds { seeds: seed..seed + 1, strategy: Strategy::Random };
            let found = explore(plan, move || {
                sim::host("site", move || {
                    (0..3).for_each(|_| sim::point());
                    how()
                });
                sim::host("proxy", || {
                    ecru::scope(|s| {
                        for _ in 0..4 {
                            s.spawn_daemon(|| (0..20).for_each(|_| sim::point()));
                        }
                        Ok(source::never::<()>().wait()?)
                    })
                });
                sim::settle();
            });
            let text = found.unwrap_err().to_string();
            assert!(!text.contains("not deterministic"), "{name}: {text}");
        }
    }
}

/// - given: a test or a run that panics, with a message of several lines
/// - when: it fails
/// - then: the panic hook prints the message, and the message of the failure says where it is from
///   and has its first line only; a message that was not printed is whole
#[test]
fn sim_410_a_panic_is_printed_once() {
    let test = "sim::messages::sim_410_a_panic_is_printed_once";
    fn fails() {
        panic!("first line\nsecond line");
    }
    if is_child(test) {
        let place = line_of("panic!(\"first line\\nsecond line\")");
        for text in
            [panic_text(|| sim::test(fails)), panic_text(|| Simulation::new(3).run(fails).unwrap())]
        {
            assert!(text.contains(&format!("panicked at {place}")), "{text}");
            assert!(text.contains("): first line .. (reported above)"), "{text}");
            assert!(text.contains("in task #0 (the root, run at "), "{text}");
        }
        return;
    }
    let output = alone_with(test, |_| {}, || unreachable!("this is the parent")).unwrap();
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8(all).unwrap();
    // Twice by the panic hook in the runs, and twice by that of the messages.
    assert_eq!(all.lines().filter(|line| line.starts_with("second line")).count(), 2, "{all}");
    assert_eq!(all.lines().filter(|line| line.contains("first line ..")).count(), 2, "{all}");
    // The report itself may be kept without what was printed.
    let report = Simulation::new(3).run(fails).to_string();
    assert!(report.contains("panicked: first line\nsecond line\nthrown at "), "{report}");
    // The hook has not printed a payload that is passed on.
    let resumed = || std::panic::resume_unwind(Box::new("first line\nsecond line"));
    let text = panic_text(|| Simulation::new(3).run(resumed).unwrap());
    assert!(text.contains("panicked: first line\nsecond line"), "{text}");
    // The message is that of the shortest run.
    let values = AtomicI32::new(0);
    let text = panic_text(|| {
        sim::test(|| panic!("value {}\nof several", values.fetch_add(1, SeqCst)));
    });
    assert!(text.contains("\nof several"), "{text}");
}
