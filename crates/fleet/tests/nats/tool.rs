//! The program `fleet`, for the operators of servers.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ecru_fleet::Fleet;
use ecru_nats::Client;
use ecru_nats::jetstream::ConsumerConfig;

use crate::child::Killed;
use crate::cluster::{Cluster, until};
use crate::server::Server;

/// Longer than anything here takes. A time limit of the program that is not about a limit.
const LONG: &str = "60";

pub(crate) fn fleet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleet"));
    command.env_remove("FLEET_URL").env_remove("FLEET_SYSTEM_URL").stdin(Stdio::null());
    command
}

/// Runs the program, and returns its exit code and its output.
pub(crate) fn said(arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = fleet().args(arguments).output().unwrap();
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap_or_else(|| panic!("{status}: {text}")), text)
}

/// Runs the doctor.
fn doctor(url: &str, more: &[&str]) -> (i32, String) {
    let mut arguments = vec!["doctor", url, "--timeout", LONG];
    arguments.extend(more);
    said(&arguments)
}

/// Returns whether a line begins with a verdict and a check, and contains the words.
fn has(text: &str, verdict: &str, check: &str, words: &str) -> bool {
    let begin = format!("{verdict:<8} {check:<12} ");
    text.lines().any(|line| line.starts_with(&begin) && line.contains(words))
}

/// Fails unless there is such a line.
#[track_caller]
fn finds(text: &str, verdict: &str, check: &str, words: &str) {
    assert!(has(text, verdict, check, words), "no {verdict}, {check}, {words:?}:\n{text}");
}

const ACCOUNTS: &str = "
    server_name: one
    accounts {
        SYS { users: [{user: admin, password: hush}] }
        A { jetstream: enabled, users: [{user: fleet, password: hush}] }
        B { users: [{user: other, password: hush}] }
    }
    system_account: SYS";

/// - given: a server of its own, with a queue
/// - when: the doctor examines it, without and with a user of the system account
/// - then: each check has a line with the value; there is one server only, and how it writes to its
///   disk is known only in the second case; the exit code tells that there are warnings
#[test]
fn fleet_350_doctor_on_one_server() {
    for (sync, verdict, words) in [("\"2m\"", "warning", "each 2 min"), ("always", "ok", "always")]
    {
        let store = format!("{ACCOUNTS}\njetstream {{ sync_interval: {sync} }}");
        let Some(server) = Server::start_without_streams(&store) else { return };
        let url = format!("nats://fleet:hush@{}", server.address());
        ecru::run(|| {
            ecru::scope(|s| {
                Fleet::connect(s, &url)?.queue::<u32>("mill").open()?;
                Ok::<(), io::Error>(())
            })
        })
        .unwrap();
        let (code, text) = doctor(&url, &[]);
        assert_eq!(code, 1, "{text}");
        finds(&text, "ok", "reachable", &server.address());
        finds(&text, "ok", "version", " on one");
        finds(&text, "ok", "jetstream", "3 streams, 1 consumers");
        finds(&text, "warning", "replicas", "1 server");
        finds(&text, "warning", "sync", "sync_interval: always");
        finds(&text, "ok", "clock", "one is ");
        finds(&text, "ok", "stream", "jobs of the queue mill: 1 of 1 replicas");
        finds(&text, "ok", "stream", "dead jobs of the queue mill");
        finds(&text, "ok", "stream", "attempts of the queue mill");
        finds(&text, "ok", "permissions", "48 tries");
        finds(&text, "ok", "limits", "jobs of 1047552 bytes");
        assert!(text.ends_with("12 checks, 2 warnings, 0 failed\n"), "{text}");
        let system = format!("nats://admin:hush@{}", server.address());
        let (code, text) = doctor(&url, &["--system", &system]);
        assert_eq!(code, 1, "{text}");
        finds(&text, verdict, "sync", words);
        let (_, text) = doctor(&url, &["--system", &url]);
        finds(&text, "warning", "sync", "not of the system account");
        let (code, text) = doctor(&url, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["code"]), (1, &1.into()));
        assert_eq!(json["checks"][0]["verdict"], "ok");
    }
}

