//! How a failure names the hosts, and its timeline.

use super::{MS, SECOND};
use crate::support::panic_text;
use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Explore, Failure, Host, Simulation, Strategy};
use ecru::sleep;
use ecru::sync::{Mutex, Notify};
use std::io::{self, Read, Write};
use std::time::Duration;

/// - given: hosts of which one has two tasks that wait for each other, and the root waits, too
/// - when: the run fails as a deadlock
/// - then: the tree names the hosts of their tasks, also that of a lock's holder, and none for the
///   root
#[test]
fn sim_380_a_tree_names_the_hosts() {
    let report = Simulation::new(1).run(|| {
        sim::host("db", || {
            let lock = Mutex::new(());
            ecru::scope(|s| {
                s.builder().name("holder").spawn(|| {
                    let _held = lock.lock();
                    let _ = Notify::new().wait();
                });
                ecru::yield_now()?;
                sim::settle();
                s.builder().name("second").spawn(|| drop(lock.lock()));
                Ok(())
            })
        });
        let _ = Notify::new().wait();
    });
    let Err(Failure::Deadlock(tree)) = &report.result else { panic!("{report}") };
    let text = report.to_string();
    let second = text.lines().find(|line| line.contains("'second'")).expect(&text);
    assert!(second.contains("'second' on 'db', spawned at"), "{text}");
    assert!(second.contains("held by task #2 "), "{text}");
    assert!(text.contains("task #2 'holder' on 'db', spawned at"), "{text}");
    let hosts = |is_root| {
        let tasks = tree.tasks().filter(move |task| task.is_root() == is_root);
        tasks.map(|task| task.host().map(String::from)).collect::<Vec<_>>()
    };
    assert_eq!(hosts(true), [None]);
    assert_eq!(hosts(false), vec![Some(String::from("db")); 3]);
}

/// - given: a task of a host that panics
/// - when: the failure is shown, by a report or by an exploration with its trace
/// - then: the place of the panic and the legend of the trace name the host
#[test]
fn sim_381_a_panic_and_a_legend_name_the_host() {
    let program = || {
        sim::host("db", || {
            ecru::scope(|s| {
                s.builder().name("reader").spawn(|| panic!("on purpose"));
            });
            Ok(())
        });
        sleep(SECOND).unwrap();
    };
    let text = Simulation::new(1).run(program).to_string();
    let thrown = text.lines().find(|line| line.starts_with("thrown at ")).expect(&text);
    assert!(thrown.contains("task #2 'reader' (spawned at"), "{text}");
    assert!(thrown.contains(", on the host 'db'"), "{text}");
    let plan = Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
    let text = sim::explore(plan, program).unwrap_err().to_string();
    let line = text.lines().find(|line| line.starts_with("task #1: spawned at ")).expect(&text);
    assert!(line.ends_with(", on the host 'db'"), "{text}");
    let root = text.lines().find(|line| line.starts_with("task #0: the root")).expect(&text);
    assert!(!root.contains("on the host"), "{text}");
}

fn answer() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:80")?.serve(10, |mut stream, _| {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        let mut file = ecru::fs::File::create("log")?;
        file.write_all(&byte)?;
        file.sync_all()?;
        stream.write_all(b"ok")
    })
}

