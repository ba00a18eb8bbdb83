//! Settings that processes change at the same time, and processes that end meanwhile.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ecru_fleet::{Fleet, Queue, Update};
use ecru_nats::Client;
use ecru_nats::jetstream::{ConsumerConfig, JetStream, StreamConfig};

use crate::child::Killed;
use crate::server::Server;

const JOBS: &str = "fleet-jobs-q_mill";
/// Where a child finds the server, which one it is, and the first number that it stores.
const CHANGER: &str = "ECRU_FLEET_CHANGER";
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn queue(url: &str, body: impl FnOnce(&Queue<u32>) -> io::Result<()>) -> io::Result<()> {
    ecru::scope(|s| {
        let fleet = Fleet::connect(s, url)?;
        fleet.on_warning(|_| {});
        body(&fleet.queue("mill").open()?)
    })
}

fn on_server(url: &str, body: impl FnOnce(&JetStream)) {
    ecru::scope(|s| body(&Client::connect(s, url).unwrap().jetstream()));
}

/// Returns the two parts that have the settings.
fn parts(js: &JetStream) -> (StreamConfig, ConsumerConfig) {
    let workers = js.consumer(JOBS, "workers").unwrap().info().unwrap().config;
    (js.stream_info(JOBS).unwrap().config, workers)
}

/// What a child of the test does: it changes settings until it is killed. The first one changes the
/// limit, and the others two settings together.
#[test]
fn changing_process() {
    let Ok(text) = std::env::var(CHANGER) else { return };
    let [url, kind, first] = *text.split(' ').collect::<Vec<_>>() else { panic!("{text}") };
    let (kind, first): (u64, u64) = (kind.parse().unwrap(), first.parse().unwrap());
    ecru::run(|| {
        queue(url, |queue| {
            for number in first.. {
                let update = match kind {
                    0 => Update::new().limit(number.try_into().unwrap()),
                    kind => {
                        // No two of them have the same.
                        let number = 2 * number + kind % 2;
                        Update::new().lease(Duration::from_secs(number)).capacity(number)
                    }
                };
                queue.update(update)?;
                println!("told {kind} {number}");
            }
            Ok(())
        })
    })
    .unwrap();
}

/// - given: three processes that change the limit of a queue, or its lease and its capacity together,
///   again and again
/// - when: all of them are killed, and another process opens the queue, again and again
/// - then: the limit is the last one that its process was told of, or the next one, and the lease and
///   the capacity are those of one change
#[test]
fn fleet_383_killed_while_settings_change_slow() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        let mut limit = 1;
        for round in 0..8 {
            let begin = |kind: u64| {
                let child = Command::new(std::env::current_exe()?)
                    .args(["--exact", "settings::changing_process", "--nocapture"])
                    .env(CHANGER, format!("{} {kind} {limit}", server.url()))
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()?;
                Ok::<_, io::Error>(Killed(child))
            };
            let mut children = [begin(0)?, begin(1)?, begin(2)?];
            let (tell, told) = mpsc::channel();
            for child in &mut children {
                let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
                let tell = tell.clone();
                std::thread::spawn(move || {
                    for line in lines.map_while(Result::ok) {
                        let Some((_, told)) = line.split_once("told ") else { continue };
                        let _ = tell.send(told.to_owned());
                    }
                });
            }
            drop(tell);
            // After a few changes of the limit, whatever the others do at that moment.
            let mut changes = 0;
            let mut note = |told: String| {
                if let Some(("0", number)) = told.split_once(' ') {
                    limit = number.parse().unwrap();
                    changes += 1;
                }
                changes
            };
            while note(told.recv().unwrap()) < 1 + round % 4 {}
            drop(children);
            for told in told {
                note(told);
            }
            queue(&server.url(), |_| Ok(()))?;
            on_server(&server.url(), |js| {
                let (jobs, workers) = parts(js);
                let found = u64::try_from(workers.max_ack_pending.unwrap()).unwrap();
                assert!([limit, limit + 1].contains(&found), "{found} is not {limit}");
                let lease = workers.ack_wait.unwrap().as_secs();
                let pair = (lease, jobs.max_messages.unwrap_or(lease));
                assert_eq!(pair.0, pair.1, "round {round}");
                limit = found + 1;
            });
        }
        Ok::<(), io::Error>(())
    })
    .unwrap();
}

