//! The flight recorder: what it tells of a run, and that reading it harms nothing.

mod json;

use std::io::{self, Write};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ecru::channel::{bounded, unbounded};
use ecru::diag::{self, Recorder};
use ecru::sim::{self, Simulation};
use ecru::{CancelReason, Runtime, RuntimeHandle};

use self::json::{Value, parse};
use crate::support::{HOUR, OnDrop, Watchdog, ms, payload_of, quiet_panic, text_of, until};

fn recording(workers: usize, bytes: usize) -> Runtime {
    Runtime::builder().workers(workers).record(bytes).build().unwrap()
}

/// Returns the events of a trace, which is valid.
fn trace_of(recorder: &Recorder) -> Vec<Value> {
    let mut trace = Vec::new();
    recorder.write_trace(&mut trace).unwrap();
    let text = String::from_utf8(trace).unwrap();
    let trace = parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    trace.field("traceEvents").items().to_vec()
}

/// Returns the events with this phase.
fn phase<'e>(events: &'e [Value], phase: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event.field("ph").text() == phase).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event.field("name").text()).collect()
}

fn row(event: &Value) -> (u64, u64) {
    (event.field("pid").number() as u64, event.field("tid").number() as u64)
}

/// Returns the number in a task's row, which is the one with the name.
fn row_of(events: &[Value], name: &str) -> (u64, u64) {
    let is_named = |event: &&Value| {
        event.field("name").text() == "thread_name"
            && event.field("args").field("name").text().starts_with(name)
    };
    row(events.iter().find(is_named).unwrap_or_else(|| panic!("no row '{name}'")))
}

/// - given: a runtime with a recorder, and tasks that wait for channels, for each other, for time and
///   for operations, yield, and are cancelled
/// - when: the trace is written
/// - then: it is JSON; each worker and each task has a row with its stretches; waits have their
///   reasons and places; arrows lead from wakers and spawners to later stretches
#[test]
fn run_90_a_trace_tells_what_happened() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = recording(workers, 1 << 20);
        let recorder = runtime.handle().recorder().unwrap();
        runtime.run(|| {
            ecru::scope(|s| {
                let (tx, rx) = bounded(1);
                let (up, down) = ecru::net::UnixStream::pair().unwrap();
                let taker = s.builder().name("taker").spawn(move || {
                    assert_eq!(rx.recv(), Ok(1));
                    ecru::yield_now().unwrap();
                    (&down).write_all(b"four").unwrap();
                });
                let reader = s.builder().name("reader").spawn(move || {
                    let mut four = [0; 4];
                    io::Read::read_exact(&mut (&up), &mut four).unwrap();
                });
                let sleeper = s.builder().name("sleeper").spawn(|| ecru::sleep(HOUR).is_err());
                let sleeper = Arc::new(sleeper);
                let joined = Arc::clone(&sleeper);
                let joiner = s.builder().name("joiner").spawn(move || joined.join().unwrap());
                until(|| waiting() == ["taker", "reader", "sleeper", "joiner"].len());
                tx.send(1).unwrap();
                taker.join().unwrap();
                reader.join().unwrap();
                sleeper.cancel();
                assert!(joiner.join().unwrap());
            });
        });
        let events = trace_of(&recorder);
        let names = names(&events);
        let reason = CancelReason::Explicit.to_string();
        let (reader, taker) = (row_of(&events, "reader"), row_of(&events, "taker"));
        for (part, at) in [
            ("waits for a value from a channel", Some(taker)),
            ("waits for time to pass", Some(row_of(&events, "sleeper"))),
            ("runs on worker 0", None),
            ("waits for the end of sleeper", Some(row_of(&events, "joiner"))),
            ("cancels sleeper", None),
            (&reason, None),
            ("read from fd", Some(reader)),
            ("write to fd", Some(taker)),
            ("yields", None),
        ] {
            let is_there = events.iter().any(|event| {
                let (name, row) = (event.field("name").text(), row(event));
                let then = event.find("args").and_then(|args| args.find("then"));
                let is_it = name.contains(part) || then.is_some_and(|then| then.text() == part);
                is_it && at.is_none_or(|at| at == row)
            });
            assert!(is_there, "{part}: {names:?}");
        }
        let file = Location::caller().file();
        let wait = events
            .iter()
            .find(|event| {
                row(event) == taker && event.field("name").text().starts_with("waits for a value")
            })
            .unwrap();
        assert!(wait.field("args").field("at").text().starts_with(file));
        check_arrows(&events);
    }
}