/// - given: a client and a server, which crashes, restarts and is cut off
/// - when: the run is over
/// - then: `Report::timeline` has each message that was sent, delivered or dropped, each connection,
///   crash, start, partition, its end, synced file and note, with its virtual time and its host
#[test]
fn sim_382_the_timeline_of_a_run() {
    let report = Simulation::new(1).run(|| {
        let server = sim::host("server", answer);
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        sim::note("answered");
        server.crash();
        sleep(10 * MS).unwrap();
        server.restart();
        sleep(10 * MS).unwrap();
        sim::partition_one_way(&sim::here(), &server);
        let socket = UdpSocket::bind("0.0.0.0:1").unwrap();
        socket.send_to(b"abc", "server:1").unwrap();
        sleep(10 * MS).unwrap();
        sim::heal();
        socket.send_to(b"abc", "server:1").unwrap();
        server.pause();
        sleep(10 * MS).unwrap();
        server.resume();
        server.power_fail();
    });
    let timeline = report.timeline();
    let ms = |event: &sim::TimelineEvent| event.at.as_micros() as f64 / 1000.0;
    // The name of the log is kept or lost, as the seed decides.
    let events = timeline.events().filter(|event| !event.text.starts_with("loses the name"));
    let events = events.map(|event| (ms(event), &*event.host, &*event.text));
    let expected = [
        (0.0, "server", "starts"),
        (0.0, "root", "asks 'server' for a connection"),
        (2.0, "root", "is connected to 'server'"),
        (2.0, "root", "sends 1 byte to 'server'"),
        (3.0, "server", "receives 1 byte from 'root'"),
        (3.0, "server", "has synced 'log'"),
        (3.0, "server", "sends 2 bytes to 'root'"),
        (4.0, "root", "receives 2 bytes from 'server'"),
        (4.0, "root", "gets the end of a stream from 'server'"),
        (4.0, "root", "note: answered"),
        (4.0, "server", "crashes"),
        (14.0, "server", "restarts (life 2)"),
        (24.0, "server", "is cut off from what 'root' sends"),
        (24.0, "root", "sends a datagram of 3 bytes to 'server'"),
        (25.0, "server", "drops a datagram from 'root': the link is cut"),
        (34.0, "root", "all partitions end"),
        (34.0, "root", "sends a datagram of 3 bytes to 'server'"),
        (34.0, "server", "pauses"),
        (35.0, "server", "drops a datagram from 'root': no socket receives from there"),
        (44.0, "server", "resumes"),
        (44.0, "server", "loses its power"),
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected, "{timeline}");
    assert_eq!(timeline.left_out(), 0);
    let drop = timeline.events().find(|event| event.text.starts_with("drops")).unwrap();
    assert_eq!(drop.other.as_deref(), Some("root"));
    report.unwrap();
}

/// Many messages, and then a failure on this host.
fn fails_after_messages(on: &str) {
    let receiver = sim::host("receiver", || {
        let socket = UdpSocket::bind("0.0.0.0:1")?;
        for number in 0.. {
            socket.recv(&mut [0; 8])?;
            if number == 29 {
                sim::note("enough");
                assert!(sim::notes().iter().any(|note| note.text == "root"), "on the receiver");
            }
        }
        Ok(())
    });
    sim::settle();
    if on == "root" {
        sim::note("root");
    }
    let socket = UdpSocket::bind("0.0.0.0:1").unwrap();
    for _ in 0..30 {
        socket.send_to(b"text", "receiver:1").unwrap();
        sleep(MS).unwrap();
    }
    sleep(SECOND).unwrap();
    let _: Host = receiver;
    panic!("on the root");
}

/// - given: a run with many messages that fails on a host, or in the program itself
/// - when: the failure is shown, by a report, an exploration or a test
/// - then: it has the last events, with their times and hosts, and the failure is the last one
#[test]
fn sim_383_a_failure_shows_the_last_events() {
    for (host, at) in [("root", "1.03s"), ("receiver", "30ms")] {
        let report = Simulation::new(1).run(move || fails_after_messages(host));
        let plan = Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
        let found = sim::explore(plan, || fails_after_messages(host)).unwrap_err();
        let texts = [
            report.to_string(),
            found.to_string(),
            panic_text(|| sim::test(|| fails_after_messages(host))),
        ];
        for text in texts {
            let (_, timeline) =
                text.split_once("the last 24 events of the timeline, after ").expect(&text);
            let lines: Vec<&str> = timeline.lines().skip(1).take(24).collect();
            let last: Vec<&str> = lines[23].split_whitespace().collect();
            assert_eq!(last[..5], [at, host, "the", "run", "fails"], "{text}");
            let enough = "receiver  note: enough (task #1)";
            assert!(lines.iter().any(|line| line.ends_with(enough)), "{text}");
        }
        let last = found.timeline().events().last().unwrap().clone();
        assert_eq!((&*last.host, &*last.text), (host, "the run fails"));
        assert!(last.at > Duration::ZERO && report.timeline().events().count() > 60);
    }
}

