//! What a program says of itself: the watchdog, dumps on a signal, dumps as JSON.
#![expect(unsafe_code, reason = "sends signals")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ecru::diag::TaskState;
use ecru::signal::SignalKind;
use ecru::{Runtime, RuntimeHandle};

use crate::support::{HOUR, Watchdog, is_child, ms, run_on, start_again};

/// The environment variable by which a child process knows how to block.
const WAY: &str = "ECRU_TEST_WAY";

/// A child process that ends with this.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Blocks the thread for ever.
fn block(way: &str) {
    match way {
        "compute" => loop {
            std::hint::spin_loop();
        },
        "sleep" => thread::sleep(HOUR),
        "channel" => {
            let (_sender, receiver) = mpsc::channel::<()>();
            receiver.recv().unwrap();
        }
        "socket" => {
            let (_other, mut this) = UnixStream::pair().unwrap();
            this.read_exact(&mut [0]).unwrap();
        }
        _ => unreachable!("{way}"),
    }
}

/// Ends this child when its parent has ended, however that happens.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

/// Runs the test again as a child that blocks a worker in each way, and returns the report of the
/// watchdog.
fn report(test: &str, way: &str, variable: Option<&str>) -> String {
    let mut command = start_again(test);
    command.env(WAY, way).env_remove("ECRU_WATCHDOG");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(limit) = variable {
        command.env("ECRU_WATCHDOG", limit);
    }
    let mut child = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.find(|line| line.contains("has not switched")).expect("a report");
    let second = lines.next().expect("an advice");
    let third = lines.next().expect("a way to see the stack");
    format!("{first}\n{second}\n{third}")
}

const WAYS: [(&str, &str); 4] = [
    ("compute", "`ecru::checkpoint`"),
    ("sleep", "use `ecru::sleep`"),
    ("channel", "`ecru::channel`"),
    ("socket", "use `ecru::net`"),
];

/// - given: a watchdog, one worker and two, and a task that computes, sleeps, or waits for a channel
///   or a socket of `std`
/// - when: the limit has passed
/// - then: one report names the worker, the task and the place where it was spawned, and says what
///   to use instead, and how gdb shows the task's stack
#[test]
#[cfg(not(ecru_baton))] // the worker's thread waits for the task's
fn run_80_a_blocked_worker_is_reported_slow() {
    const NAME: &str = "watchdog::run_80_a_blocked_worker_is_reported_slow";
    let line = line!() + 10;
    if is_child(NAME) {
        end_with_parent();
        let way = std::env::var(WAY).unwrap();
        let (workers, way) = way.split_once(' ').unwrap();
        let workers = workers.parse().unwrap();
        let runtime = Runtime::builder().workers(workers).watchdog(ms(20)).build().unwrap();
        return runtime.run(|| {
            ecru::scope(|s| {
                s.builder().near().spawn(|| ecru::sleep(HOUR).unwrap());
                s.builder().name("stuck").near().spawn(|| block(way));
            });
        });
    }
    let _watchdog = Watchdog::new();
    for (workers, (way, advice)) in [1, 2].into_iter().flat_map(|n| WAYS.map(|way| (n, way))) {
        let text = report(NAME, &format!("{workers} {way}"), None);
        let place = format!("{}:{line}:", file!());
        assert!(text.starts_with("ecru: worker ") && text.contains("task 'stuck'"), "{text}");
        assert!(text.contains(&place) && text.contains(advice), "{way}: {text}");
        assert!(text.contains("-ex 'ecru bt running'"), "{text}");
    }
}

/// - given: no setting, and `ECRU_WATCHDOG` with a time
/// - when: the root blocks its thread beside a task
/// - then: a report names the root
#[test]
fn run_81_the_environment_sets_the_watchdog_slow() {
    const NAME: &str = "watchdog::run_81_the_environment_sets_the_watchdog_slow";
    if is_child(NAME) {
        end_with_parent();
        return ecru::run(|| {
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(HOUR).unwrap());
                block("sleep");
            });
        });
    }
    let _watchdog = Watchdog::new();
    let text = report(NAME, "", Some("20ms"));
    assert!(text.contains("it runs the root, run at") && text.contains(file!()), "{text}");
}

/// - given: a watchdog with the shortest limit
/// - when: tasks switch all the time, a root without other tasks computes, or a run is idle
/// - then: nothing is reported
#[test]
fn run_82_what_switches_is_not_reported_slow() {
    const NAME: &str = "watchdog::run_82_what_switches_is_not_reported_slow";
    let compute = |time: Duration| {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    if is_child(NAME) {
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).watchdog(ms(10)).build().unwrap();
            runtime.run(|| {
                compute(ms(40));
                ecru::sleep(ms(40)).unwrap();
                ecru::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            for _ in 0..40 {
                                compute(ms(1));
                                ecru::yield_now().unwrap();
                            }
                        });
                    }
                });
            });
        }
        return;
    }
    let child = start_again(NAME).env_remove("ECRU_WATCHDOG").output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    assert!(!text.contains("has not switched"), "{text}");
}

