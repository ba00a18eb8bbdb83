//! Faults that a simulation draws: in traces, in messages, and taken away from failures.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Explore, Failure, Faults, Found, Link, Simulation, Strategy, Trace};
use ecru::sleep;

use super::sizeable;
use crate::support::{ms, panic_text};

fn seeds(seeds: u64) -> Explore {
    Explore::Seeds { seeds: 0..seeds, strategy: Strategy::Random }
}

/// Faults of many kinds, of which none is rare.
fn many() -> Simulation {
    let faults = Faults::default()
        .disk_errors(0.1)
        .short_transfers(0.3)
        .resets(0.05)
        .refused_connections(0.1)
        .slow_connections(0.2);
    let link = Link::new().latency(ms(1)..=ms(50)).loss(0.1);
    Simulation::default().network(link).faults(faults)
}

fn serve() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:80")?.serve(10, |mut stream, _| {
        let mut text = [0; 4];
        while stream.read_exact(&mut text).is_ok() && stream.write_all(&text).is_ok() {}
        Ok(())
    })
}

/// Asks the server until it has got this many answers. Returns how often a connection broke.
fn ask(answers: usize) -> usize {
    let (mut got, mut broken) = (0, 0);
    while got < answers {
        let Ok(mut stream) = TcpStream::connect("server:80") else {
            if ecru::sleep(ms(1)).is_err() {
                // The run has failed.
                return broken;
            }
            continue;
        };
        while got < answers {
            let mut text = [0; 4];
            match stream.write_all(b"text").and_then(|()| stream.read_exact(&mut text)) {
                Ok(()) => got += 1,
                Err(_) => {
                    broken += 1;
                    break;
                }
            }
        }
    }
    broken
}

/// Writes files and asks a server, and survives all faults but a failed sync.
fn trusts_syncs() {
    sim::host("server", serve);
    sim::settle();
    ask(5);
    for _ in 0..5 {
        let Ok(mut file) = File::create("file") else { continue };
        let _ = file.write_all(&[7; 100]);
        file.sync_all().expect("a sync never fails");
    }
    ask(5);
}

#[track_caller]
fn found(settings: Simulation, plan: Explore, f: fn()) -> Found {
    *settings.explore(plan, f).expect_err("no run has failed")
}

/// - given: a run with drawn faults
/// - when: its trace is replayed, with other `Faults`, or with none
/// - then: the faults are words of the trace, exactly they strike, and the run is the same
#[test]
fn sim_350_a_trace_has_the_drawn_faults() {
    let program = || {
        let outcomes =
            (0..40).map(|_| fs::write("file", "some text").map_err(|error| error.kind()));
        outcomes.collect::<Vec<_>>()
    };
    let faults = Faults::none().disk_errors(0.2).short_transfers(0.2);
    let first = Simulation::new(3).faults(faults).run(program);
    let text = first.trace.to_string();
    assert!(text.contains(" eio@0:") && text.contains(" short@0:"), "{text}");
    let trace: Trace = text.parse().unwrap();
    assert_eq!(trace, first.trace);
    let (hash, outcomes) = (first.trace_hash, first.unwrap());
    assert!(outcomes.iter().any(Result::is_err));
    for faults in [Faults::none(), Faults::none().disk_errors(1.0).short_transfers(1.0)] {
        let replay = Strategy::Replay(trace.clone());
        let again = Simulation::new(3).faults(faults).strategy(replay).run(program);
        assert_eq!((again.trace_hash, &again.trace), (hash, &trace));
        assert_eq!(again.unwrap(), outcomes);
    }
    // A trace that names no fault has none.
    let none = Strategy::Replay("v1".parse().unwrap());
    let calm =
        Simulation::new(3).faults(Faults::none().disk_errors(1.0)).strategy(none).run(program);
    assert!(calm.unwrap().iter().all(Result::is_ok));
}

/// - given: a program that only fails if a sync fails, under faults of many kinds
/// - when: it is explored
/// - then: the trace has that fault alone, at the least latencies, and the text names the operation,
///   the host and the virtual time
#[test]
fn sim_351_faults_that_a_failure_does_not_need_are_taken_away() {
    let found = found(many(), seeds(100), trusts_syncs);
    let (text, trace) = (found.to_string(), found.trace.to_string());
    assert_eq!(trace.matches('@').count(), 1, "{text}");
    assert!(trace.contains(" steady sync@0:") && !trace.contains(','), "{text}");
    let fault = text.lines().find(|line| line.starts_with("fault: sync ")).unwrap();
    assert!(fault.contains(" of the root host failed with EIO, at "), "{text}");
    // To repeat it, no probability of a fault is needed, but syncs take time.
    let again = Simulation::new(found.seed).faults(Faults::default());
    let text = again.strategy(Strategy::Replay(found.trace)).run(trusts_syncs).to_string();
    assert!(text.contains("a sync never fails") && text.contains("fault: sync "), "{text}");
}

