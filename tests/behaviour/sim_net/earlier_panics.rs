//! Panics that were thrown on a host before it stops, or that nothing can handle.

use super::{MS, SECOND, ask, run};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Failure, Host, Report, Simulation};
use ecru::{JoinSet, shield, sleep};
use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Panics at this place, which messages name.
fn corrupt() {
    panic!("corrupt record");
}

/// The ways in which a host stops, one half of a minute after its program began.
const OUTAGES: [fn(&Host); 4] = [
    |host| host.crash(),
    |host| {
        host.crash();
        host.restart();
    },
    |host| host.power_fail(),
    |_| {},
];

/// Runs a program on the host `db`, which stops after half a minute.
fn stopped(program: fn() -> io::Result<()>, outage: fn(&Host)) -> Report<()> {
    Simulation::new(1).run(move || {
        let host = sim::host("db", program);
        sleep(30 * SECOND).unwrap();
        outage(&host);
        sleep(30 * SECOND).unwrap();
    })
}

/// Checks that the run has failed by `corrupt`, at this time, and that the message names the place,
/// a task and the host.
fn assert_corrupt(report: Report<()>, at: Duration) {
    assert_eq!(report.elapsed, at);
    let failure = report.result.unwrap_err();
    assert!(matches!(failure, Failure::Panicked(_)), "{failure}");
    let text = failure.to_string();
    for part in ["corrupt record", "earlier_panics.rs:", "task #", "'db'"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Panics in a task whose handle is dropped, while another task goes on.
fn detached() -> io::Result<()> {
    ecru::scope(|s| {
        s.spawn(|| {
            sleep(4 * MS).unwrap();
            corrupt();
        });
        s.spawn(|| sleep(3600 * SECOND));
    });
    Ok(())
}

/// The same in a scope of a task that is not joined either.
fn detached_below() -> io::Result<()> {
    ecru::scope(|s| {
        s.spawn(detached);
        s.spawn(|| sleep(3600 * SECOND));
    });
    Ok(())
}

/// Drops the handle after the panic.
fn detached_late() -> io::Result<()> {
    ecru::scope(|s| {
        let handle = s.spawn(corrupt);
        sleep(4 * MS)?;
        drop(handle);
        Ok(sleep(3600 * SECOND)?)
    })
}

fn daemon() -> io::Result<()> {
    ecru::scope(|s| {
        s.spawn_daemon(|| {
            sleep(4 * MS).unwrap();
            corrupt();
        });
        Ok(sleep(3600 * SECOND)?)
    })
}

/// - given: a host on which a task panics that nothing can join, while its scope goes on
/// - when: the host crashes later, starts again, loses its power, or goes on
/// - then: the run fails when the task panics
#[test]
fn sim_190_panic_that_nothing_can_join() {
    for program in [detached, detached_below, detached_late, daemon] {
        for outage in OUTAGES {
            assert_corrupt(stopped(program, outage), 4 * MS);
        }
    }
}

/// Keeps the handle for later.
fn joined_late() -> io::Result<()> {
    ecru::scope(|s| {
        let handle = s.spawn(corrupt);
        sleep(3600 * SECOND)?;
        let _ = handle.join();
        Ok(())
    })
}

fn kept_in_a_set() -> io::Result<()> {
    ecru::scope(|s| {
        let set = JoinSet::new(s);
        set.spawn(corrupt);
        sleep(3600 * SECOND)?;
        while set.join_next().is_some() {}
        Ok(())
    })
}

/// The body of a scope panics, and a task of the scope goes on.
fn body() -> io::Result<()> {
    ecru::scope(|s| {
        s.spawn(|| shield(|| sleep(3600 * SECOND)));
        sleep(4 * MS).unwrap();
        corrupt();
    });
    Ok(())
}

/// The same without a call of the panic hook.
fn resumed_in_a_body() -> io::Result<()> {
    ecru::scope(|s| {
        s.spawn(|| shield(|| sleep(3600 * SECOND)));
        sleep(4 * MS).unwrap();
        panic::resume_unwind(panic::catch_unwind(corrupt).unwrap_err());
    });
    Ok(())
}

fn in_a_try_scope() -> io::Result<()> {
    ecru::try_scope(|s| {
        s.spawn(|| {
            shield(|| sleep(3600 * SECOND))?;
            Ok(())
        });
        s.spawn(|| {
            sleep(4 * MS)?;
            corrupt();
            Ok(())
        });
        Ok(())
    })
}

/// Sleeps in its destructor.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = shield(|| sleep(3600 * SECOND));
    }
}