/// - given: no server, a wrong password, a server or an account without JetStream, and malformed
///   arguments
/// - when: the doctor is called, and `fleet top`
/// - then: the line of the check that failed says why and what to do, the exit code tells, and no
///   password is shown
#[test]
fn fleet_351_doctor_without_a_fit_server() {
    let Some(mut server) = Server::start_without_streams(ACCOUNTS) else { return };
    let place = server.address();
    let as_user = |user: &str| format!("nats://{user}@{place}");
    let (code, text) = doctor(&as_user("fleet:hush"), &[]);
    assert_eq!(code, 2, "{text}");
    finds(&text, "FAILED", "jetstream", "nats.conf");
    finds(&text, "FAILED", "replicas", "no server has JetStream");
    let (code, text) = doctor(&as_user("fleet:sawdust"), &[]);
    assert_eq!(code, 2, "{text}");
    finds(&text, "FAILED", "reachable", "refused");
    assert!(!text.contains("sawdust"), "{text}");
    server.kill();
    for command in ["doctor", "top"] {
        let (code, text) = said(&[command, &as_user("fleet:sawdust")]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(&place) && !text.contains("sawdust"), "{text}");
    }
    for arguments in [&["doctor", "--fast"][..], &["bottom"], &[]] {
        let (code, text) = said(arguments);
        assert_eq!(code, 64, "{text}");
        assert!(text.contains("fleet doctor [URLS]"), "{text}");
    }
    assert_eq!(said(&["--help"]).0, 0);

    let streams = format!("jetstream {{}}\n{ACCOUNTS}");
    let Some(server) = Server::start_without_streams(&streams) else { return };
    let (code, text) = doctor(&format!("nats://other:hush@{}", server.address()), &[]);
    assert_eq!(code, 2, "{text}");
    finds(&text, "FAILED", "jetstream", "jetstream: enabled");
}

/// - given: a server that is older than 2.12, accepts messages of 1,000 bytes only, and has a clock
///   that is an hour behind
/// - when: the doctor examines it
/// - then: each of the three has a line
#[test]
fn fleet_352_doctor_on_an_old_server() {
    let (address, server) = old_server();
    let (code, text) = doctor(&format!("nats://{address}"), &[]);
    assert_eq!(code, 2, "{text}");
    finds(&text, "FAILED", "version", "2.11.9 on old; a fleet needs 2.12");
    finds(&text, "FAILED", "clock", "old is 3");
    finds(&text, "FAILED", "jetstream", "does not answer");
    // It ends with its connection.
    server.join().unwrap().unwrap();
}

