//! The commands of the program `fleet` about one queue.

use ecru_fleet::{Fleet, Sent};

use crate::server::Server;
use crate::tool::said;

/// Runs the program, which succeeds, and returns its lines.
#[track_caller]
fn lines(arguments: &[&str]) -> Vec<String> {
    let (code, text) = said(arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text.lines().map(str::to_owned).collect()
}

/// - given: three dead jobs of a queue, of a type that the program does not know
/// - when: they are listed and shown; one is revived, and another one discarded, and then all others
///   are
/// - then: each has its id, attempts and reason; the revived job is queued under its id, and the
///   others are gone; a number that is not there and an unknown queue are errors
#[test]
fn fleet_370_the_dead_by_the_program_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let open = |fleet: &Fleet<'_>| fleet.queue::<(String, u32)>("mill").open();
            let queue = open(&Fleet::connect(s, &url)?)?;
            // A worker that has gone when the program is called.
            ecru::scope(|s| {
                let jobs = open(&Fleet::connect(s, &url)?)?.jobs(1)?;
                for number in 0..3 {
                    queue.send_keyed(&format!("sack {number}"), ("rye".into(), number))?;
                    jobs.recv()?.bury(&format!("mouldy\x1b {number}"))?;
                }
                Ok::<(), std::io::Error>(())
            })?;
            let list = lines(&["dead", "list", "mill", &url]);
            assert_eq!(list.len(), 3, "{list:?}");
            for (number, line) in list.iter().enumerate() {
                let words = [&format!("sack {number}"), "1 attempts", "mouldy"];
                assert!(words.iter().all(|word| line.contains(word)), "{line}");
                assert!(!line.contains('\x1b'), "{line:?}");
            }
            let shown = lines(&["dead", "show", "mill", "2", &url, "--json"]).concat();
            assert!(shown.contains(r#""data":["rye",1]"#), "{shown}");
            let found = lines(&["job", "mill", "sack 1", &url, "--json"]).concat();
            assert!(found.contains(r#""state":"dead""#), "{found}");

            lines(&["dead", "revive", "mill", "2", &url]);
            let found = lines(&["job", "mill", "sack 1", &url, "--json"]).concat();
            assert!(found.contains(r#""state":"queued""#), "{found}");
            assert_eq!(queue.send_keyed("sack 1", ("oats".into(), 0))?, Sent::Already);
            let (code, text) = said(&["dead", "show", "mill", "2", &url]);
            assert!(code == 2 && text.contains("no dead job with the number 2"), "{text}");
            lines(&["dead", "discard", "q_mill", "1", &url]);
            assert_eq!(lines(&["dead", "revive", "mill", "--all", &url]).len(), 1);
            assert_eq!(lines(&["dead", "list", "mill", &url]), [""; 0]);
            let stats = queue.stats()?;
            assert_eq!((stats.queued, stats.dead), (2, 0));
            let (code, text) = said(&["dead", "list", "none", &url]);
            assert!(code == 2 && text.contains("no queue and no function"), "{text}");
            let (code, text) = said(&["job", "mill", "none", &url]);
            assert!(code == 2 && text.contains("it may be done"), "{text}");
            Ok::<(), std::io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue with a job
/// - when: it is paused and drained, and resumed
/// - then: no job is handed out until then, and `drain` returns as none is running
#[test]
fn fleet_371_pauses_by_the_program_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &url)?.queue::<u32>("mill").open()?;
            lines(&["pause", "mill", "--for", "3600", &url]);
            queue.send(7)?;
            let jobs = queue.jobs(1)?;
            lines(&["drain", "mill", &url]);
            let stats = queue.stats()?;
            assert_eq!((stats.queued, stats.running), (1, 0));
            lines(&["resume", "mill", &url]);
            let job = jobs.recv()?;
            assert_eq!(*job, 7);
            let found = lines(&["job", "mill", job.id().as_str(), &url, "--json"]).concat();
            assert!(found.contains("running"), "{found}");
            job.done()?;
            Ok::<(), std::io::Error>(())
        })
    })
    .unwrap();
}
