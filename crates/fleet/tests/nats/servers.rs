//! What only real servers can show.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use ecru_fleet::{Fleet, Job, LeaseLost, Queue, SendError};
use ecru_nats::{Client, Message};

use crate::child::Killed;
use crate::cluster::until;
use crate::server::Server;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Runs `body` with the address of a new server, if one is installed.
fn with_server(config: &str, body: impl FnOnce(&mut Server) -> io::Result<()>) {
    if let Some(mut server) = Server::start(config) {
        ecru::run(|| body(&mut server)).unwrap();
    }
}

fn next(queue: &Queue<u32>) -> io::Result<Job<u32>> {
    let jobs = queue.jobs(1)?;
    ecru::timeout(LONG, || jobs.recv())?.map_err(Into::into)
}

/// - given: jobs on a server, one of which is held
/// - when: the server is killed and starts again
/// - then: the clients connect again, and each job is worked on; the one that was held can be
///   settled
#[test]
fn fleet_80_a_killed_server_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let queue = fleet.queue::<u32>("mill").lease(Duration::from_secs(5)).open()?;
            for n in 0..50 {
                queue.send(n)?;
            }
            let jobs = queue.jobs(4)?;
            let held = jobs.recv()?;
            let mut worked = BTreeSet::from([*held]);
            server.kill();
            server.restart();
            held.done()?;
            while worked.len() < 50 {
                let job = ecru::timeout(LONG, || jobs.recv())??;
                worked.insert(*job);
                // Without an answer, the job comes again.
                let _ = job.done();
            }
            Ok(())
        })
    });
}

/// - given: two jobs that are held, and no room for others in the windows
/// - when: the server is killed, and does not remember that it handed them out
/// - then: one can be removed and the other one buried, and neither is handed out again
#[test]
fn fleet_86_forgotten_deliveries_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let open = |name| {
                let queue = fleet.queue::<u32>(name).open()?;
                queue.send(7)?;
                let jobs = queue.jobs(1)?;
                let job = jobs.recv()?;
                Ok::<_, io::Error>((queue, jobs, job))
            };
            let (mill, press) = (open("mill")?, open("press")?);
            server.kill();
            for queue in ["mill", "press"] {
                let consumer = format!("fleet-jobs-q_{queue}/obs/workers/o.dat");
                let file = server.data().join("jetstream/$G/streams").join(consumer);
                // Perhaps it was never written.
                assert!(std::fs::remove_file(&file).is_ok() || !file.exists());
            }
            server.restart();
            // What is asked over the lost connection fails. The next one is there when this does
            // not.
            while mill.0.stats().is_err() {
                ecru::sleep(Duration::from_millis(10))?;
            }
            let buried = s.spawn(|| press.2.bury("no grain"));
            mill.2.done()?;
            buried.join().unwrap()?;
            for (queue, jobs, dead) in [(&mill.0, &mill.1, 0), (&press.0, &press.1, 1)] {
                assert_eq!((queue.stats()?.queued, queue.stats()?.dead), (0, dead));
                queue.send(8)?;
                assert_eq!(*ecru::timeout(LONG, || jobs.recv())??, 8);
            }
            Ok(())
        })
    });
}

/// The address of the server, for the process that `fleet_81_a_killed_worker_slow` starts.
const WORKER: &str = "ECRU_FLEET_WORKER";

/// Works on a job for ever, in a process of its own.
#[test]
fn worker_process() {
    let Ok(url) = std::env::var(WORKER) else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &url)?.queue::<u32>("mill").lease(LEASE).open()?;
            let job = next(&queue)?;
            println!("works on {} for the {}. time", *job, job.attempt());
            job.run(|_| ecru::sleep(Duration::MAX))??;
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

const LEASE: Duration = Duration::from_secs(1);

