//! What changes while a fleet works: settings, room on the servers, the consumer, releases.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{Fleet, Job};
use ecru_nats::Client;
use ecru_nats::jetstream::StreamConfig;

use crate::server::Server;
use crate::tool::said;

const SOON: Duration = Duration::from_millis(10);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn run(server: &Server, program: impl FnOnce(&Fleet<'_>) -> io::Result<()>) {
    let body = || ecru::scope(|s| program(&Fleet::connect(s, &server.url())?));
    ecru::run(|| ecru::timeout(LONG, body)?).unwrap();
}

fn streams(server: &Server, program: impl FnOnce(&Client) -> Result<(), ecru_nats::Error>) {
    ecru::scope(|s| program(&Client::connect(s, &server.url())?)).unwrap();
}

/// Collects the warnings of a fleet.
fn warnings(fleet: &Fleet<'_>) -> impl Fn() -> Vec<String> + use<> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&told);
    fleet.on_warning(move |text| own.lock().unwrap().push(text.to_owned()));
    move || told.lock().unwrap().clone()
}

fn until(mut is_true: impl FnMut() -> bool) -> io::Result<()> {
    while !is_true() {
        ecru::sleep(SOON)?;
    }
    Ok(())
}

/// - given: a process that works on a job of a queue with a limit, and other jobs that are queued
/// - when: another process opens the queue with another lease and limit
/// - then: both processes are warned with the old values and the new ones; more jobs run at once,
///   and none that takes three of the new leases is handed out again
#[test]
fn fleet_92_settings_change_while_jobs_run_slow() {
    let Some(server) = Server::start("") else { return };
    let (old, new) = (15 * SECOND, 2 * SECOND);
    run(&server, |fleet| {
        let told = warnings(fleet);
        let queue = fleet.queue::<u32>("mill").lease(old).limit(1);
        let queue = queue.retry(Delay::Constant(SOON)).open()?;
        for number in 0..3 {
            queue.send(number)?;
        }
        let jobs = queue.jobs(3)?;
        let first = jobs.recv()?;
        run_beside(&server, |other| {
            let other_told = warnings(other);
            other.queue::<u32>("mill").lease(new).limit(3).open()?;
            for (fleet, told) in [("own", &told as &dyn Fn() -> _), ("other", &other_told)] {
                for words in ["the lease was 15s and is 2s", "the limit was 1 and is 3"] {
                    let is_told = || told().iter().any(|text: &String| text.contains(words));
                    until(is_told).map_err(|error| {
                        io::Error::other(format!("{fleet}: {error}: {:?}", told()))
                    })?;
                }
            }
            // What is not named stays.
            let warned = other_told().len();
            other.queue::<u32>("mill").open()?;
            assert_eq!(other_told().len(), warned);
            Ok(())
        })?;
        let work = |job: Job<u32>| {
            assert!(job.run(|_| ecru::sleep(3 * new))?.is_ok());
            assert_eq!(job.attempt(), 1);
            job.done().map_err(io::Error::from)
        };
        ecru::scope(|s| {
            let all = [first, jobs.recv()?, jobs.recv()?].map(|job| s.spawn(|| work(job)));
            for one in all {
                one.join().expect("it does not panic")?;
            }
            let stats = queue.stats()?;
            assert_eq!((stats.queued, stats.running, stats.dead), (0, 0, 0));
            Ok(())
        })
    });
}

fn run_beside(
    server: &Server,
    program: impl FnOnce(&Fleet<'_>) -> io::Result<()>,
) -> io::Result<()> {
    ecru::scope(|s| program(&Fleet::connect(s, &server.url())?))
}

/// - given: a server, and an account, without room for more than a few results
/// - when: a function is mapped whose results are larger, and after a while there is room
/// - then: the results that cannot be stored wait, and each item runs once; the worker tells once
///   that there is no room, in a warning and by `stats`, and the doctor has a line about it until
///   there is room; no item is dead, and the map ends
#[test]
fn fleet_93_no_room_for_results_slow() {
    no_room("jetstream { max_file_store: 8MB }");
    // The server has room, and its account has none.
    no_room(
        "jetstream {}\nno_auth_user: fleet\naccounts { A {
            jetstream: { max_file: 8MB }, users: [{ user: fleet, password: hush }] } }",
    );
}