/// - given: a program that fails if a connection breaks
/// - when: it is explored under faults
/// - then: one reset remains, and the text names both hosts
#[test]
fn sim_352_a_fault_of_the_network_names_both_hosts() {
    let found = found(many(), seeds(100), || {
        sim::host("server", serve);
        sim::settle();
        assert_eq!(ask(20), 0, "a connection broke");
    });
    let (text, trace) = (found.to_string(), found.trace.to_string());
    assert_eq!(trace.matches('@').count(), 1, "{text}");
    let fault = text.lines().find(|line| line.starts_with("fault: write ")).unwrap();
    assert!(fault.contains("the root host") && fault.contains("'server'"), "{text}");
    assert!(fault.contains("broke its connection, at ") && fault.contains("(reset@"), "{text}");
}

/// - given: a `Simulation` with a network, faults and limits
/// - when: `explore` or `test` is called on it
/// - then: each run has them
#[test]
fn sim_353_explorations_have_settings() {
    let second = Duration::from_secs(1);
    let slow = || Simulation::default().network(Link::new().latency(second..=second));
    slow().test(|| {
        sim::host("server", serve);
        sim::settle();
        ask(1);
        // There and back: for the connection, and for the answer.
        assert_eq!(sim::elapsed(), 4 * second);
    });
    let text = panic_text(|| {
        Simulation::default().faults(Faults::none().disk_errors(1.0)).test(|| {
            fs::write("file", "text").expect("a write never fails");
        });
    });
    assert!(text.contains("a write never fails") && text.contains("ECRU_SIM_SEED="), "{text}");
    assert!(text.contains("fault: read or write 1 of a file of the root host"), "{text}");
    let sleeps = || {
        let _ = ecru::sleep(10 * second);
    };
    let late = Simulation::default().max_time(second).explore(seeds(3), sleeps).unwrap_err();
    assert!(matches!(late.failure, Failure::OutOfTime(_)), "{late}");
    let plan = Explore::Exhaustive { max_runs: 10 };
    let long = Simulation::default().max_steps(20).explore(plan, || {
        for _ in 0..50 {
            let _ = ecru::yield_now();
        }
    });
    assert!(matches!(long.unwrap_err().failure, Failure::OutOfSteps(_)));
}

/// - given: a failed run that has drawn more faults than a message can have lines
/// - when: its report is printed
/// - then: the first ones are listed, and the others are counted
#[test]
fn sim_354_many_faults_are_counted() {
    let report = Simulation::new(1).faults(Faults::none().disk_errors(1.0)).run(|| {
        for _ in 0..100 {
            assert!(fs::read("none").is_err());
            let _ = fs::write("file", "text");
        }
        panic!("on purpose");
    });
    let text = report.to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("fault: ")).count(), 12, "{text}");
    assert!(text.ends_with("and 88 more faults, which the trace names"), "{text}");
}

/// - given: a run with faults of all kinds
/// - when: its trace is replayed without the probabilities of the faults, with the same network
/// - then: the run is the same
#[test]
fn sim_355_faults_of_all_kinds_are_replayed() {
    for seed in 0..3 {
        let first = sizeable::simulation(seed).run(sizeable::program);
        let trace: Trace = first.trace.to_string().parse().unwrap();
        assert!(first.trace.to_string().contains('@'));
        let replay = sizeable::simulation(seed).strategy(Strategy::Replay(trace));
        let again = replay.faults(Faults::default()).run(sizeable::program);
        assert_eq!((again.trace_hash, again.unwrap()), (first.trace_hash, first.unwrap()));
    }
}

/// - given: a fault whose size is drawn, among others
/// - when: the others are taken away
/// - then: its size stays the same
#[test]
fn sim_356_the_size_of_a_fault_does_not_depend_on_others() {
    fn program() -> Vec<Result<usize, ErrorKind>> {
        let file = loop {
            if let Ok(file) = File::create("file") {
                break file;
            }
        };
        let write = |_| file.write_at(&[7; 1000], 0).map_err(|error| error.kind());
        (0..30).map(write).collect()
    }
    let faults = Faults::none().disk_errors(0.3).short_transfers(0.3);
    let first = Simulation::new(5).faults(faults).run(program);
    let trace = first.trace.to_string();
    let shorts = trace.split(' ').filter(|word| !word.starts_with("eio@"));
    let shorts = shorts.collect::<Vec<_>>().join(" ");
    let again = Simulation::new(5).strategy(Strategy::Replay(shorts.parse().unwrap())).run(program);
    let (first, again) = (first.unwrap(), again.unwrap());
    // A transfer that fails is not counted as one that could be short.
    let moved: Vec<_> = first.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert!(moved.iter().any(|count| **count < 1000));
    let again: Vec<_> = again.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert_eq!(again[..moved.len()], moved);
}

/// A host that counts in memory, and notes its counts.
fn counts() {
    let counter = sim::host("counter", || {
        for count in 0.. {
            sim::note(count.to_string());
            sleep(Duration::from_secs(1))?;
        }
        Ok(())
    });
    sleep(Duration::from_secs(20)).unwrap();
    drop(counter);
    let starts = sim::notes().iter().filter(|note| note.text == "0").count();
    assert!(starts < 3, "it has crashed twice");
}