/// - given: a watchdog, a root that returns while two tasks of one place and one of another are left,
///   and before that a root whose scope takes long
/// - when: the limit has passed
/// - then: one report has the number of the tasks and the two places; the first run is not reported
#[test]
fn run_135_what_keeps_a_run_from_ending_slow() {
    const NAME: &str = "watchdog::run_135_what_keeps_a_run_from_ending_slow";
    let line = line!() + 10;
    if is_child(NAME) {
        end_with_parent();
        let runtime = Runtime::builder().workers(2).watchdog(ms(10)).build().unwrap();
        runtime.run(|| {
            drop(ecru::spawn(|| ()));
            ecru::scope(|s| s.spawn(|| ecru::sleep(ms(60)).unwrap()).join().unwrap());
        });
        return runtime.run(|| {
            for _ in 0..2 {
                drop(ecru::spawn(|| ecru::sleep(HOUR).unwrap()));
            }
            drop(ecru::spawn(|| {
                ecru::scope(|s| drop(s.spawn(|| ecru::sleep(HOUR).unwrap())));
            }));
        });
    }
    let _watchdog = Watchdog::new();
    let mut command = start_again(NAME);
    command.env("ECRU_TEST_STUCK_AFTER_MS", "10");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || lines.next().unwrap();
    let first = next();
    assert!(first.starts_with("ecru: the root, run at ") && first.contains(file!()), "{first}");
    assert!(first.contains(", and the run waits for 3 tasks."), "{first}");
    let place = |below: u32| format!("spawned at {}:{}:", file!(), line + below);
    let (two, one) = (next(), next());
    assert!(two.starts_with("  2 tasks such as task #") && two.contains(&place(0)), "{two}");
    assert!(one.starts_with("  task #") && one.contains(&place(2)), "{one}");
    assert!(two.contains("waits for time to pass"), "{two}");
    assert!(one.contains("waits for the tasks of its scope (1 left)"), "{one}");
}

/// - given: a watchdog, `dump_on_alarm` and `record_on_alarm`, and a task that blocks its worker
/// - when: the limit has passed
/// - then: after the report there are a dump, which names the task, and a page with the last events;
///   without a recorder the second setting is refused
#[test]
#[cfg(not(ecru_baton))] // the worker's thread waits for the task's
fn run_136_an_alarm_makes_a_dump_and_a_page_slow() {
    const NAME: &str = "watchdog::run_136_an_alarm_makes_a_dump_and_a_page_slow";
    let page = |process: u32| std::env::temp_dir().join(format!("ecru-alarm-{process}.html"));
    if is_child(NAME) {
        end_with_parent();
        let builder = Runtime::builder().workers(2).watchdog(ms(20)).dump_on_alarm(true);
        let builder = builder.record(1 << 16).record_on_alarm(page(std::process::id()));
        return builder.build().unwrap().run(|| {
            ecru::scope(|s| {
                s.builder().name("sleeps").spawn(|| ecru::sleep(HOUR).unwrap());
                ecru::diag::mark("before the alarm");
                s.builder().name("stuck").near().spawn(|| block("sleep"));
                ecru::sleep(HOUR).unwrap();
            });
        });
    }
    let error = Runtime::builder().record_on_alarm("/tmp/none").build().unwrap_err();
    assert!(error.to_string().contains("record_on_alarm: there is nothing to write"), "{error}");
    let _watchdog = Watchdog::new();
    let mut command = start_again(NAME);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let page = page(child.0.id());
    let _removed = crate::support::OnDrop(|| drop(std::fs::remove_file(&page)));
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let (mut is_dumped, mut is_recorded) = (false, false);
    let written = format!("ecru: the last events are in {}", page.display());
    for line in lines {
        is_dumped |= line.contains("is busy with a task 'stuck' spawned at");
        is_recorded |= line.starts_with(&written);
        if is_dumped && is_recorded {
            break;
        }
    }
    assert!(is_dumped && is_recorded);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("before the alarm"));
}

