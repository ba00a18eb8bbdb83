//! The commands of the program `fleet` about one queue.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ecru_fleet::{Fleet, Progress, Queue, Sent};
use ecru_nats::Client;
use ecru_nats::jetstream::Discard;

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
/// - when: they are listed and shown; one is revived, and another one discarded, and then all
///   others are
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

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn with_queue(url: &str, body: impl FnOnce(&Queue<u32>) -> io::Result<()>) {
    ecru::run(|| ecru::scope(|s| body(&Fleet::connect(s, url)?.queue("mill").open()?))).unwrap();
}

/// - given: two jobs that are done, and a server that has lost that they were removed, as after a
///   full disk
/// - when: the queue is repaired
/// - then: before, `stats` counts them apart, their keys are taken and the doctor warns; afterwards
///   the keys are free, and a job that is queued is still there
#[test]
fn fleet_372_ghosts_slow() {
    let Some(mut server) = Server::start("") else { return };
    with_queue(&server.url(), |queue| {
        queue.send_keyed("a", 1)?;
        queue.send_keyed("b", 2)?;
        Ok(())
    });
    let stored = server.data().join("jetstream/$G/streams/fleet-jobs-q_mill/msgs");
    let kept = server.data().join("kept");
    server.stop();
    copy(&stored, &kept);
    server.restart();
    with_queue(&server.url(), |queue| {
        let jobs = queue.jobs(2)?;
        for _ in 0..2 {
            let job = jobs.recv()?;
            job.run(|_| ())?;
            job.done()?;
        }
        assert_eq!(queue.stats()?.ghosts, 0);
        Ok(())
    });
    server.stop();
    fs::remove_dir_all(&stored).unwrap();
    copy(&kept, &stored);
    server.restart();
    let url = server.url();
    with_queue(&url, |queue| {
        queue.send_keyed("c", 3)?;
        let stats = queue.stats()?;
        assert_eq!((stats.ghosts, stats.queued, stats.running), (2, 1, 0));
        assert_eq!(queue.send_keyed("a", 4)?, Sent::Already);
        let (_, text) = said(&["doctor", &url, "--timeout", "60"]);
        assert!(text.contains("listed as queued") && text.contains("fleet repair mill"), "{text}");
        assert_eq!(lines(&["repair", "mill", &url]), ["a  removed", "b  removed"]);
        let stats = queue.stats()?;
        assert_eq!((stats.ghosts, stats.queued), (0, 1));
        assert!(matches!(queue.send_keyed("a", 4)?, Sent::New(_)));
        assert_eq!(queue.send_keyed("c", 4)?, Sent::Already);
        assert_eq!(lines(&["repair", "mill", &url]), [""; 0]);
        let (_, text) = said(&["doctor", &url, "--timeout", "60"]);
        assert!(!text.contains("listed as queued"), "{text}");
        Ok(())
    });
}

/// - given: a queue whose stream of jobs another program has edited
/// - when: the doctor examines it
/// - then: each edit with which jobs are lost is a failure, with what to do
#[test]
fn fleet_373_an_edited_stream_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    with_queue(&url, |_| Ok(()));
    ecru::run(|| {
        ecru::scope(|s| {
            let js = Client::connect(s, &url)?.jetstream();
            let mut config = js.stream_info("fleet-jobs-q_mill")?.config;
            config.max_age = Some(Duration::from_secs(3600));
            config.max_bytes = Some(1 << 20);
            js.update_stream(&config)?;
            let mut dead = js.stream_info("fleet-dead-q_mill")?.config;
            (dead.discard, dead.discard_new_per_subject) = (Discard::Old, false);
            js.update_stream(&dead).map(drop)
        })
    })
    .unwrap();
    let (code, text) = said(&["doctor", &url, "--timeout", "60"]);
    assert_eq!(code, 2, "{text}");
    for words in ["--max-age 0", "--max-bytes=-1", "--discard new", "--discard-per-subject"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// - given: a queue with a job, and a dead one
/// - when: the program and the fleet are asked for metrics
/// - then: both have the numbers, in the text form of OpenMetrics
#[test]
fn fleet_374_metrics_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let queue = fleet.queue::<u32>("mill").open()?;
            queue.send(1)?;
            // A worker that has gone when the next job comes.
            ecru::scope(|s| {
                let jobs = Fleet::connect(s, &url)?.queue::<u32>("mill").open()?.jobs(1)?;
                jobs.recv()?.bury("no")?;
                Ok::<(), io::Error>(())
            })?;
            queue.send(2)?;
            let program = lines(&["metrics", &url]);
            let own = fleet.metrics()?;
            let own: Vec<&str> = own.lines().collect();
            for (state, count) in [("queued", 1), ("running", 0), ("dead", 1)] {
                let labels = format!(r#"kind="queue",name="mill",state="{state}""#);
                let line = format!("fleet_jobs{{{labels}}} {count}");
                assert!(program.contains(&line), "{line}: {program:?}");
                assert!(own.contains(&&*line), "{line}: {own:?}");
            }
            assert_eq!((&*program[program.len() - 1], own[own.len() - 1]), ("# EOF", "# EOF"));
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a job that is worked on and has reported how far it is
/// - when: the program shows the queues, and the job
/// - then: both have the progress, and neither has control characters of its text
#[test]
fn fleet_377_progress_by_the_program() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &url)?.queue::<u32>("mill").open()?;
            queue.send_keyed("sack 1", 7)?;
            let top = lines(&["top", "--once", &url]).concat();
            assert!(!top.contains('%'), "{top}");
            let job = queue.jobs(1)?.recv()?;
            job.progress(&Progress::new(30, 120).with_text("grinding\x1b"));
            ecru::timeout(Duration::from_secs(60), || {
                while queue.progress()?.is_empty() {
                    ecru::sleep(Duration::from_millis(5))?;
                }
                Ok::<(), io::Error>(())
            })??;
            let top = lines(&["top", "--once", &url]).concat();
            assert!(top.contains("PROGRESS") && top.contains("1 at 25 %"), "{top}");
            let top = lines(&["top", "--once", "--json", &url]).concat();
            assert!(top.contains(r#""percent":25"#) && top.contains(r#""reporting":1"#), "{top}");
            let found = lines(&["job", "mill", "sack 1", &url, "--json"]).concat();
            let progress = r#""progress":{"done":30,"text":"grinding\u001b","total":120}"#;
            assert!(found.contains(progress), "{found}");
            let found = lines(&["job", "mill", "sack 1", &url]).concat();
            assert!(found.contains("grinding") && !found.contains('\x1b'), "{found:?}");
            job.done()?;
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}