fn with_crashes(most: u32) -> Simulation {
    let faults = Faults::none().crashes(most).outages_within(Duration::from_secs(15));
    Simulation::default().faults(faults)
}

/// - given: a program that fails if a host crashes twice
/// - when: up to six crashes of the host are drawn
/// - then: the failure that is shown has two crashes, the trace names them, and repeats the run
#[test]
fn sim_390_a_failure_that_needs_two_crashes_shows_two_slow() {
    let plan = Explore::Seeds { seeds: 0..100, strategy: Strategy::Random };
    let found = with_crashes(6).explore(plan.clone(), counts).unwrap_err();
    let text = found.to_string();
    let listed = text.lines().filter(|line| line.starts_with("fault: crash "));
    assert_eq!(listed.count(), 2, "{text}");
    let crashes = found.timeline().events().filter(|event| event.text == "crashes").count();
    assert_eq!(crashes, 2, "{text}");
    assert!(found.trace.to_string().contains(" crash@1:"), "{text}");
    let replay = Strategy::Replay(found.trace.clone());
    let seed = Explore::Seeds { seeds: found.seed..found.seed + 1, strategy: replay };
    let again = with_crashes(6).explore(seed, counts);
    assert!(again.unwrap_err().to_string().contains("it has crashed twice"));
    // One crash is no failure, and none is drawn unless that is asked for.
    with_crashes(1).explore(plan.clone(), counts).unwrap();
    Simulation::default().explore(plan, counts).unwrap();
}

/// - given: hosts for which crashes, power failures and partitions may be drawn
/// - when: they run with many seeds
/// - then: each kind happens at most as often as it may, within the time, and ends; after `calm`
///   none begins
#[test]
fn sim_391_outages_have_bounds() {
    let (second, mut seen) = (Duration::from_secs(1), [0; 3]);
    for seed in 0..30 {
        let faults = Faults::none().crashes(2).power_failures(1).partitions(1);
        let faults = faults.outages_within(10 * second).outage_length(second..=2 * second);
        let report = Simulation::new(seed).faults(faults).run(|| {
            for name in ["a", "b"] {
                sim::host(name, || {
                    sleep(Duration::from_secs(3600))?;
                    Ok(())
                });
            }
            sleep(Duration::from_secs(6)).unwrap();
            sim::calm();
            sleep(Duration::from_secs(30)).unwrap();
        });
        let timeline = report.timeline();
        let of = |host: &str, text: &str| {
            let events = timeline.events().filter(|event| &*event.host == host);
            events.filter(|event| event.text.contains(text)).cloned().collect::<Vec<_>>()
        };
        for host in ["a", "b"] {
            let stops = [of(host, "crashes"), of(host, "loses its power")];
            assert!(stops[0].len() <= 2 && stops[1].len() <= 1, "{timeline}");
            seen[0] += stops[0].len();
            seen[1] += stops[1].len();
            let starts = of(host, "starts");
            assert_eq!(starts.len(), 1 + stops.concat().len(), "{timeline}");
            for stop in stops.concat() {
                let next = starts.iter().find(|start| start.at > stop.at).expect("it starts again");
                assert!((second..=2 * second).contains(&(next.at - stop.at)), "{timeline}");
                assert!(stop.at <= 6 * second, "{timeline}");
            }
        }
        seen[2] +=
            timeline.events().filter(|event| event.text.contains("fault: partition ")).count();
        report.unwrap();
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

/// - given: a program that fails if two of its own chances come true in a certain place
/// - when: it is explored
/// - then: only the chances that the failure needs are left, and the trace names them
#[test]
fn sim_392_chances_of_the_program_are_taken_away() {
    let plan = Explore::Seeds { seeds: 0..200, strategy: Strategy::Random };
    let found = sim::explore(plan, || {
        let lost: Vec<bool> = (0..40).map(|_| sim::chance(0.3)).collect();
        assert!(!(lost[17] && lost[23]), "both are lost");
    });
    let found = found.unwrap_err();
    let text = found.to_string();
    assert!(found.trace.to_string().contains("chance@0:18,24"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("fault: chance ")).count(), 2, "{text}");
}

/// - given: a program that fails in two ways with the same message, of which one needs fewer faults
/// - when: a run that fails in the other way is made simpler
/// - then: it still fails at the same place
#[test]
fn sim_393_a_failure_stays_the_same_one() {
    fn program() {
        if sim::chance(0.5) && sim::chance(0.5) {
            panic!("a number is wrong");
        }
        // This is the second chance if the first one does not come true.
        if sim::chance(0.5) {
            panic!("a number is wrong");
        }
    }
    let mut found = 0;
    for seed in 0..40 {
        let first = Simulation::new(seed).run(program);
        if !first.trace.to_string().contains("chance@0:1,2 ") {
            continue;
        }
        let plan = Explore::Seeds { seeds: seed..seed + 1, strategy: Strategy::Random };
        let shown = sim::explore(plan, program).unwrap_err();
        assert!(shown.trace.to_string().contains("chance@0:1,2 "), "{shown}");
        found += 1;
    }
    assert!(found > 3, "{found}");
}