/// Returns the number of tasks that wait.
fn waiting() -> usize {
    let tree = RuntimeHandle::current().dump();
    tree.tasks().filter(|task| task.waits_on().is_some()).count()
}

/// Each arrow has two ends, in this order, at a stretch.
fn check_arrows(events: &[Value]) {
    let (starts, ends) = (phase(events, "s"), phase(events, "f"));
    assert!(!starts.is_empty() && starts.len() == ends.len());
    let slices = phase(events, "X");
    for (start, end) in starts.iter().zip(ends) {
        assert_eq!(start.field("id").number(), end.field("id").number());
        assert!(start.field("ts").number() <= end.field("ts").number());
        let is_stretch = slices.iter().any(|slice| {
            row(slice) == row(end)
                && slice.field("ts").number() == end.field("ts").number()
                && slice.field("name").text().starts_with("runs on")
        });
        assert!(is_stretch, "an arrow leads nowhere");
    }
}

/// - given: a recorder with little memory
/// - when: far more happens than it holds
/// - then: the newest events stay, also those of a task whose beginning was overwritten, with its
///   name
#[test]
fn run_91_a_recorder_keeps_the_newest_events() {
    let _watchdog = Watchdog::new();
    let runtime = recording(1, 4096);
    let recorder = runtime.handle().recorder().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            s.builder().name("long-lived").spawn(|| {
                diag::mark("too old");
                for _ in 0..1000 {
                    ecru::yield_now().unwrap();
                }
                diag::mark("the last one");
            });
        });
    });
    let events = trace_of(&recorder);
    let names = names(&events);
    assert!(names.contains(&"the last one") && !names.contains(&"too old"), "{names:?}");
    row_of(&events, "long-lived");
}

/// - given: sizes of a recorder's memory that are too small or too large
/// - when: the runtime is built
/// - then: an error of kind `InvalidInput` names the value and what to write
#[test]
fn run_92_wrong_sizes_of_a_recorder_are_refused() {
    for bytes in [0, 4095, usize::MAX] {
        let error = Runtime::builder().workers(1).record(bytes).build().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains(&format!("record({bytes})")) && text.contains("1 << 20"), "{text}");
    }
}

/// - given: a runtime without a recorder, and one with a recorder
/// - when: a record is asked for: of the first one; of the second one after it was dropped
/// - then: an error of kind `Unsupported` says what to write; a recorder that was taken before
///   remains, and has what happened
#[test]
fn run_93_a_record_without_a_recorder() {
    let _watchdog = Watchdog::new();
    let silent = Runtime::builder().workers(1).build().unwrap();
    assert!(silent.handle().recorder().is_none());
    let error = silent.handle().record_to(io::sink()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("builder().record"));
    silent.run(|| diag::mark("nowhere"));
    diag::mark("nowhere");

    let runtime = recording(1, 1 << 16);
    let (handle, recorder) = (runtime.handle(), runtime.handle().recorder().unwrap());
    runtime.run(|| diag::mark("somewhere"));
    handle.record_to(io::sink()).unwrap();
    drop(runtime);
    assert!(handle.recorder().is_none());
    assert_eq!(handle.record_to(io::sink()).unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert!(names(&trace_of(&recorder)).contains(&"somewhere"));
}

/// - given: two workers whose tasks begin, wake each other and end all the time, with a recorder that
///   is overwritten all the time
/// - when: plain threads and tasks of the run write traces meanwhile
/// - then: each trace is valid, and the run goes on
#[test]
fn run_94_a_recorder_is_read_during_a_storm() {
    let _watchdog = Watchdog::new();
    let runtime = recording(2, 8192);
    let recorder = runtime.handle().recorder().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                threads.spawn(|| {
                    for _ in 0..10 {
                        trace_of(&recorder);
                    }
                })
            })
            .collect();
        let run = threads.spawn(|| {
            runtime.run(|| {
                ecru::scope(|s| {
                    let (tx, rx) = unbounded::<u32>();
                    s.builder().name("receiver").spawn(move || rx.iter().count());
                    let mut rounds = 0;
                    while !over.load(Ordering::Relaxed) || rounds < 100 {
                        rounds += 1;
                        let tx = tx.clone();
                        s.builder().name(format!("round {rounds}")).spawn(move || {
                            diag::mark("a round");
                            tx.send(rounds).unwrap();
                        });
                        ecru::yield_now().unwrap();
                        if rounds % 64 == 0 {
                            RuntimeHandle::current().record_to(io::sink()).unwrap();
                        }
                    }
                });
            });
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        over.store(true, Ordering::Relaxed);
        run.join().unwrap();
    });
}

