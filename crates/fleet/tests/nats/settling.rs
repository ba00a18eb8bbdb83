//! Who settles a job, and which attempts count.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{Fleet, Job, JobId, Queue, Sent};

use crate::child::Killed;
use crate::server::Server;

const LEASE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(10);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(LEASE).attempts(3).retry(Delay::Constant(SOON)).open()
}

fn within<T>(jobs: &ecru::channel::Receiver<Job<T>>) -> io::Result<Job<T>> {
    Ok(ecru::timeout(LONG, || jobs.recv())??)
}

fn until(mut is_true: impl FnMut() -> bool) -> io::Result<()> {
    ecru::timeout(LONG, || {
        while !is_true() {
            ecru::sleep(SOON)?;
        }
        Ok(())
    })?
}

/// Runs a program with one worker on a thread of its own, which it may block.
fn on_one_worker(url: &str, program: impl FnOnce(&Queue<u32>) -> io::Result<()>) {
    let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| ecru::scope(|s| program(&open(&Fleet::connect(s, url)?)?))).unwrap();
}

/// - given: a job whose holder blocks its only worker for three leases
/// - when: the holder calls `done`
/// - then: it returns `Ok` if and only if the job was removed
#[test]
fn fleet_87_done_after_the_lease_slow() {
    let Some(server) = Server::start("") else { return };
    on_one_worker(&server.url(), |queue| {
        queue.send(7)?;
        let jobs = queue.jobs(1)?;
        while queue.stats()?.dead == 0 {
            let Ok(job) = jobs.recv_timeout(SOON) else { continue };
            if job.run(|_| std::thread::sleep(LEASE * 3)).is_err() {
                continue;
            }
            let is_done = job.done().is_ok();
            let stats = queue.stats()?;
            assert_eq!(is_done, stats.queued + stats.running + stats.dead == 0, "{stats:?}");
            if is_done {
                break;
            }
        }
        Ok(())
    });
}

/// - given: a process that has asked for a job, and stands still as it is handed out
/// - when: another process works on the job and is done, and then the first one goes on
/// - then: the first one does not work on the job, and only the other one has got `Ok`
#[test]
fn fleet_88_a_job_that_is_found_late_slow() {
    let Some(server) = Server::start("") else { return };
    let (url, first_url) = (server.url(), server.url());
    let (is_waiting, waits) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    // What the first one waits for moves into the closure, so that a panic there ends that wait.
    std::thread::scope(move |threads| {
        let first = threads.spawn(move || {
            let mut outcome = None;
            on_one_worker(&first_url, |queue| {
                let jobs = queue.jobs(1)?;
                // The request for a job has reached the server.
                queue.stats()?;
                is_waiting.send(()).unwrap();
                may_go_on.recv().unwrap();
                let Ok(job) = jobs.recv_timeout(3 * LEASE) else { return Ok(()) };
                outcome = Some((job.run(|_| ()).is_ok(), job.done().is_ok()));
                Ok(())
            });
            outcome
        });
        on_one_worker(&url, |queue| {
            waits.recv().unwrap();
            queue.send(7)?;
            until(|| queue.stats().is_ok_and(|stats| stats.running == 1))?;
            let job = within(&queue.jobs(1)?)?;
            job.run(|_| ())?;
            job.done()?;
            assert_eq!(queue.stats()?.running, 0);
            go_on.send(()).unwrap();
            Ok(())
        });
        assert!(matches!(first.join().unwrap(), None | Some((false, false))));
    });
}

/// - given: jobs that are handed out ahead, beside one that is worked on
/// - when: the process ends in good order, more often than there are attempts
/// - then: the jobs that were not begun are not dead, and each is in its first attempt
#[test]
fn fleet_89_given_back_without_an_attempt_slow() {
    let Some(server) = Server::start("") else { return };
    for number in 0..8 {
        on_one_worker(&server.url(), |queue| queue.send(number).map(drop).map_err(Into::into));
    }
    for _ in 0..5 {
        on_one_worker(&server.url(), |queue| {
            let jobs = queue.jobs(8)?;
            until(|| jobs.len() == 8)
        });
    }
    on_one_worker(&server.url(), |queue| {
        let jobs = queue.jobs(8)?;
        for _ in 0..8 {
            let job = within(&jobs)?;
            job.run(|_| ())?;
            assert_eq!(job.attempt(), 1);
            job.done()?;
        }
        assert_eq!(queue.stats()?.dead, 0);
        Ok(())
    });
}