/// A panic unwinds when the host stops.
fn unwinding() -> io::Result<()> {
    let _slow = Slow;
    corrupt();
    Ok(())
}

fn unwinding_in_a_task() -> io::Result<()> {
    ecru::scope(|s| _ = s.spawn(unwinding).join());
    Ok(())
}

/// - given: a host on which a panic has been thrown, and the program has not handled it yet
/// - when: the host crashes, starts again, or loses its power
/// - then: the run fails at this moment
#[test]
fn sim_191_panic_that_was_not_handled_in_time() {
    for program in
        [joined_late, kept_in_a_set, body, in_a_try_scope, unwinding, unwinding_in_a_task]
    {
        for outage in &OUTAGES[..3] {
            assert_corrupt(stopped(program, *outage), 30 * SECOND);
        }
    }
    let report = stopped(resumed_in_a_body, OUTAGES[0]);
    assert_eq!(report.elapsed, 30 * SECOND);
    assert!(report.result.unwrap_err().to_string().contains("corrupt record"));
}

fn joined() -> io::Result<()> {
    ecru::scope(|s| {
        while sleep(5 * SECOND).is_ok() {
            assert!(s.spawn(corrupt).join().is_err());
            assert!(s.spawn(detached_below_briefly).join().is_err());
            let set = JoinSet::new(s);
            set.spawn(corrupt);
            assert!(set.join_next().unwrap().is_err());
        }
        Ok(())
    })
}

fn detached_below_briefly() {
    ecru::scope(|s| {
        s.spawn(corrupt);
        s.spawn(|| sleep(MS));
    });
}

fn caught() -> io::Result<()> {
    while sleep(5 * SECOND + MS).is_ok() {
        assert!(panic::catch_unwind(corrupt).is_err());
        assert!(panic::catch_unwind(|| ecru::scope(|_| corrupt())).is_err());
        let failing = || -> io::Result<()> {
            corrupt();
            Ok(())
        };
        let failed = || ecru::try_scope(|s| s.spawn(failing).join().map_err(io::Error::other));
        assert!(panic::catch_unwind(failed).is_err());
    }
    Ok(())
}

/// - given: a host whose program joins or catches each panic
/// - when: the host crashes later, starts again, loses its power, or goes on
/// - then: the run does not fail
#[test]
fn sim_192_panic_that_the_program_handles() {
    for program in [joined, caught] {
        for outage in OUTAGES {
            stopped(program, outage).unwrap();
        }
    }
}

/// Panics when its host has crashed.
struct Careless;

impl Drop for Careless {
    fn drop(&mut self) {
        sleep(SECOND).unwrap();
    }
}

/// Each task panics when the host stops.
fn careless() -> io::Result<()> {
    ecru::scope(|s| {
        let kept = s.spawn(|| sleep(3600 * SECOND).unwrap());
        s.spawn(|| sleep(3600 * SECOND).unwrap());
        s.spawn_daemon(|| sleep(3600 * SECOND).unwrap());
        s.spawn(|| {
            let _careless = Careless;
            sleep(3600 * SECOND)
        });
        s.spawn(|| panic::catch_unwind(AssertUnwindSafe(|| drop(Careless))).unwrap());
        sleep(3600 * SECOND).unwrap();
        kept.join().unwrap();
        Ok(())
    })
}

