//! Priorities on real servers: by the program, on the page, and in a cluster.

use std::io;
use std::time::Duration;

use ecru_fleet::{Fleet, Progress, Queue, SendError, Sent};
use ecru_nats::Client;

use crate::browser::Browser;
use crate::cluster::{Cluster, until};
use crate::server::Server;
use crate::tool::said;
use crate::web::Page;

/// Runs the program, which succeeds, and returns what it has written.
#[track_caller]
fn text(arguments: &[&str]) -> String {
    let (code, text) = said(arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Waits until the servers know of so many queued jobs of each priority.
fn until_queued(queue: &Queue<u32>, wanted: [u64; 4]) -> io::Result<()> {
    while queue.stats()?.queued_by_priority != wanted {
        ecru::sleep(Duration::from_millis(5))?;
    }
    Ok(())
}

/// - given: a queue with priorities that is paused, with jobs of several priorities and a dead one
/// - when: the program shows the queues, a job, the dead and metrics, revives the dead job, drains
///   the queue and examines the servers
/// - then: all have the priorities, the job is queued with its own, and nothing is wrong
#[test]
fn fleet_379_priorities_by_the_program_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let queue = fleet.queue::<u32>("mill").priorities().limit(9).open()?;
            queue.priority(2).send_keyed("sack 1", 7)?;
            ecru::scope(|s| {
                let other = Fleet::connect(s, &url)?.queue::<u32>("mill").open()?;
                other.jobs(1)?.recv()?.bury("mouldy")?;
                Ok::<(), io::Error>(())
            })?;
            text(&["pause", "mill", &url]);
            queue.priority(3).send_keyed("sack 2", 8)?;
            queue.send_all([1, 2])?;
            until_queued(&queue, [2, 0, 0, 1])?;
            let top = text(&["top", "--once", &url]);
            assert!(top.contains("BY PRIORITY") && top.contains("2+0+0+1"), "{top}");
            assert!(top.contains("paused"), "{top}");
            let top = text(&["top", "--once", "--json", &url]);
            assert!(top.contains(r#"{"queued":1,"running":0}]"#), "{top}");
            for metrics in [text(&["metrics", &url]), fleet.metrics()?] {
                let line = r#"fleet_priority_jobs{kind="queue",name="mill",priority="3",state="queued"} 1"#;
                assert!(metrics.contains(line), "{metrics}");
            }
            let found = text(&["job", "mill", "sack 2", &url, "--json"]);
            assert!(found.contains(r#""priority":3"#) && found.contains("queued"), "{found}");
            let dead = text(&["dead", "show", "mill", "1", &url, "--json"]);
            assert!(dead.contains(r#""priority":2"#), "{dead}");

            queue.priority(1).send_keyed("sack 1", 9)?;
            let (code, refused) = said(&["dead", "revive", "mill", "1", &url]);
            assert!(code == 2 && refused.contains("stays among the dead"), "{refused}");
            queue.cancel(&ecru_fleet::JobId::from_key("sack 1")?)?;
            text(&["dead", "revive", "mill", "1", &url]);
            until_queued(&queue, [2, 0, 1, 1])?;
            text(&["drain", "mill", &url]);
            text(&["resume", "mill", &url]);
            assert_eq!(text(&["repair", "mill", &url]), "");
            let (_, health) = said(&["doctor", &url, "--timeout", "60"]);
            assert!(!health.contains("is missing") && !health.contains("listed"), "{health}");
            let jobs = queue.jobs(1)?;
            for expected in [1, 2, 7, 8] {
                let job = jobs.recv()?;
                assert_eq!(*job, expected);
                job.done()?;
            }
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue with priorities, jobs of several priorities, a dead one, and one that runs and
///   has reported how far it is
/// - when: a browser opens the page and chooses the queue
/// - then: it shows how many jobs each priority has, the progress of the one that runs, and its
///   priority
#[test]
fn fleet_378_priorities_and_progress_in_a_browser_slow() {
    let Some(server) = Server::start("") else { return };
    let Some(mut browser) = Browser::start("priorities") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let hour = Duration::from_secs(3600);
            let queue = Fleet::connect(s, &url)?.queue::<u32>("mill").priorities();
            let queue = queue.lease(hour).open()?;
            queue.priority(2).send_keyed("sack 0", 0)?;
            queue.jobs(1)?.recv()?.bury("the oats are mouldy")?;
            queue.priority(1).send_keyed("sack 1", 1)?;
            // This one has not waited for jobs of any priority, so it asks for no other one.
            let jobs = queue.jobs(1)?;
            let job = jobs.recv()?;
            queue.priority(3).send_all(0..3)?;
            until_queued(&queue, [0, 0, 0, 3])?;
            job.run(|_| {
                job.progress(&Progress::new(30, 120).with_text("grinding"));
                // What the browser is asked blocks the thread.
                while queue.progress().unwrap().is_empty() {
                    ecru::sleep(Duration::from_millis(5)).unwrap();
                }
                let page = Page::serve(&url, &["--allow-changes"]);
                browser.open(&page.url());
                browser.wait_for("document.querySelector('#queues tbody button')?.textContent === 'mill'");
                browser.evaluate("document.querySelector('#queues tbody button').click()");
                browser.wait_for("document.querySelector('#dead tbody')?.textContent.includes('mouldy')");
                browser.wait_for("document.querySelector('#running tbody')?.textContent.includes('25 % grinding')");
                browser.wait_for("document.querySelector('#queues tbody tr').textContent.includes('1 at 25 %')");
                let cells = "[...document.querySelector('#running tbody tr').cells].map(c => c.innerText.trim()).slice(0, 4)";
                let cells = browser.evaluate(cells);
                assert_eq!(cells, serde_json::json!(["sack 1", "1", "25 % grinding", "1"]));
                let ranks = "[...document.querySelectorAll('#ranks tbody tr')].map(r => r.innerText.trim().split(/\\s+/).join(' '))";
                assert_eq!(browser.evaluate(ranks), serde_json::json!(["0 0 0", "1 0 1", "2 0 0", "3 3 0"]));
                let bar = "document.querySelector('#running tbody progress').value";
                assert_eq!(browser.evaluate(bar), 25);
                // The picture of the documents.
                if let Some(path) = std::env::var_os("ECRU_SCREENSHOT") {
                    std::fs::write(path, browser.picture()).unwrap();
                }
                assert_eq!(browser.said(), [""; 0]);
            })?;
            job.done()?;
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue with priorities and three replicas
/// - when: many tasks send jobs of the same keys with different priorities at the same time
/// - then: one job of each key is stored, and its sender alone is told that it is new
#[test]
fn fleet_365_keys_of_several_priorities_slow() {
    let Some(cluster) = Cluster::start(3, "") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            let queue = until(|| fleet.queue::<u32>("mill").priorities().replicas(3).open());
            for round in 0..10 {
                let new = ecru::scope(|s| {
                    let senders: Vec<_> = (0..8)
                        .map(|sender| {
                            let queue = queue.priority(sender % 4);
                            s.spawn(move || send(&queue, &format!("key {round}"), sender.into()))
                        })
                        .collect();
                    senders.into_iter().filter(|sender| sender.join().unwrap()).count()
                });
                assert_eq!(new, 1, "round {round}");
            }
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            assert_eq!(js.stream_info("fleet-jobs-q_mill")?.state.messages, 10);
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// Sends a job. Returns whether it is new.
fn send(queue: &Queue<u32>, key: &str, job: u32) -> bool {
    let mut sent = queue.send_keyed(key, job);
    loop {
        match sent {
            Ok(Sent::New(_)) => return true,
            Ok(Sent::Already) => return false,
            Err(SendError::Unknown { job, id }) => sent = queue.send_again(&id, job),
            Err(error) => panic!("{error}"),
        }
    }
}

/// - given: a queue, with priorities and without
/// - when: jobs are sent in a trace, one by one and in a batch
/// - then: their messages have the trace in a header, and so has the worker
#[test]
fn fleet_367_traces_on_servers() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let plain = fleet.queue::<u32>("plain").open()?;
            let ranked = fleet.queue::<u32>("ranked").priorities().open()?.priority(2);
            let js = Client::connect(s, &url)?.jetstream();
            for (queue, subject) in
                [(plain, "fleet.jobs.q_plain.>"), (ranked, "fleet.jobs-2.q_ranked.>")]
            {
                ecru_fleet::in_trace(&format!("00-{TRACE}-00f067aa0ba902b7-01"), || {
                    queue.send(1)?;
                    queue.send_all([2]).map_err(io::Error::other)
                })?;
                let stream = format!("fleet-jobs-q_{}", queue.name());
                for number in 1..=2 {
                    let stored = js.next_message(&stream, number, subject)?.unwrap();
                    let header = stored.headers.get("traceparent").unwrap();
                    assert!(header.starts_with(&format!("00-{TRACE}-")), "{header}");
                }
                for job in queue.jobs(2)?.iter().take(2) {
                    assert!(job.traceparent().is_some_and(|header| header.contains(TRACE)));
                    job.done()?;
                }
            }
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue with priorities and a limit, and a receiver
/// - when: another program deletes the consumers of a priority and of the limit
/// - then: they are made again, and jobs of all priorities come
#[test]
fn fleet_366_deleted_consumers_of_priorities_slow() {
    let Some(server) = Server::start("") else { return };
    let url = server.url();
    ecru::run(|| {
        ecru::scope(|s| {
            let queue =
                Fleet::connect(s, &url)?.queue::<u32>("mill").priorities().limit(2).open()?;
            let jobs = queue.jobs(2)?;
            queue.priority(3).send(0)?;
            jobs.recv()?.done()?;
            let js = Client::connect(s, &url)?.jetstream();
            js.consumer("fleet-jobs-q_mill", "workers-2")?.delete()?;
            js.consumer("fleet-attempts-q_mill", "permits")?.delete()?;
            for priority in 0..4 {
                queue.priority(priority).send(priority.into())?;
            }
            let mut seen = Vec::new();
            for job in jobs.iter().take(4) {
                seen.push(*job);
                job.done()?;
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3]);
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}