/// A lease that a machine with much else to do keeps.
const LONG_LEASE: Duration = Duration::from_secs(2);

fn open_long(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(LONG_LEASE).retry(Delay::Constant(SOON)).open()
}

/// Takes jobs in another process, which does not work on them, until it is told to stop. Returns
/// those that it got.
fn greedy(url: &str, begun: &mpsc::Sender<()>, stop: &ecru::channel::Receiver<()>) -> Vec<u32> {
    let mut got = Vec::new();
    let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
    let take = || {
        ecru::scope(|s| {
            let jobs = open_long(&Fleet::connect(s, url)?)?.jobs(20)?;
            begun.send(()).unwrap();
            loop {
                ecru::select! {
                    recv(jobs) -> job => got.push(*job?),
                    recv(stop) -> _ => return Ok::<(), io::Error>(()),
                }
            }
        })
    };
    runtime.run(take).unwrap();
    got
}

/// Has a process with `threads` threads work on eight jobs, one of which blocks its thread for
/// three leases. Returns what another process got, which would have worked on them, too.
fn beside_a_blocked_thread(threads: usize, work: fn(Vec<Job<u32>>)) -> Vec<u32> {
    let Some(server) = Server::start("") else { return Vec::new() };
    let url = server.url();
    let (stop, stops) = ecru::channel::bounded(1);
    let (begun, has_begun) = mpsc::channel();
    let runtime = ecru::Runtime::builder().workers(threads).build().unwrap();
    std::thread::scope(move |all| {
        let other = runtime.run(|| {
            ecru::scope(|s| {
                let queue = open_long(&Fleet::connect(s, &url)?)?;
                for number in 0..8 {
                    queue.send(number)?;
                }
                let jobs = queue.jobs(8)?;
                let jobs = (0..8).map(|_| within(&jobs)).collect::<io::Result<Vec<_>>>()?;
                let url = url.clone();
                let other = all.spawn(move || greedy(&url, &begun, &stops));
                ecru::unblock(move || has_begun.recv()).unwrap();
                work(jobs);
                let stats = queue.stats()?;
                assert_eq!((stats.queued, stats.running, stats.dead), (0, 0, 0), "{stats:?}");
                Ok::<_, io::Error>(other)
            })
        });
        drop(stop);
        other.unwrap().join().unwrap()
    })
}

/// - given: a process with two threads that works on eight jobs at once, and another process
/// - when: one job blocks its thread for three leases
/// - then: each job is done in its first attempt, and the other process gets none
#[test]
fn fleet_96_beside_a_blocked_thread_slow() {
    let got = beside_a_blocked_thread(2, |jobs| {
        ecru::scope(|s| {
            for job in jobs {
                s.spawn(move || {
                    job.run(|number| match number {
                        0 => std::thread::sleep(3 * LONG_LEASE),
                        _ => ecru::sleep(3 * LONG_LEASE).unwrap(),
                    })
                    .unwrap();
                    assert_eq!(job.attempt(), 1);
                    job.done().unwrap();
                });
            }
        });
    });
    assert!(got.is_empty(), "{got:?}");
}

/// - given: a process with one thread that holds eight jobs, and another process
/// - when: one job blocks the thread for three leases
/// - then: that job and then the others are done in their first attempts, and the other process
///   gets none
#[test]
fn fleet_98_a_blocked_process_slow() {
    let got = beside_a_blocked_thread(1, |jobs| {
        for job in jobs {
            job.run(|number| {
                if *number == 0 {
                    std::thread::sleep(3 * LONG_LEASE);
                }
            })
            .unwrap();
            assert_eq!(job.attempt(), 1);
            job.done().unwrap();
        }
    });
    assert!(got.is_empty(), "{got:?}");
}

