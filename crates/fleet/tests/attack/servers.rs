//! Servers that die between two steps, and other programs that meddle.

use std::io;
use std::time::Duration;

use ecru_fleet::{Fleet, JobId, Queue, Run, Sent};
use ecru_nats::{Client, Message};

use crate::server::Server;
use crate::support::{LONG, RETRY, SECOND, SOON, next, real, served, until_dead};

/// Kills the server before the step with this number, and starts it again.
struct Killer<'a> {
    server: &'a mut Server,
    before: u32,
    step: u32,
}

impl Killer<'_> {
    /// Tries a step until it succeeds.
    fn step<T>(&mut self, mut step: impl FnMut() -> io::Result<T>) -> T {
        if self.step == self.before {
            self.server.kill();
            self.server.restart();
        }
        self.step += 1;
        loop {
            match step() {
                Ok(value) => return value,
                Err(_) => ecru::sleep(SOON).unwrap(),
            }
        }
    }
}

/// Whether a dead job was revived before.
fn is_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}

#[test]
fn a_server_that_is_killed_between_two_steps_slow() {
    for before in 0..10 {
        real(|server| {
            let url = server.url();
            let mut killer = Killer { server, before, step: 0 };
            ecru::timeout(LONG, || {
                ecru::scope(|s| {
                    let fleet = killer.step(|| Fleet::connect(s, &url));
                    let queue = killer
                        .step(|| fleet.queue::<u32>("n").lease(2 * SECOND).retry(RETRY).open());
                    let id = JobId::from_key("k").unwrap();
                    let sent = killer.step(|| queue.send_again(&id, 7).map_err(io::Error::from));
                    assert!(before == 2 || sent == Sent::New(id.clone()));
                    let jobs = killer.step(|| queue.jobs(2));
                    let job = killer.step(|| Ok(jobs.recv()?));
                    assert_eq!((*job, job.id()), (7, &id));
                    killer.step(|| {
                        assert_eq!(job.run(|n| *n), Ok(7));
                        Ok(())
                    });
                    // An end whose answer is lost may come again.
                    let mut job = Some(job);
                    killer.step(|| {
                        if let Some(job) = job.take() {
                            return Ok(job.bury("no")?);
                        }
                        if queue.stats()?.dead == 0 {
                            jobs.recv_timeout(SECOND).map_err(io::Error::other)?.bury("no")?;
                        }
                        Ok(())
                    });
                    let dead = killer.step(|| Ok(queue.dead()?.recv()?));
                    assert_eq!(dead.reason(), "no");
                    let mut dead = Some(dead);
                    killer.step(|| {
                        if let Some(dead) = dead.take()
                            && dead.revive().is_ok()
                        {
                            return Ok(());
                        }
                        // Again, for what is still there.
                        for dead in queue.dead()? {
                            match dead.revive() {
                                Err(error) if is_there(&error) => {}
                                other => other?,
                            }
                        }
                        let stats = queue.stats()?;
                        assert!(stats.queued + stats.running + stats.dead > 0, "it is lost");
                        Ok(())
                    });
                    let mut ended = false;
                    killer.step(|| {
                        while !ended {
                            let Ok(job) = jobs.recv_timeout(SECOND) else {
                                ended = queue.stats()?.queued + queue.stats()?.running == 0;
                                continue;
                            };
                            assert_eq!(*job, 7);
                            job.done()?;
                            ended = true;
                        }
                        Ok(())
                    });
                    assert_eq!(killer.step(|| queue.stats()).queued, 0);
                });
            })
            .unwrap_or_else(|_| panic!("killed before the step {before}, it did not go on"));
            Ok(())
        });
    }
}

#[test]
fn a_server_that_is_killed_during_a_map_slow() {
    real(|server| {
        let url = server.url();
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let slow = fleet.function("slow", |n: u32, _: &Run| {
                ecru::sleep(Duration::from_millis(5))?;
                Ok(n)
            });
            let slow = slow.lease(2 * SECOND).retry(RETRY).open()?;
            served(&slow, 4, || {
                let mut results = slow.map("run", 0..100).unwrap();
                for n in 0..100 {
                    if n % 30 == 10 {
                        server.kill();
                        server.restart();
                    }
                    let result = ecru::timeout(LONG, || results.next()).unwrap();
                    // A failed connection is an error of the results, and the run can go on.
                    match result {
                        Some(Ok(result)) => assert_eq!(result, n),
                        other => panic!("after {n}: {other:?}"),
                    }
                }
            });
            Ok(())
        })
    });
}