/// - given: a job that another process works on, longer than its lease
/// - when: that process is killed
/// - then: the job is handed out again after the lease, and not before the process was killed
#[test]
fn fleet_81_a_killed_worker_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &server.url())?.queue::<u32>("mill").lease(LEASE);
            let queue = queue.open()?;
            queue.send(7)?;
            let worker = Command::new(std::env::current_exe()?)
                .args(["--exact", "servers::worker_process", "--nocapture"])
                .env(WORKER, server.url())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut worker = Killed(worker);
            let lines = BufReader::new(worker.0.stdout.take().unwrap()).lines();
            let said = lines.map_while(Result::ok).find(|line| line.contains("works on"));
            assert!(said.is_some_and(|said| said.ends_with("works on 7 for the 1. time")));
            ecru::sleep(2 * LEASE)?;
            assert_eq!(queue.stats()?.redelivered, 0);
            drop(worker);
            let job = next(&queue)?;
            assert_eq!((*job, job.attempt()), (7, 2));
            job.done()?;
            Ok(())
        })
    });
}

/// - given: a job that is worked on
/// - when: the server stops answering
/// - then: the work is cancelled after one lease, by the worker's own clock; when the server goes
///   on, the job is handed out again
#[test]
fn fleet_82_a_silent_server_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &server.url())?.queue::<u32>("mill").lease(LEASE);
            let queue = queue.open()?;
            queue.send(7)?;
            let job = next(&queue)?;
            let begun = ecru::time::now();
            server.signal("STOP");
            let worked = ecru::timeout(LONG, || job.run(|_| ecru::sleep(Duration::MAX)))?;
            assert_eq!(worked, Err(LeaseLost::Expired));
            assert!(ecru::time::now() - begun >= LEASE / 2);
            server.signal("CONT");
            drop(job);
            let job = next(&queue)?;
            assert_eq!(job.attempt(), 2);
            job.done()?;
            Ok(())
        })
    });
}

/// - given: a server that is older than 2.12
/// - when: a fleet connects to it
/// - then: the error names the server, its version and the one that is needed
#[test]
fn fleet_83_an_old_server() {
    use std::io::Write;

    ecru::run(|| {
        let listener = ecru::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        ecru::scope(|s| {
            s.spawn_daemon(move || {
                let (stream, _) = listener.accept()?;
                let mut out = &stream;
                out.write_all(b"INFO {\"version\":\"2.11.9\",\"headers\":true}\r\n")?;
                for line in BufReader::new(&stream).lines() {
                    if line? == "PING" {
                        out.write_all(b"PONG\r\n")?;
                    }
                }
                Ok::<(), io::Error>(())
            });
            let error = Fleet::connect(s, &format!("nats://{address}")).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            let text = error.to_string();
            assert!([&*address, "2.11.9", "2.12"].iter().all(|word| text.contains(word)), "{text}");
            Ok::<(), io::Error>(())
        })
    })
    .unwrap();
}

/// - given: a server that wants a password
/// - when: a fleet connects with it, with another one, and to a server that is not there
/// - then: it is accepted or refused, and no error shows the password
#[test]
fn fleet_84_passwords() {
    with_server("authorization { user: miller, password: flour }", |server| {
        let place = server.address();
        let connect = |urls: &str| {
            ecru::scope(|s| {
                Fleet::connect(s, urls)?
                    .queue::<u32>("mill")
                    .open()?
                    .send(1)
                    .map(drop)
                    .map_err(io::Error::from)
            })
        };
        connect(&format!("nats://miller:flour@{place}"))?;
        let error = connect(&format!("nats://miller:sawdust@{place}")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        server.kill();
        let gone = connect(&format!("nats://miller:sawdust@{place}")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
        for error in [error, gone] {
            let text = format!("{error} {error:?}");
            assert!(text.contains(&place) && !text.contains("sawdust"), "{text}");
        }
        Ok(())
    });
}

/// - given: a queue and a function whose jobs no server stores for a while, as during the election
///   of a leader
/// - when: a job is sent, a call is made and a map begins
/// - then: `send` says that the job was not stored and may be sent again; the call and the map wait
///   until a server stores their jobs, and have their results
#[test]
fn fleet_303_no_server_stores_the_jobs_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let open = || fleet.function("square", |n: u64, _run| Ok(n * n)).open();
            let (queue, square) = (fleet.queue::<u32>("mill").open()?, open()?);
            let streams = Client::connect(s, &server.url())?.jetstream();
            for stream in ["fleet-jobs-q_mill", "fleet-jobs-f_square"] {
                streams.delete_stream(stream)?;
            }
            let Err(SendError::Refused { job, error }) = queue.send(7) else { panic!("stored") };
            assert_eq!((job, error.kind()), (7, io::ErrorKind::ResourceBusy));
            assert!(error.to_string().contains("fleet-jobs-q_mill"), "{error}");
            let caller = square.clone();
            let call = s.spawn(move || caller.call(3));
            let squares = square.map("three", 0..3)?;
            // So that what is sent finds no server. If the machine is slow, it finds one.
            ecru::sleep(Duration::from_millis(300))?;
            let again = open()?;
            s.spawn_daemon(move || again.serve(2));
            let squares: Result<Vec<u64>, _> = squares.collect();
            assert_eq!((call.join().unwrap()?, squares?), (9, vec![0, 1, 4]));
            Ok(())
        })
    });
}