/// - given: a run without hosts, and one in which a deadlock is the only event
/// - when: it fails
/// - then: the message has no timeline
#[test]
fn sim_384_no_timeline_without_events() {
    let text = Simulation::new(1).run(|| Notify::new().wait().is_ok()).to_string();
    assert!(text.contains("deadlock") && !text.contains("timeline:\n"), "{text}");
}

/// - given: an invariant that a task of a host breaks, and a panic on a host that is noticed only
///   when the host crashes
/// - when: the run fails
/// - then: the last event is the failure, on that host, at the time when it happened
#[test]
fn sim_385_the_failing_step_is_on_its_host() {
    let broken = Simulation::new(1).run(|| {
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let seen = std::sync::Arc::clone(&flag);
        sim::invariant("the flag is set", move || seen.load(std::sync::atomic::Ordering::Relaxed));
        sim::host("db", move || {
            sleep(SECOND)?;
            flag.store(false, std::sync::atomic::Ordering::Relaxed);
            sleep(SECOND)?;
            Ok(())
        });
        sleep(60 * SECOND).unwrap();
    });
    let late = Simulation::new(1).run(|| {
        let host = sim::host("db", || {
            ecru::scope(|s| {
                let task = s.spawn(|| {
                    let _ = sleep(SECOND);
                    panic!("on purpose");
                });
                sleep(3600 * SECOND)?;
                let _ = task.join();
                Ok(())
            })
        });
        sleep(30 * SECOND).unwrap();
        host.crash();
    });
    for report in [broken, late] {
        assert!(report.result.is_err());
        let timeline = report.timeline();
        let fails = timeline.events().find(|event| event.text == "the run fails").unwrap();
        assert_eq!((fails.at, &*fails.host), (SECOND, "db"), "{report}");
    }
}

/// - given: named tasks and one without a name, of the program and of a host, that send messages
/// - when: the timeline is shown
/// - then: each event that a task has done names it, but for the root, and what arrives names none
#[test]
fn sim_403_the_timeline_names_the_tasks() {
    let report = Simulation::new(1).run(|| {
        sim::host("server", || {
            TcpListener::bind("0.0.0.0:80")?.serve(10, |mut stream, _| {
                stream.read_exact(&mut [0])?;
                stream.write_all(b"ok")
            })
        });
        sim::settle();
        ecru::scope(|s| {
            s.builder().name("a client").spawn(|| {
                let mut stream = TcpStream::connect("server:80").unwrap();
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut [0; 2]).unwrap();
                sim::note("answered");
            });
        });
        sim::note("the end");
    });
    let timeline = report.timeline();
    let lines: Vec<String> = timeline.to_string().lines().map(String::from).collect();
    let done_by = |text: &str, task: Option<&str>| {
        let is_it = |event: &&sim::TimelineEvent| event.text.starts_with(text);
        let event = timeline.events().find(is_it).unwrap_or_else(|| panic!("{timeline}"));
        assert_eq!(event.task.as_deref(), task, "{timeline}");
        let line = lines.iter().find(|line| line.contains(text)).unwrap();
        match task.filter(|task| *task != "#0 root") {
            Some(task) => assert!(line.ends_with(&format!(" (task {task})")), "{line}"),
            None => assert!(line.ends_with(&event.text), "{line}"),
        }
    };
    done_by("starts", Some("#1"));
    done_by("asks 'server' for a connection", Some("#2 'a client'"));
    done_by("sends 1 byte to 'server'", Some("#2 'a client'"));
    done_by("receives 1 byte from 'root'", None);
    // The task that serves the connection.
    done_by("sends 2 bytes to 'root'", Some("#3"));
    done_by("note: answered", Some("#2 'a client'"));
    done_by("note: the end", Some("#0 root"));
    report.unwrap();
}
