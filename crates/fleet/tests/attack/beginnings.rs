//! `jobs` and `serve` while the server is away, and with what the server does not permit.

use std::io;
use std::time::Duration;

use ecru::Cancelled;
use ecru_fleet::Fleet;
use ecru_nats::Options;

use crate::server::Server;
use crate::support::{LONG, SECOND, SOON, real};

/// How long a server is away. A client notices that within some milliseconds.
const AWAY: Duration = Duration::from_secs(2);

fn options() -> Options {
    Options::new().request_timeout(SECOND).reconnect_delay(SOON, SECOND / 4)
}

#[test]
fn jobs_begin_while_the_server_is_away_slow() {
    for is_ranked in [false, true] {
        real(|server| {
            ecru::scope(|s| {
                let fleet = Fleet::connect_with(s, &server.url(), options())?;
                let queue = fleet.queue::<u32>("n");
                let queue = if is_ranked { queue.priorities() } else { queue }.open()?;
                queue.send(7)?;
                server.kill();
                let jobs = s.spawn({
                    let queue = queue.clone();
                    move || queue.jobs(2)
                });
                ecru::sleep(AWAY)?;
                server.restart();
                let jobs = jobs.join().unwrap()?;
                let job = ecru::timeout(LONG, || jobs.recv())??;
                assert_eq!(*job, 7);
                Ok(job.done()?)
            })
        });
    }
}

#[test]
fn a_beginning_is_cancelled_slow() {
    real(|server| {
        ecru::scope(|s| {
            let fleet = Fleet::connect_with(s, &server.url(), options())?;
            let queue = fleet.queue::<u32>("n").priorities().open()?;
            let length = fleet.function("length", |text: String, _| Ok(text.len())).open()?;
            server.kill();
            // It is told that the wait was interrupted, and not that the server has not come back.
            let ended = [
                ecru::timeout(SECOND, || queue.jobs(2).map(drop)),
                ecru::timeout(SECOND, || length.serve(1)),
            ];
            for ended in ended {
                if let Ok(Err(error)) = ended {
                    assert!(Cancelled::find(&error).is_some(), "{error}");
                }
            }
            server.restart();
            let jobs = queue.jobs(2)?;
            queue.send(7)?;
            let job = ecru::timeout(LONG, || jobs.recv())??;
            Ok(job.done()?)
        })
    });
}

#[test]
fn a_fleet_ends_during_a_beginning_slow() {
    real(|server| {
        let thread = ecru::scope(|s| {
            let fleet = Fleet::connect_with(s, &server.url(), options())?;
            let queue = fleet.queue::<u32>("n").open()?;
            server.kill();
            // A plain thread is in no scope, so nothing cancels it.
            let thread = std::thread::spawn(move || queue.jobs(2).map(drop));
            ecru::sleep(SECOND / 2)?;
            Ok::<_, io::Error>(thread)
        })?;
        let error = ecru::unblock(|| thread.join()).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        Ok(())
    });
}

/// What is denied to a user, and what it may do all the same.
fn denied(what: &str, body: impl FnOnce(&Fleet<'_>, &Fleet<'_>) -> io::Result<()>) {
    let config = format!(
        "authorization {{ users: [ {{ user: all, password: p }}
            {{ user: some, password: p, permissions: {{ publish: {{ deny: [{what}] }} }} }} ] }}"
    );
    let Some(server) = Server::start(&config) else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let [all, some] = ["all", "some"].map(|user| {
                let url = format!("nats://{user}:p@{}", server.address());
                // Nothing here waits for the time limit of a request.
                let options = Options::new().request_timeout(Duration::from_secs(24 * 3600));
                Fleet::connect_with(s, &url, options).unwrap()
            });
            body(&all, &some)
        })
    })
    .unwrap();
}

fn is_denied<T>(result: io::Result<T>) {
    let Err(error) = result else { panic!("it is permitted") };
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("permit it"), "{error}");
}

#[test]
fn a_user_who_may_not_take_jobs() {
    denied("\"$JS.API.CONSUMER.INFO.>\"", |all, some| {
        let queue = all.queue::<u32>("n").priorities().open()?;
        queue.send(7)?;
        is_denied(some.queue::<u32>("n").open());
        is_denied(some.function("f", |n: u32, _| Ok(n)).open());
        Ok(())
    });
    denied("\"$JS.API.STREAM.MSG.GET.>\", \"fleet.attempts.>\"", |all, some| {
        let queue = all.queue::<u32>("n").priorities().open()?;
        let own = some.queue::<u32>("n");
        match own.open() {
            // What it may not do is known at the latest when it begins to take jobs.
            Ok(own) => is_denied(own.jobs(1)),
            Err(error) => is_denied::<()>(Err(error)),
        }
        assert_eq!(queue.stats()?.running, 0);
        Ok(())
    });
}

#[test]
fn a_user_who_may_not_send_urgent_jobs() {
    denied("\"fleet.jobs.>\"", |all, some| {
        let queue = all.queue::<u32>("n").priorities().open()?;
        let own = some.queue::<u32>("n").open()?;
        own.priority(1).send(100)?;
        is_denied(own.send(7).map_err(io::Error::from));
        is_denied(own.send_keyed("k", 7).map_err(io::Error::from));
        assert_eq!(queue.stats()?.queued_by_priority, [0, 1, 0, 0]);
        Ok(())
    });
}