#[test]
fn a_server_that_is_killed_during_calls_slow() {
    real(|server| {
        let url = server.url();
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let echo = fleet.function("echo", |n: u32, _: &Run| {
                ecru::sleep(SOON)?;
                Ok(n)
            });
            let echo = echo.lease(2 * SECOND).retry(RETRY).open()?;
            served(&echo, 4, || {
                ecru::scope(|s| {
                    let calls = s.spawn(|| {
                        ecru::par::map(0..4u32, |task| {
                            for n in 0..20 {
                                let key = format!("{task} {n}");
                                let called = ecru::timeout(LONG, || match n % 2 {
                                    0 => echo.call(n),
                                    _ => echo.call_keyed(&key, n),
                                });
                                // An error tells of the lost connection. A wrong result does not.
                                if let Ok(result) = called.expect("a call hangs") {
                                    assert_eq!(result, n);
                                }
                            }
                        })
                    });
                    for _ in 0..3 {
                        ecru::sleep(10 * SOON).unwrap();
                        server.kill();
                        server.restart();
                    }
                    calls.join().unwrap();
                });
            });
            Ok(())
        })
    });
}

#[test]
fn rubbish_in_the_queue_slow() {
    real(|server| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, &server.url())?.queue::<u32>("n").retry(RETRY).open()?;
            let client = Client::connect(s, &server.url())?;
            let jetstream = client.jetstream();
            let tokens = ["=", "=2", "=zz", "=FF", "=00", "=20=", "==", "a=C3", "$JS", "%20"];
            let texts = [
                "",
                "{",
                "null",
                "7",
                "{\"v\":2,\"data\":7}",
                "{\"v\":1}",
                "{\"data\":7}",
                "{\"v\":1,\"data\":-1}",
                "{\"v\":\"1\",\"data\":7}",
                "\u{0}",
            ];
            for (token, text) in tokens.iter().zip(texts) {
                let subject = format!("fleet.jobs.q_n.{token}");
                jetstream.publish_message(&Message::new(&subject, text))?;
            }
            queue.send_keyed("fine", 7)?;
            let jobs = queue.jobs(4)?;
            let job = ecru::timeout(LONG, || jobs.recv())??;
            assert_eq!(job.id().as_str(), "fine");
            job.done()?;
            ecru::timeout(LONG, || until_dead(&queue, tokens.len() as u64))?;
            // Each of them can be brought back, fails again, and can be removed.
            assert_eq!(queue.dead()?.iter().count(), tokens.len());
            for dead in queue.dead()? {
                assert_eq!(dead.job(), None);
                dead.revive()?;
            }
            ecru::timeout(LONG, || until_dead(&queue, tokens.len() as u64))?;
            drop(jobs);
            for dead in queue.dead()? {
                dead.discard()?;
            }
            assert_eq!((queue.stats()?.queued, queue.stats()?.dead), (0, 0));
            // A job without the fleet's wrapping is one, if it has the right form.
            for token in ["=", "=zz", "a=C3"] {
                let subject = format!("fleet.jobs.q_n.{token}");
                let message = Message::new(&subject, "{\"v\":1,\"data\":7}");
                jetstream.publish_message(&message)?;
                let job = next(&queue)?;
                assert_eq!(job.id().as_str(), token);
                job.bury("no")?;
                let dead = queue.dead()?.recv()?;
                dead.revive()?;
                next(&queue)?.done()?;
                assert_eq!(queue.stats()?.queued, 0);
            }
            Ok(())
        })
    });
}

/// Returns what a call has become, if it does not hang.
fn ends<T>(what: &str, call: impl FnOnce() -> T) -> T {
    ecru::timeout(LONG, call).unwrap_or_else(|_| panic!("{what} hangs"))
}