/// - given: a server that accepts one connection only
/// - when: a fleet sends a job, and begins to take jobs, for whose leases it needs another
///   connection
/// - then: the job is stored, and `jobs` returns the server's error, each time
#[test]
fn fleet_99_no_connection_for_the_leases() {
    let Some(server) = Server::start("max_connections: 1") else { return };
    on_one_worker(&server.url(), |queue| {
        queue.send(7)?;
        for _ in 0..2 {
            let error = queue.jobs(1).unwrap_err().to_string();
            assert!(error.contains("maximum connections"), "{error}");
        }
        assert_eq!(queue.stats()?.queued, 1);
        Ok(())
    });
}

/// The address of the server, for the process that `fleet_90_beside_a_killer_slow` starts.
const KILLED: &str = "ECRU_FLEET_KILLED";

/// The job that ends its process.
const KILLER: u32 = 3;

/// Works on jobs, one of which ends the process.
#[test]
fn killed_process() {
    let Ok(url) = std::env::var(KILLED) else { return };
    on_one_worker(&url, |queue| {
        for job in queue.jobs(20)? {
            job.run(|number| {
                println!("works on {number}");
                if *number == KILLER {
                    std::process::abort();
                }
            })?;
            job.done()?;
        }
        Ok(())
    });
}

/// - given: a job that ends the process that works on it, and others that are handed out ahead
/// - when: a new process is started each time
/// - then: the job is dead after its last attempt, which was begun as often as that, and each other
///   job is done
#[test]
fn fleet_90_beside_a_killer_slow() {
    let Some(server) = Server::start("") else { return };
    on_one_worker(&server.url(), |queue| {
        for number in 0..12 {
            queue.send(number)?;
        }
        let (mut killed, mut done) = (0, BTreeSet::new());
        while queue.stats()?.dead == 0 {
            let worker = Command::new(std::env::current_exe()?)
                .args(["--exact", "settling::killed_process", "--nocapture"])
                .env(KILLED, server.url())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let mut worker = Killed(worker);
            let lines = BufReader::new(worker.0.stdout.take().unwrap()).lines();
            let (over, is_over) = mpsc::channel();
            std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    let Some((_, number)) = line.rsplit_once("works on ") else { continue };
                    over.send(number.parse::<u32>().unwrap()).unwrap();
                }
            });
            // It ends by itself, or when the job is dead.
            ecru::timeout(LONG, || {
                while worker.0.try_wait()?.is_none() {
                    if queue.stats()?.dead > 0 {
                        worker.0.kill()?;
                    }
                    ecru::sleep(SOON)?;
                }
                Ok::<(), io::Error>(())
            })??;
            for number in is_over {
                killed += u32::from(number == KILLER);
                done.insert(number);
            }
        }
        assert_eq!(killed, 3);
        let dead = queue.dead()?.recv()?;
        assert_eq!((dead.job(), dead.attempts()), (Some(&KILLER), 3));
        // What is left was handed out and not begun.
        let jobs = queue.jobs(20)?;
        while queue.stats()?.queued + queue.stats()?.running > 0 {
            if let Ok(job) = jobs.recv_timeout(SOON) {
                done.insert(*job);
                job.run(|_| ())?;
                job.done()?;
            }
        }
        assert_eq!((done.len(), queue.stats()?.dead), (12, 1));
        Ok(())
    });
}

/// - given: a key
/// - when: a job is sent again by an id of the key, as after a sending whose message was lost, and
///   soon after it is done the same happens with the next job of the key
/// - then: both are stored and worked on, and a repetition while one is queued is `Already`
#[test]
fn fleet_91_a_key_is_sent_again() {
    let Some(server) = Server::start("") else { return };
    on_one_worker(&server.url(), |queue| {
        let id = JobId::from_key("k")?;
        let jobs = queue.jobs(1)?;
        for number in 0..3 {
            assert_eq!(queue.send_again(&id, number)?, Sent::New(id.clone()));
            assert_eq!(queue.send_again(&id, number)?, Sent::Already);
            let job = within(&jobs)?;
            assert_eq!(*job, number);
            job.done()?;
        }
        // The id of one sending is that of one job, although the key is free again.
        let Sent::New(sent) = queue.send_keyed("k", 3)? else { panic!("the key is not free") };
        within(&jobs)?.done()?;
        assert_eq!(queue.send_again(&sent, 3)?, Sent::Already);
        assert_eq!(queue.send_keyed("k", 4)?, Sent::New(id));
        Ok(())
    });
}