/// Serves one connection as an old server does: nothing listens to any subject but the one for the
/// connections of the account.
fn old_server() -> (String, std::thread::JoinHandle<io::Result<()>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let (stream, _) = listener.accept()?;
        let mut out = stream.try_clone()?;
        out.write_all(
            b"INFO {\"version\":\"2.11.9\",\"server_name\":\"old\",\"headers\":true,\
              \"jetstream\":true,\"max_payload\":1000}\r\n",
        )?;
        let mut subscriptions: Vec<(String, String)> = Vec::new();
        let lines = BufReader::new(stream).lines();
        for line in lines {
            // The client has seen enough.
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["PING"] => out.write_all(b"PONG\r\n")?,
                ["SUB", subject, sid] => subscriptions.push((subject.into(), sid.into())),
                ["PUB" | "HPUB", subject, reply, ..] => {
                    let prefix = |pattern: &str| pattern.trim_end_matches('*').to_owned();
                    let found =
                        subscriptions.iter().rfind(|one| reply.starts_with(&prefix(&one.0)));
                    let sid = &found.unwrap().1;
                    if subject == "$SYS.REQ.ACCOUNT.PING.CONNZ" {
                        let hour = std::time::SystemTime::now() - Duration::from_secs(3600);
                        let seconds = hour.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
                        let (day, time) = (seconds / 86_400, seconds % 86_400);
                        let report = format!(
                            "{{\"server\":{{\"name\":\"old\",\"ver\":\"2.11.9\",\"time\":\"{}\"}}}}",
                            format_args!("{}T{}Z", date(day), clock(time))
                        );
                        let length = report.len();
                        write!(out, "MSG {reply} {sid} {length}\r\n{report}\r\n")?;
                    } else {
                        write!(out, "HMSG {reply} {sid} 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    };
    (address, std::thread::spawn(serve))
}

/// Writes a day after 1970, by counting.
fn date(mut days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// - given: users who may not store results, may not hear of cancellations, may do only what a
///   queue without priorities needs, or hear no answers
/// - when: the doctor tries what a fleet does
/// - then: the lines name what is forbidden and the permission that is missing, and nothing was
///   stored
#[test]
fn fleet_353_doctor_on_permissions() {
    let config = "authorization { users: [
        { user: all, password: p }
        { user: reader, password: p, permissions: { publish: { deny: \"$KV.>\" } } }
        { user: plain, password: p, permissions: { publish: { deny: [
            \"fleet.jobs-1.>\", \"fleet.jobs-2.>\", \"fleet.jobs-3.>\", \"$JS.API.*.*.*.workers-1\",
            \"$JS.API.CONSUMER.MSG.NEXT.*.workers-3\", \"$JS.ACK.*.permits.>\",
            \"$JS.API.STREAM.UPDATE.*\" ] } } }
        { user: deaf, password: p, permissions: { subscribe: { deny: \"fleet.cancel.*\" } } }
        { user: mute, password: p, permissions: { publish: \"fleet.>\", subscribe: \"fleet.>\" } }
        { user: worker, password: p, permissions: { publish: { deny: \"$SYS.>\" } } } ] }";
    let Some(server) = Server::start(config) else { return };
    let examine = |user: &str| doctor(&format!("nats://{user}:p@{}", server.address()), &[]);
    ecru::run(|| {
        ecru::scope(|s| {
            // A stream that would store all that is tried.
            let client = Client::connect(s, &format!("nats://all:p@{}", server.address()))?;
            let js = client.jetstream();
            js.create_stream(&ecru_nats::jetstream::StreamConfig {
                subjects: vec!["fleet.>".into(), "$KV.>".into()],
                ..ecru_nats::jetstream::StreamConfig::new("EVERYTHING")
            })?;
            let (code, text) = examine("all");
            assert_eq!(code, 1, "{text}");
            finds(&text, "ok", "permissions", "48 tries");
            let (code, text) = examine("reader");
            assert_eq!(code, 2, "{text}");
            finds(&text, "FAILED", "permissions", "may not store results");
            finds(&text, "FAILED", "permissions", "permit it to publish to $KV.> in nats.conf");
            let (code, text) = examine("plain");
            assert_eq!(code, 2, "{text}");
            for subject in ["fleet.jobs-1.>", "fleet.jobs-2.>", "fleet.jobs-3.>"] {
                finds(&text, "FAILED", "permissions", "may not send jobs with priorities");
                finds(
                    &text,
                    "FAILED",
                    "permissions",
                    &format!("permit it to publish to {subject}"),
                );
            }
            for purpose in
                ["open queues", "take jobs"].map(|what| format!("{what} with priorities"))
            {
                finds(&text, "FAILED", "permissions", &format!("may not {purpose}"));
            }
            finds(&text, "FAILED", "permissions", "may not keep a limit with priorities");
            finds(&text, "FAILED", "permissions", "may not change settings");
            assert!(!text.contains("may not send jobs:"), "{text}");
            let (code, text) = examine("deaf");
            assert_eq!(code, 2, "{text}");
            finds(&text, "FAILED", "permissions", "permit it to subscribe to fleet.cancel.*");
            let (code, text) = examine("mute");
            assert_eq!(code, 2, "{text}");
            finds(&text, "FAILED", "permissions", "_INBOX.>");
            let (code, text) = examine("worker");
            assert_eq!(code, 1, "{text}");
            finds(&text, "warning", "clock", "not known");
            // What announces cancellations has no stream of its own, so this one stores that.
            let stored = js.last_message("EVERYTHING", "fleet.jobs.>")?;
            assert_eq!(stored, None);
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue whose consumer another program has changed, and an account that is nearly full
/// - when: the doctor examines them
/// - then: each has a line that says what to do
#[test]
fn fleet_354_doctor_on_streams_and_limits() {
    let config = "accounts { A {
        jetstream: { max_file: 1GB, max_streams: 3, max_bytes_required: false }
        users: [{user: fleet, password: hush}] } }";
    let Some(server) = Server::start(config) else { return };
    let url = format!("nats://fleet:hush@{}", server.address());
    ecru::run(|| {
        ecru::scope(|s| {
            Fleet::connect(s, &url)?.queue::<u32>("mill").open()?;
            let js = Client::connect(s, &url)?.jetstream();
            let consumer = js.consumer("fleet-jobs-q_mill", "workers")?;
            let there = consumer.info()?.config;
            js.update_consumer(
                "fleet-jobs-q_mill",
                &ConsumerConfig { max_deliver: Some(3), ..there },
            )?;
            let (code, text) = doctor(&url, &[]);
            assert_eq!(code, 2, "{text}");
            finds(&text, "FAILED", "stream", "hands out a job 3 times at most");
            finds(&text, "FAILED", "limits", "3 of 3 streams");
            finds(&text, "ok", "limits", "of 1 GiB");
            consumer.delete()?;
            let (_, text) = doctor(&url, &[]);
            finds(&text, "warning", "stream", "the consumer workers is missing");
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a server with little room in files, and an account without a limit
/// - when: the doctor examines it, with a user of the system account, before and after the room was
///   used up
/// - then: a line has what is used and the limit, first as a good one, and then as a warning or a failure
///   that says what to do
#[test]
fn fleet_393_doctor_on_a_store_that_is_nearly_full() {
    let store = format!("{ACCOUNTS}\njetstream {{ max_file_store: 4MB, sync_interval: always }}");
    let Some(server) = Server::start_without_streams(&store) else { return };
    let url = format!("nats://fleet:hush@{}", server.address());
    let system = format!("nats://admin:hush@{}", server.address());
    let examine = || doctor(&url, &["--system", &system]).1;
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &url)?.queue::<String>("mill").open()?;
            finds(&examine(), "ok", "limits", "in files of one");
            // Each takes 100,000 bytes and a little.
            let job = "x".repeat(100_000);
            for _ in 0..36 {
                queue.send(job.clone())?;
            }
            let text = examine();
            finds(&text, "warning", "limits", "in files of one");
            assert!(text.contains("max_file_store"), "{text}");
            while queue.send(job.clone()).is_ok() {}
            // What is left is less than another job.
            let small = "x".repeat(1_000);
            while queue.send(small.clone()).is_ok() {}
            let text = examine();
            assert!(
                has(&text, "FAILED", "limits", "in files of one")
                    || has(&text, "warning", "limits", "in files of one"),
                "{text}"
            );
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue
/// - when: a process opens it with another lease, and then one with the first lease again
/// - then: the doctor warns after the second change, with both values and the process
#[test]
fn fleet_382_doctor_on_settings_that_processes_disagree_about() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let open = |lease| {
                let fleet = Fleet::connect(s, &server.url())?;
                fleet.on_warning(|_| {});
                fleet.queue::<u32>("mill").lease(Duration::from_secs(lease)).limit(7).open()
            };
            open(20)?;
            open(40)?;
            let (_, text) = doctor(&server.url(), &[]);
            assert!(!text.contains("back and forth"), "{text}");
            finds(&text, "ok", "stream", "jobs of the queue mill");
            open(20)?;
            let (code, text) = doctor(&server.url(), &[]);
            assert_eq!(code, 1, "{text}");
            let words = "the queue mill: the lease is changed back and forth, last from 40s to 20s";
            finds(&text, "warning", "settings", words);
            let process = format!("-{}-", std::process::id());
            finds(&text, "warning", "settings", &process);
            assert!(!text.contains("the limit is changed"), "{text}");
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue whose settings were changed, and a program that stores earlier ones of its
///   consumer
/// - when: the doctor looks, and again after a process has opened the queue
/// - then: it warns that the change is not finished, and then it does not
#[test]
fn fleet_388_doctor_on_a_change_that_is_not_finished_slow() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            fleet.on_warning(|_| {});
            fleet.queue::<u32>("mill").limit(3).open()?;
            let js = Client::connect(s, &server.url())?.jetstream();
            let early = js.consumer("fleet-jobs-q_mill", "workers")?.info()?.config;
            fleet.queue::<u32>("mill").limit(4).open()?;
            let (_, text) = doctor(&server.url(), &[]);
            assert!(!text.contains("not finished"), "{text}");
            js.update_consumer("fleet-jobs-q_mill", &early)?;
            let (code, text) = doctor(&server.url(), &[]);
            assert_eq!(code, 1, "{text}");
            let words = "the queue mill: a change of its settings is not finished";
            finds(&text, "warning", "settings", words);
            fleet.queue::<u32>("mill").open()?;
            let (_, text) = doctor(&server.url(), &[]);
            finds(&text, "ok", "stream", "jobs of the queue mill");
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a queue with jobs that are queued, running, running for the second time and dead, which
///   a process works on and which is paused, and a function
/// - when: `fleet top --once` shows them, as a table and as JSON
/// - then: each number is there
#[test]
fn fleet_355_top() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            assert_eq!(
                said(&["top", "--once", &server.url()]).1,
                "there are no queues and functions\n"
            );
            let fleet = Fleet::connect(s, &server.url())?;
            let hour = Duration::from_secs(3600);
            let queue = fleet.queue::<u32>("mill").lease(hour).open()?;
            fleet.function("grind", |n: u32, _| Ok(n)).open()?;
            for n in 0..6 {
                queue.send(n)?;
            }
            let jobs = queue.jobs(3)?;
            jobs.recv()?.bury("too old")?;
            let first = jobs.recv()?;
            first.retry_after(Duration::ZERO)?;
            let held: Vec<_> = jobs.iter().take(3).collect();
            // The one that was given back comes again, now or later.
            let again = held.iter().filter(|job| job.attempt() > 1).count() as u64;
            queue.pause(hour)?;
            let (code, text) = said(&["top", "--once", "--timeout", LONG, &server.url()]);
            assert_eq!(code, 0, "{text}");
            let mut lines = text.lines();
            assert!(lines.next().unwrap().starts_with("NAME   KIND      QUEUED"), "{text}");
            assert!(lines.next().unwrap().starts_with("grind  function       0"), "{text}");
            let mill = lines.next().unwrap();
            let words: Vec<&str> = mill.split_whitespace().take(4).collect();
            assert_eq!(words, ["mill", "queue", "2", "3"], "{text}");
            assert!(mill.contains("paused, 59 min"), "{text}");
            let (_, text) = said(&["top", "--once", "--json", "--timeout", LONG, &server.url()]);
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let mill = &json["queues"][1];
            let number = |name: &str| mill[name].as_u64();
            assert_eq!((number("queued"), number("running")), (Some(2), Some(3)), "{text}");
            assert_eq!((number("redelivered"), number("dead")), (Some(again), Some(1)), "{text}");
            assert_eq!((number("workers"), number("waiting")), (Some(1), Some(0)), "{text}");
            assert_eq!(json["queues"][0]["workers"], 0);
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: `fleet top`, which runs
/// - when: a job is sent, and the program is interrupted
/// - then: a later table has the job, and the program ends well
#[test]
fn fleet_356_top_goes_on_slow() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &server.url())?.queue::<u32>("mill").open()?;
            let top = fleet()
                .args(["top", "--json", "--timeout", LONG, &server.url()])
                .stdout(Stdio::piped())
                .spawn()?;
            let mut top = Killed(top);
            let mut lines = BufReader::new(top.0.stdout.take().unwrap()).lines();
            let mut queued = || {
                let json: serde_json::Value = match lines.next() {
                    Some(line) => serde_json::from_str(&line?)?,
                    None => return Ok(None),
                };
                Ok::<_, io::Error>(json["queues"][0]["queued"].as_u64())
            };
            assert_eq!(queued()?, Some(0));
            queue.send(1)?;
            while queued()? != Some(1) {}
            let id = top.0.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status()?.success());
            // So that it is not stopped by a full pipe.
            while queued().is_ok_and(|number| number.is_some()) {}
            assert!(top.0.wait()?.success());
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a cluster of three servers with a queue on one of them and another one on all
/// - when: the doctor examines it, and again after a server was killed
/// - then: there is a line for each server, and three replicas are possible; the first queue is a
///   warning; then the replica or the queue on the killed server is found
#[test]
fn fleet_357_doctor_on_a_cluster_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let fleet = until(|| Fleet::connect(s, &cluster.urls()));
            until(|| fleet.queue::<u32>("one").open());
            until(|| fleet.queue::<u32>("all").replicas(3).open());
            let js = Client::connect(s, &cluster.urls())?.jetstream();
            let leader = crate::cluster::settled(&js, "fleet-jobs-q_all");
            let urls = cluster.urls();
            // Each server learns of the clients' addresses of the others, and a replica can be
            // late.
            until(|| {
                let (code, text) = doctor(&urls, &["--timeout", "2"]);
                let each = ["n1", "n2", "n3"].iter().all(|server| {
                    has(&text, "ok", "version", &format!(" on {server}"))
                        && has(&text, "ok", "clock", server)
                });
                let one = "jobs of the queue one: 1 of 3 replicas";
                let fit = code == 1
                    && each
                    && has(
                        &text,
                        "ok",
                        "replicas",
                        "3 servers with JetStream, so .replicas(3) works",
                    )
                    && has(&text, "warning", "stream", one)
                    && has(&text, "ok", "stream", "jobs of the queue all: 3 of 3 replicas");
                if fit { Ok(()) } else { Err(text) }
            });
            cluster.kill(&leader);
            until(|| {
                // The list of streams takes 4 seconds if the server of one is gone.
                let (_, text) = doctor(&urls, &["--timeout", "10"]);
                let words = format!("jobs of the queue all: the replica on {leader}");
                if text.contains(&words) { Ok(()) } else { Err(text) }
            });
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}