/// - given: a queue whose settings were changed
/// - when: a program that has read a part before stores it now, and another process opens the queue;
///   then an operator changes the same part
/// - then: the settings are those before; and those of the operator stay, whatever else is changed
#[test]
fn fleet_384_late_programs_and_operators() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        on_server(&server.url(), |js| {
            queue(&server.url(), |queue| {
                let (jobs, workers) = parts(js);
                queue.update(Update::new().capacity(7).limit(3).priorities())?;
                js.update_stream(&jobs).unwrap();
                js.update_consumer(JOBS, &workers).unwrap();
                assert_eq!(parts(js).0.max_messages, None);
                Ok(())
            })
            .unwrap();
            queue(&server.url(), |_| Ok(())).unwrap();
            let (jobs, workers) = parts(js);
            assert_eq!((jobs.max_messages, workers.max_ack_pending), (Some(7), Some(3)));
            assert!(workers.filter_subject.is_some() && jobs.subjects.len() == 4);

            js.update_stream(&StreamConfig { max_messages: Some(9), ..jobs }).unwrap();
            let lease = Some(Duration::from_secs(11));
            js.update_consumer(JOBS, &ConsumerConfig { ack_wait: lease, ..workers }).unwrap();
            for limit in [4, 5] {
                queue(&server.url(), |queue| queue.update(Update::new().limit(limit))).unwrap();
                let (jobs, workers) = parts(js);
                assert_eq!((jobs.max_messages, workers.ack_wait), (Some(9), lease));
                assert_eq!(workers.max_ack_pending, Some(i64::try_from(limit).unwrap()));
            }
        });
    });
}

/// - given: a queue
/// - when: the servers refuse a part of a change, or the queue is deleted and created again
/// - then: nothing of the change is in force, and later changes are not held up; the new queue has
///   nothing of the old one
#[test]
fn fleet_385_refused_changes_leave_nothing() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        on_server(&server.url(), |js| {
            queue(&server.url(), |queue| {
                let impossible = Update::new().replicas(3).limit(2).capacity(5);
                let error = queue.update(impossible).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
                assert!(error.to_string().contains("refuse"), "{error}");
                let (jobs, workers) = parts(js);
                assert_eq!((jobs.replicas, jobs.max_messages), (1, None));
                assert_eq!(workers.max_ack_pending, Some(-1));
                queue.update(Update::new().capacity(6))
            })
            .unwrap();
            assert_eq!(parts(js).0.max_messages, Some(6));
            js.delete_stream(JOBS).unwrap();
            queue(&server.url(), |_| Ok(())).unwrap();
            assert_eq!(parts(js).0.max_messages, None);
            queue(&server.url(), |queue| queue.update(Update::new().limit(8))).unwrap();
            let (jobs, workers) = parts(js);
            assert_eq!((jobs.max_messages, workers.max_ack_pending), (None, Some(8)));
        });
    });
}

/// - given: a user who may not create, change or record anything of settings
/// - when: it opens a queue, one that has priorities, and one with a change that its process has not
///   finished, without settings and with others
/// - then: it works on jobs with the settings that are in force; its own settings are refused, and
///   leave nothing behind
#[test]
fn fleet_386_a_user_who_may_only_work() {
    let config = "authorization { users: [ { user: all, password: p }
        { user: some, password: p, permissions: { publish: { deny: [
            \"$JS.API.STREAM.CREATE.>\", \"$JS.API.STREAM.UPDATE.>\",
            \"$JS.API.CONSUMER.CREATE.>\", \"fleet.attempts.*.=settings.*\" ] } } } ] }";
    let Some(server) = Server::start(config) else { return };
    let [all, some] = ["all", "some"].map(|user| format!("nats://{user}:p@{}", server.address()));
    let works = || {
        queue(&some, |queue| {
            queue.send(7)?;
            let job = ecru::timeout(LONG, || queue.jobs(1)?.recv().map_err(io::Error::from))??;
            job.done()?;
            let error = queue.update(Update::new().limit(2)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            Ok(())
        })
        .unwrap();
    };
    ecru::run(|| {
        queue(&all, |_| Ok(())).unwrap();
        works();
        on_server(&all, |js| {
            let (jobs, _) = parts(js);
            queue(&all, |queue| queue.update(Update::new().limit(5).priorities())).unwrap();
            works();
            // As if the process had ended before it stored the second part.
            js.update_stream(&StreamConfig { subjects: parts(js).0.subjects, ..jobs }).unwrap();
            works();
            queue(&all, |_| Ok(())).unwrap();
            assert_eq!(parts(js).1.max_ack_pending, Some(5));
        });
    });
}
