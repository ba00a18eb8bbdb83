//! What the programs of hosts note.

use super::{MS, SECOND, each_strategy};
use ecru::sim::{self, Host, Simulation};
use ecru::{shield, sleep};
use std::time::Duration;

fn texts() -> Vec<(String, Duration, String)> {
    sim::notes().into_iter().map(|note| (note.host.to_string(), note.at, note.text)).collect()
}

/// Notes each of its lives, and what it does after its end.
fn program() -> std::io::Result<()> {
    sim::note("begun");
    ecru::scope(|s| {
        s.spawn(|| {
            let _ = shield(|| sleep(3600 * SECOND));
            sim::note("a task after the end");
        });
        let _ = sleep(3600 * SECOND);
        sim::note("after the end");
    });
    sim::note("after the scope");
    Ok(())
}

/// - given: a host whose tasks note something when their waits fail
/// - when: it crashes, starts again, or loses its power
/// - then: the notes have what its programs did before, with the host and the time, and what other
///   hosts did
#[test]
fn sim_374_notes_of_a_host_that_stops() {
    each_strategy(|| {
        let stops: [fn(&Host); 3] = [Host::crash, Host::restart, Host::power_fail];
        let host = sim::host("host", program);
        for stop in stops {
            sleep(SECOND).unwrap();
            stop(&host);
            sim::settle();
            sim::note("stopped");
            host.restart();
        }
        sleep(MS).unwrap();
        host.crash();
        sim::settle();
        let expected = [
            ("host", 0, "begun"),
            ("root", 1, "stopped"),
            ("host", 1, "begun"),
            ("host", 2, "begun"),
            ("root", 2, "stopped"),
            ("host", 2, "begun"),
            ("root", 3, "stopped"),
            ("host", 3, "begun"),
        ];
        let expected = expected
            .map(|(host, second, text)| (String::from(host), second * SECOND, String::from(text)));
        assert_eq!(texts(), expected);
    });
}

/// - given: programs that note something
/// - when: they run
/// - then: the report has the notes, also of a run that fails, and not what is noted after its
///   failure; a note is part of the hash
#[test]
fn sim_375_notes_of_a_report() {
    let run = |text: &'static str| {
        Simulation::new(1).run(move || {
            sim::note(text);
            ecru::scope(|s| {
                s.spawn(|| {
                    let _ = shield(|| sleep(SECOND));
                    sim::note("later");
                });
                sim::invariant("holds", || sim::elapsed() < SECOND / 2);
                let _ = sleep(SECOND / 2);
            });
            sim::note("after the failure");
        })
    };
    let (one, other) = (run("one"), run("other"));
    assert!(one.result.is_err());
    let found: Vec<_> = one.notes.iter().map(|note| &*note.text).collect();
    assert_eq!(found, ["one"]);
    assert_ne!(one.trace_hash, other.trace_hash);
    assert_eq!(one.trace_hash, run("one").trace_hash);
    sim::note("outside");
    assert!(sim::notes().is_empty());
}