/// - given: a function, and a call that waits for its result
/// - when: the store of results is deleted, and created again
/// - then: that call and another one fail with an error that names the store; the calls after that
///   have their results
#[test]
fn fleet_362_calls_go_on_after_an_error() {
    with_server("", |server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let open = || fleet.function("square", |n: u64, _run| Ok(n * n)).open();
            let square = open()?;
            let jetstream = Client::connect(s, &server.url())?.jetstream();
            let caller = square.clone();
            let call = s.spawn(move || caller.call(3));
            while jetstream.stream_info("fleet-jobs-f_square")?.state.messages == 0 {
                ecru::sleep(Duration::from_millis(1))?;
            }
            jetstream.delete_stream("KV_fleet-results-f_square")?;
            for failed in [call.join().unwrap(), square.call(4)] {
                let error = failed.unwrap_err();
                assert!(error.to_string().contains("KV_fleet-results-f_square"), "{error}");
            }
            let again = open()?;
            s.spawn_daemon(move || again.serve(2));
            assert_eq!(square.call(5)?, 25);
            Ok(())
        })
    });
}

/// - given: a function that is served
/// - when: it is called many times
/// - then: the results of the calls that have returned do not stay in the store
#[test]
fn fleet_363_results_of_calls_are_removed_slow() {
    with_server("", |server| {
        ecru::scope(|s| {
            let square = Fleet::connect(s, &server.url())?;
            let square = square.function("square", |n: u64, _run| Ok(n * n)).open()?;
            let served = square.clone();
            s.spawn_daemon(move || served.serve(8));
            for n in 0..150 {
                assert_eq!(square.call(n)?, n * n);
            }
            let jetstream = Client::connect(s, &server.url())?.jetstream();
            until(|| match jetstream.stream_info("KV_fleet-results-f_square")?.state {
                state if state.messages == 0 && state.last_seq >= 150 => Ok(()),
                state => Err(io::Error::other(format!("{} are stored", state.messages))),
            });
            Ok(())
        })
    });
}

/// - given: a queue
/// - when: another program publishes a job by the client of NATS, and reads the jobs that are
///   queued
/// - then: the job is handed out, and the jobs are found under the documented names
#[test]
fn fleet_85_other_programs() {
    with_server("", |server| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &server.url())?.queue::<u32>("mill").open()?;
            let client = Client::connect(s, &server.url())?;
            let jetstream = client.jetstream();
            let grain = Message::new("fleet.jobs.q_mill.grain", "{\"v\":1,\"data\":7}");
            jetstream.publish_message(&grain)?;
            let job = next(&queue)?;
            assert_eq!((*job, job.id().as_str()), (7, "grain"));
            job.done()?;
            queue.send_keyed("user 8", 8)?;
            let stored =
                jetstream.last_message("fleet-jobs-q_mill", "fleet.jobs.q_mill.*")?.unwrap();
            assert_eq!(stored.subject, "fleet.jobs.q_mill.user=208");
            assert_eq!(stored.payload, "{\"v\":1,\"data\":8}");
            let workers = jetstream.consumer("fleet-jobs-q_mill", "workers")?.info()?.config;
            assert!(workers.max_deliver.is_none_or(|most| most < 0));
            Ok(())
        })
    });
}