/// - given: a recorder, and a writer that fails after some bytes, or panics
/// - when: the trace is written to it
/// - then: the error or the panic reaches the caller, and the recorder works on
#[test]
fn run_95_a_record_to_a_broken_writer() {
    struct Broken(usize, bool);
    impl Write for Broken {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                if self.1 {
                    std::panic::resume_unwind(Box::new("broken"));
                }
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = bytes.len().min(self.0);
            self.0 -= count;
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let _watchdog = Watchdog::new();
    let runtime = recording(1, 1 << 16);
    let recorder = runtime.handle().recorder().unwrap();
    runtime.run(|| {
        diag::mark("before");
        for after in [0, 1, 100] {
            let error = recorder.write_trace(Broken(after, false)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            let broken = std::panic::AssertUnwindSafe(|| recorder.write_trace(Broken(after, true)));
            assert!(std::panic::catch_unwind(broken).is_err());
        }
        diag::mark("after");
        let events = trace_of(&recorder);
        assert!(["before", "after"].iter().all(|mark| names(&events).contains(mark)));
    });
}

/// - given: a recorder
/// - when: code marks moments: in a task, in a destructor while it unwinds, in `no_suspend`, on a
///   thread that may block, and on a plain thread, with characters that JSON escapes and texts that
///   are empty or too long
/// - then: each mark is in the trace once, cut to 240 bytes
#[test]
fn run_96_marks_from_everywhere() {
    struct MarksAtDrop;
    impl Drop for MarksAtDrop {
        fn drop(&mut self) {
            diag::mark("unwinding");
        }
    }
    const ODD: &str = "\"quoted\" \\ \n\t\u{1} </script> <!-- é 漢 \u{2028}";
    let _watchdog = Watchdog::new();
    let runtime = recording(1, 1 << 16);
    let recorder = runtime.handle().recorder().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            s.builder().name(ODD).spawn(|| diag::mark(ODD));
            let unwinds = s.spawn(|| {
                let _marks = MarksAtDrop;
                std::panic::resume_unwind(Box::new("expected"));
            });
            assert!(unwinds.join().is_err());
        });
        diag::mark("");
        diag::mark(&"x".repeat(300));
        ecru::no_suspend(|| diag::mark("no suspend"));
        ecru::unblock(|| diag::mark("not on a worker"));
        ecru::unblock(|| recorder.mark("in unblock"));
        recorder.mark("by the recorder");
    });
    recorder.mark("outside");
    let events = trace_of(&recorder);
    let marks: Vec<&str> =
        phase(&events, "i").iter().map(|event| event.field("name").text()).collect();
    let long = "x".repeat(240);
    for mark in
        [ODD, "unwinding", "", &long, "no suspend", "in unblock", "by the recorder", "outside"]
    {
        let count = marks.iter().filter(|found| **found == mark).count();
        assert_eq!(count, 1, "{mark:?}: {marks:?}");
    }
    assert!(!marks.contains(&"not on a worker"));
    row_of(&events, ODD);
}