#[test]
fn a_queue_that_another_program_deletes_slow() {
    real(|server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let queue = fleet.queue::<u32>("n").lease(SECOND).retry(RETRY).open()?;
            let client = Client::connect(s, &server.url())?;
            queue.send(1)?;
            queue.send(2)?;
            let jobs = queue.jobs(1)?;
            let job = jobs.recv()?;
            client.jetstream().delete_stream("fleet-jobs-q_n")?;
            let error = ends("send", || queue.send(3)).unwrap_err();
            assert_eq!(error.into_inner(), 3);
            ends("stats", || queue.stats()).unwrap_err();
            ends("pause", || queue.pause(SECOND)).unwrap_err();
            ends("cancel", || queue.cancel(job.id())).unwrap_err();
            let lost = ends("run", || job.run(|_| ecru::sleep(LONG)));
            assert!(lost.is_err(), "{lost:?}");
            ends("done", || job.done()).unwrap_err();
            // It is opened again, and everything works. The old receiver works, or has ended.
            let queue = fleet.queue::<u32>("n").lease(SECOND).retry(RETRY).open()?;
            queue.send(4)?;
            let number = ends("the old receiver", || jobs.recv().map(|job| (*job, job.done())));
            match number {
                Ok((number, done)) => {
                    assert_eq!(number, 4);
                    done?;
                }
                Err(_) => next(&queue)?.done()?,
            }
            Ok(())
        })
    });
}

#[test]
fn a_stream_that_another_program_purges_slow() {
    real(|server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            let queue = fleet.queue::<u32>("n").capacity(3).lease(SECOND).retry(RETRY).open()?;
            let client = Client::connect(s, &server.url())?;
            for n in 0..3 {
                queue.send_keyed(&n.to_string(), n)?;
            }
            let jobs = queue.jobs(1)?;
            let job = jobs.recv()?;
            client.jetstream().purge_stream("fleet-jobs-q_n", None)?;
            assert_eq!(queue.stats()?.queued, 0);
            for n in 0..3 {
                assert!(matches!(queue.send_keyed(&n.to_string(), 10 + n)?, Sent::New(_)));
            }
            let _ = ends("done", || job.done());
            for _ in 0..3 {
                let job = ends("the receiver", || jobs.recv())?;
                assert!(*job >= 10);
                job.done()?;
            }
            assert_eq!(queue.stats()?.queued, 0);
            Ok(())
        })
    });
}

fn shows_no_secret(what: &str, text: &str) {
    assert!(!text.contains("s3cret"), "{what} shows the password: {text}");
}

#[test]
fn secrets_slow() {
    let Some(mut server) = Server::start("authorization { user: miller, password: s3cret }") else {
        return;
    };
    let url = format!("nats://miller:s3cret@{}", server.address());
    ecru::run(|| {
        let refused = ecru::scope(|s| {
            let fleet = Fleet::connect(s, &url)?;
            let builder = fleet.queue::<u32>("n").retry(RETRY);
            shows_no_secret("the builder", &format!("{builder:?}"));
            let queue: Queue<u32> = builder.open()?;
            let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n));
            shows_no_secret("the builder", &format!("{echo:?}"));
            let echo = echo.open()?;
            let sending = queue.begin_send(1);
            let jobs = queue.jobs(1)?;
            let job = jobs.recv()?;
            let results = echo.map("m", 0..3)?;
            for text in [
                format!("{fleet:?} {queue:?} {echo:?} {sending:?} {jobs:?} {job:?} {results:?}"),
                ecru::RuntimeHandle::current().dump().to_string(),
            ] {
                shows_no_secret("a handle", &text);
            }
            server.kill();
            for error in [
                io::Error::from(ends("send", || queue.send(2)).unwrap_err()),
                ends("stats", || queue.stats()).unwrap_err(),
                ends("done", || job.done()).unwrap_err().into(),
            ] {
                shows_no_secret("an error", &format!("{error} {error:?}"));
            }
            Ok::<_, io::Error>(Fleet::connect(s, &url).err().unwrap())
        })?;
        shows_no_secret("an error", &format!("{refused} {refused:?}"));
        for broken in [
            "nats://miller:s3cret@",
            "nats://miller:s3cret@host:port",
            "http://miller:s3cret@host",
            "nats://miller:s3cret@[::1",
            "nats://miller:s3cret@a b",
            "miller:s3cret@\0",
            "nats://s3cret@127.0.0.1:1",
            "nats://miller:s3cret@127.0.0.1:1/a?b",
        ] {
            ecru::scope(|s| {
                let error = Fleet::connect(s, broken).err().unwrap();
                shows_no_secret("an error", &format!("{error} {error:?}"));
            });
        }
        Ok::<_, io::Error>(())
    })
    .unwrap();
}

#[test]
fn urls_without_servers() {
    ecru::run(|| {
        for url in
            ["", ",", ",,,", " ", "nats://", "nats://,nats://", "nats://127.0.0.1:1", "x:y:z"]
        {
            ecru::scope(|s| {
                let error = ends(url, || Fleet::connect(s, url)).err().unwrap();
                assert!(!error.to_string().is_empty());
            });
        }
    });
}