/// - given: a host whose tasks panic because their waits fail
/// - when: it crashes, starts again, or loses its power
/// - then: that does not fail the run
#[test]
fn sim_193_panics_after_a_crash() {
    for outage in &OUTAGES[..3] {
        let report = Simulation::new(1).run(|| {
            let host = sim::host("db", careless);
            // Careless is dropped at once by one of the tasks.
            sleep(SECOND / 2).unwrap();
            outage(&host);
            host.crash();
            sleep(30 * SECOND).unwrap();
        });
        report.unwrap();
    }
}

/// Serves one byte, which must be 0.
fn serve(listener: &TcpListener) -> io::Result<()> {
    listener.serve(9, answer)
}

fn answer(mut stream: TcpStream, _: std::net::SocketAddr) -> io::Result<()> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    if byte[0] != 0 {
        corrupt();
    }
    stream.write_all(&byte)
}

/// Sends a byte to `db`, half a minute before that stops.
fn served(db: fn() -> io::Result<()>, outage: fn(&Host)) -> Report<()> {
    Simulation::new(1).run(move || {
        let host = sim::host("db", db);
        sim::settle();
        let mut stream = TcpStream::connect("db:1").unwrap();
        stream.write_all(&[7]).unwrap();
        let _ = stream.read(&mut [0]);
        sleep(30 * SECOND).unwrap();
        outage(&host);
        sleep(30 * SECOND).unwrap();
    })
}

/// - given: a host with a server that has no handler of panics
/// - when: the function of a connection panics, or the handler of errors does, and the host stops
///   later or goes on
/// - then: the run fails when it panics
#[test]
fn sim_194_panic_of_a_connection() {
    let plain = || serve(&TcpListener::bind("0.0.0.0:1")?);
    let of_errors = || {
        TcpListener::bind("0.0.0.0:1")?
            .server()
            .on_error(|_, _| corrupt())
            .serve(|_, _| Err(io::Error::other("on purpose")))
    };
    for outage in OUTAGES {
        assert_corrupt(served(plain, outage), 3 * MS);
        assert_corrupt(served(of_errors, outage), 3 * MS);
    }
}

/// - given: a host with a server that has a handler of panics
/// - when: a connection panics, or a task of its scope
/// - then: the handler gets the panic, and the run goes on
#[test]
fn sim_195_panic_of_a_connection_for_a_handler() {
    for direct in [true, false] {
        let handled = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&handled);
        run(1, move || {
            let host = sim::host("db", move || {
                TcpListener::bind("0.0.0.0:1")?
                    .server()
                    .on_panic(|_, _| _ = count.fetch_add(1, Relaxed))
                    .serve(|stream, peer| match direct {
                        true => answer(stream, peer),
                        false => {
                            detached_below_briefly();
                            Ok(())
                        }
                    })
            });
            sim::settle();
            for _ in 0..3 {
                assert!(ask(&mut TcpStream::connect("db:1").unwrap(), &[7]).is_err());
                sleep(SECOND).unwrap();
            }
            host.crash();
            sleep(SECOND).unwrap();
        });
        assert_eq!(handled.load(Relaxed), 3);
    }
}

/// - given: a server of the program itself, without a handler of panics
/// - when: a connection panics
/// - then: the run fails at this moment
#[test]
fn sim_196_panic_of_a_connection_to_the_program() {
    let report = Simulation::new(1).run(|| {
        let listener = TcpListener::bind("0.0.0.0:1").unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| serve(&listener));
            let mut stream = TcpStream::connect("localhost:1").unwrap();
            stream.write_all(&[7]).unwrap();
            sleep(30 * SECOND).unwrap();
        });
    });
    assert!(report.elapsed < SECOND);
    let text = report.result.unwrap_err().to_string();
    assert!(text.contains("corrupt record") && text.contains("earlier_panics.rs:"), "{text}");
}