/// - given: a recorder, and names and marks that look like the end of a script
/// - when: the page is written
/// - then: it is one document that loads nothing; the events are JSON in an element that no text of
///   them ends
#[test]
fn run_100_a_page_holds_any_text() {
    let _watchdog = Watchdog::new();
    let runtime = recording(1, 1 << 16);
    runtime.run(|| {
        ecru::scope(|s| {
            let named = s.builder().name("</script><script>alert(1)</script>");
            named.spawn(|| diag::mark("<!-- <script> & \u{2028} \"")).join().unwrap();
        });
    });
    let mut page = Vec::new();
    runtime.handle().recorder().unwrap().write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<!--") && !page.contains("//cdn") && !page.contains("src="));
    assert!(!page.contains("http:") && !page.contains("https:"));
    let begin = page.find("type=\"application/json\">").unwrap() + 24;
    let end = begin + page[begin..].find("</script>").unwrap();
    let story = parse(page[begin..end].trim_start_matches('>')).unwrap();
    let texts: Vec<&str> = story.field("texts").items().iter().map(Value::text).collect();
    assert!(texts.contains(&"</script><script>alert(1)</script>"), "{texts:?}");
    assert!(texts.contains(&"<!-- <script> & \u{2028} \""), "{texts:?}");
    let number = |name: &str| story.field(name).items().len();
    assert!(number("tasks") % 5 == 0 && number("stretches") % 11 == 0 && number("notes") % 5 == 0);
}

/// - given: a runtime with `record_on_panic`, whose runs return, and then end by a panic; and a path
///   in a folder that does not exist
/// - when: the runs are over
/// - then: the file is there after the panic only, and has the last mark; a path that cannot be written
///   to changes nothing for the caller; without a recorder the setting is refused
#[test]
fn run_101_a_run_that_panics_writes_its_page() {
    let _watchdog = Watchdog::new();
    let folder = std::env::temp_dir().join(format!("ecru-run-101-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let _removed = OnDrop(|| drop(std::fs::remove_dir_all(&folder)));
    let path = folder.join("page.html");
    let builder = || Runtime::builder().workers(1).record(1 << 16);
    let runtime = builder().record_on_panic(&path).build().unwrap();
    runtime.run(|| diag::mark("a good run"));
    assert!(!path.exists());
    let fails = |runtime: &Runtime| {
        payload_of(|| {
            runtime.run(|| {
                diag::mark("a bad run");
                quiet_panic("expected");
            })
        })
    };
    assert_eq!(text_of(&*fails(&runtime)), "expected");
    assert!(std::fs::read_to_string(&path).unwrap().contains("a bad run"));

    let nowhere = folder.join("missing").join("page.html");
    let runtime = builder().record_on_panic(nowhere).build().unwrap();
    assert_eq!(text_of(&*fails(&runtime)), "expected");

    let error = Runtime::builder().record_on_panic("page.html").build().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("record(1 << 20)"), "{error}");
}

/// - given: a simulation with two hosts, with a recorder and without one
/// - when: it runs
/// - then: both runs are the same; the record has virtual times and the tasks' hosts, and is the same
///   for each run with the seed
#[test]
fn run_102_a_simulation_is_recorded() {
    let run = |bytes: Option<usize>| {
        let simulation = Simulation::new(7);
        let simulation = match bytes {
            Some(bytes) => simulation.record(bytes),
            None => simulation,
        };
        simulation.run(|| {
            let serve = |time| move || Ok(ecru::sleep(ms(time))?);
            let _hosts =
                [("first", 10), ("second", 20)].map(|(name, time)| sim::host(name, serve(time)));
            ecru::sleep(ms(30)).unwrap();
        })
    };
    let (plain, recorded, again) = (run(None), run(Some(1 << 16)), run(Some(1 << 16)));
    assert!(plain.recorder().is_none());
    assert_eq!(plain.trace_hash, recorded.trace_hash);
    let text = |report: &sim::Report<()>| {
        let mut page = Vec::new();
        report.recorder().unwrap().write_page(&mut page).unwrap();
        String::from_utf8(page).unwrap()
    };
    assert!(text(&recorded) == text(&again), "two records of one seed differ");
    assert!(text(&recorded).contains("\"virtual\":true"));
    let events = trace_of(recorded.recorder().unwrap());
    let end = events.iter().map(|event| event.field("ts").number()).fold(0.0, f64::max);
    assert_eq!(end, 30_000.0);
    for host in ["first", "second"] {
        let is_there = events.iter().any(|event| {
            let name = event.find("args").and_then(|args| args.find("name"));
            name.is_some_and(|name| name.text().ends_with(&format!(" on {host}")))
        });
        assert!(is_there, "{host}");
    }
}