/// Maps items on a server with room for eight megabytes.
fn no_room(limits: &str) {
    const ITEMS: u32 = 24;
    let Some(server) = Server::start_without_streams(limits) else { return };
    run(&server, |fleet| {
        let told = warnings(fleet);
        let runs = Arc::new(AtomicU32::new(0));
        let own = Arc::clone(&runs);
        let body = move |n: u32, _run: &ecru_fleet::Run| {
            own.fetch_add(1, Ordering::Relaxed);
            Ok("x".repeat(100_000) + &n.to_string())
        };
        let large =
            fleet.function("large", body).attempts(2).retry(Delay::Constant(SOON)).open()?;
        streams(&server, |client| {
            let js = client.jetstream();
            let subjects = vec!["sand.>".to_owned()];
            js.create_stream(&StreamConfig { subjects, ..StreamConfig::new("SAND") })?;
            // As much as leaves room for some of the results.
            for _ in 0..13 {
                js.publish("sand.grain", "x".repeat(500_000))?;
            }
            Ok(())
        });
        ecru::scope(|s| {
            let serving = large.clone();
            s.spawn_daemon(move || serving.serve(8));
            let results = large.map("run", 0..ITEMS)?;
            until(|| large.stats().is_ok_and(|stats| stats.waiting_for_room > 0))?;
            // Long enough for several attempts to store them.
            ecru::sleep(SECOND)?;
            let has_no_room = |text: &String| text.contains("no room for results");
            assert_eq!(told().into_iter().filter(has_no_room).count(), 1, "{:?}", told());
            const LINE: &str = "results of the function large wait in 1 processes";
            let url = server.url();
            let examine = || ecru::unblock(|| said(&["doctor", &url, "--timeout", "60"])).1;
            let text = examine();
            assert!(text.contains(LINE), "{text}");
            streams(&server, |client| client.jetstream().delete_stream("SAND"));
            for (n, result) in results.enumerate() {
                assert!(result?.ends_with(&format!("x{n}")));
            }
            assert_eq!(runs.load(Ordering::Relaxed), ITEMS);
            until(|| {
                let stats = large.stats().unwrap_or_default();
                stats.waiting_for_room == 0 && stats.running == 0 && stats.dead == 0
            })?;
            // The server learns of it after the process has counted.
            until(|| !examine().contains(LINE))
        })
    });
}

/// - given: a worker, and an idle queue
/// - when: another program deletes the consumer, twice
/// - then: the worker gets the next job, and the queue answers
#[test]
fn fleet_94_a_deleted_consumer() {
    let Some(server) = Server::start("") else { return };
    run(&server, |fleet| {
        let queue = fleet.queue::<u32>("mill").lease(3 * SECOND).limit(7).open()?;
        let jobs = queue.jobs(2)?;
        let delete =
            |client: &Client| client.jetstream().consumer("fleet-jobs-q_mill", "workers")?.delete();
        for number in 0..2 {
            streams(&server, delete);
            queue.send(number)?;
            let job = jobs.recv()?;
            assert_eq!(*job, number);
            job.done()?;
        }
        drop(jobs);
        streams(&server, delete);
        let stats = queue.stats()?;
        assert_eq!((stats.queued, stats.running), (0, 0));
        streams(&server, |client| {
            let found = client.jetstream().consumer("fleet-jobs-q_mill", "workers")?.info()?;
            assert_eq!(found.config.ack_wait, Some(3 * SECOND));
            assert_eq!(found.config.max_ack_pending, Some(7));
            Ok(())
        });
        Ok(())
    });
}

/// - given: a job of another release, whose form this one does not know
/// - when: it is handed out
/// - then: it goes back with a pause, with one warning; it is dead after the queue's attempts, and
///   the reason says which version it has
#[test]
fn fleet_95_a_job_of_another_release() {
    let Some(server) = Server::start("") else { return };
    run(&server, |fleet| {
        let told = warnings(fleet);
        let queue = fleet.queue::<u32>("mill").attempts(3).retry(Delay::Constant(SOON)).open()?;
        streams(&server, |client| {
            let job = r#"{"v":2,"data":7}"#;
            client.jetstream().publish("fleet.jobs.q_mill.new", job).map(drop)
        });
        let jobs = queue.jobs(1)?;
        until(|| queue.stats().is_ok_and(|stats| stats.dead == 1))?;
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.attempts(), dead.id().as_str()), (3, "new"));
        assert!(dead.reason().contains("version 2"), "{}", dead.reason());
        let [warning] = &told()[..] else { panic!("{:?}", told()) };
        assert!(warning.contains("version 2") && warning.contains("mill"), "{warning}");
        assert!(jobs.try_recv().is_err());
        Ok(())
    });
}

/// - given: a queue that an earlier release has created, whose stream allows no batches
/// - when: a batch is sent
/// - then: it is stored, and the stream allows batches from then on
#[test]
fn fleet_97_a_batch_for_an_older_queue() {
    let Some(server) = Server::start("") else { return };
    run(&server, |fleet| {
        let queue = fleet.queue::<u32>("mill").open()?;
        streams(&server, |client| {
            let jetstream = client.jetstream();
            let config = jetstream.stream_info("fleet-jobs-q_mill")?.config;
            assert!(config.allow_batches);
            jetstream.update_stream(&StreamConfig { allow_batches: false, ..config })?;
            Ok(())
        });
        for _ in 0..2 {
            assert_eq!(queue.send_all(0..10)?.len(), 10);
        }
        assert_eq!(queue.stats()?.queued, 20);
        Ok(())
    });
}