/// - given: limits below the minimum, in the builder and in `ECRU_WATCHDOG`, and a variable that is
///   no time
/// - when: the runtime is built
/// - then: an error names the value and what to write; zero means no watchdog
#[test]
fn run_83_wrong_limits_are_refused() {
    const NAME: &str = "watchdog::run_83_wrong_limits_are_refused";
    if is_child(NAME) {
        let error = Runtime::builder().build().unwrap_err().to_string();
        let value = std::env::var("ECRU_WATCHDOG").unwrap();
        assert!(error.contains(&format!("ECRU_WATCHDOG={value:?}")), "{error}");
        assert!(error.contains("200ms"), "{error}");
        // What the program sets counts.
        Runtime::builder().watchdog(ms(10)).build().unwrap();
        return;
    }
    let error = Runtime::builder().watchdog(ms(9)).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("watchdog(9ms)"), "{error}");
    Runtime::builder().watchdog(Duration::ZERO).build().unwrap();
    for value in ["9ms", "soon", "1"] {
        let child = start_again(NAME).env("ECRU_WATCHDOG", value).output().unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    }
}

/// - given: a runtime with `dump_on_signal`, whose root waits in a function of the program
/// - when: the signal arrives twice, the second time after the first dump
/// - then: each time the tasks are printed, with what they wait for and their stack traces, and the
///   run goes on
#[test]
fn run_84_a_signal_makes_a_dump() {
    const NAME: &str = "watchdog::run_84_a_signal_makes_a_dump";
    #[inline(never)]
    fn wait_for_the_end() {
        println!("ready");
        let read = ecru::io::stdin().read(&mut [0]).unwrap();
        assert_eq!(read, 0);
    }
    if is_child(NAME) {
        let runtime = Runtime::builder().workers(1).dump_on_signal(SignalKind::user_defined1());
        runtime.build().unwrap().run(|| {
            ecru::scope(|s| {
                let sleeper = s.builder().name("sleeper").spawn(|| ecru::sleep(HOUR).is_err());
                wait_for_the_end();
                sleeper.cancel();
                assert!(sleeper.join().unwrap());
            });
        });
        println!("over");
        return;
    }
    let _watchdog = Watchdog::new();
    let mut command = start_again(NAME);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let input = child.0.stdin.take().unwrap();
    let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("ready")));
    let process = i32::try_from(child.0.id()).unwrap();
    for _ in 0..2 {
        // SAFETY: this sends a signal to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(process, libc::SIGUSR1) }, 0);
        assert!(lines.any(|line| line.starts_with("ecru: 2 tasks")));
        // The root's stack, and then the task below it.
        assert!(lines.any(|line| line.contains("wait_for_the_end")));
        assert!(lines.any(|line| line.contains("'sleeper'") && line.contains("waits for")));
    }
    drop(input);
    assert!(said.any(|line| line.contains("over")));
    assert!(child.0.wait().unwrap().success());
}

/// - given: `dump_on_signal` with a signal that cannot be caught
/// - when: the runtime is built
/// - then: an error names the signal and the reason
#[test]
fn run_85_signals_for_dumps_are_checked() {
    for signal in [libc::SIGKILL, libc::SIGSEGV, 0, 64] {
        let error = Runtime::builder().dump_on_signal(signal).build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("cannot be listened to"), "{error}");
    }
}

/// - given: a run with tasks that wait, have not begun, and run
/// - when: its dump is made JSON
/// - then: each task is an object with its id, name, place, state, and what it waits for
#[test]
fn run_86_a_dump_is_json() {
    run_on(1, || {
        ecru::scope(|s| {
            let waits = s.builder().name("a \"name\"\n").spawn(|| ecru::sleep(HOUR).is_err());
            while RuntimeHandle::current().dump().tasks().all(|task| task.waits_on().is_none()) {
                ecru::yield_now().unwrap();
            }
            let late = s.spawn(|| ());
            let tree = RuntimeHandle::current().dump();
            let json = tree.to_json();
            let state = |id: String, state: &str| {
                let begin = json.find(&format!("{{\"id\":{id},")).expect(&json);
                let place = json[begin..].find("\"state\":").expect(&json);
                json[begin + place..].starts_with(&format!("\"state\":\"{state}\""))
            };
            let number = |id: &str| id.trim_start_matches('#').to_owned();
            for task in tree.tasks() {
                let expected = match task.state() {
                    TaskState::Running => "running",
                    TaskState::Waiting(_) => "waiting",
                    _ => "unstarted",
                };
                assert!(state(number(&task.id().to_string()), expected), "{task}: {json}");
            }
            assert!(json.starts_with("{\"version\":1,\"tasks\":[{"), "{json}");
            assert!(json.ends_with("],\"busy_workers\":[],\"left_out\":0}"), "{json}");
            assert!(json.contains(r#""name":"a \"name\"\n""#), "{json}");
            assert!(json.contains(r#""waits_on":{"what":""#), "{json}");
            assert_eq!(json.lines().count(), 1);
            late.join().unwrap();
            waits.cancel();
            assert!(waits.join().unwrap());
        });
    });
}
