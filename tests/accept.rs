//! Rows of `doc/behaviour/serve.md`: which acceptor a connection wakes.
//!
//! The tests count the turns of tasks with the hook at switches. A process has one such hook, so
//! these tests are a program of their own.

mod common;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, Once};
use std::thread;
use std::time::Instant;

use common::{OnDrop, Watchdog, alone, listen, ms, settle, until};
use ecru::diag::TaskInfo;
use ecru::net::TcpListener;
use ecru::task::{LeaveReason, SwitchHook, set_switch_hook};
use ecru::{CancelHandle, Cancelled, DriverKind, Placement, Runtime, RuntimeHandle};

thread_local! {
    /// Whether the turns of the running task are counted.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The number of times that a counted task has continued after a wait.
static TURNS: AtomicUsize = AtomicUsize::new(0);

/// A handle that is cancelled when a counted task continues for the next time, before it does so.
static CANCELLED_FIRST: Mutex<Option<CancelHandle>> = Mutex::new(None);

/// The tests run one at a time, because they share the counter.
static ALONE: Mutex<()> = Mutex::new(());

struct Turns;

impl SwitchHook for Turns {
    type Kept = ();

    fn enter(&self, kept: &mut Option<Box<()>>) {
        COUNTED.set(kept.is_some());
        if kept.is_some() {
            TURNS.fetch_add(1, SeqCst);
            if let Some(handle) = CANCELLED_FIRST.lock().unwrap().take() {
                handle.cancel();
            }
        }
    }

    fn leave(&self, kept: &mut Option<Box<()>>, why: LeaveReason) {
        let counted = COUNTED.replace(false) && why != LeaveReason::Ended;
        *kept = counted.then(|| Box::new(()));
    }
}

/// Runs a test on each driver, with this number of workers.
fn on_each(workers: usize, test: impl Fn()) {
    static ONCE: Once = Once::new();
    let _alone = ALONE.lock();
    ONCE.call_once(|| set_switch_hook(&Turns).unwrap());
    for kind in [DriverKind::Uring, DriverKind::Poll] {
        let _watchdog = Watchdog::new();
        let builder = Runtime::builder().workers(workers).placement(Placement::Spread);
        builder.driver(kind).build().unwrap().run(&test);
    }
}

/// Connects as a client and returns the byte that the acceptor sends. This runs outside the
/// workers.
fn be_served(address: SocketAddr) -> u8 {
    let mut byte = [0];
    StdStream::connect(address).unwrap().read_exact(&mut byte).unwrap();
    byte[0]
}

/// Accepts until the task is cancelled, and sends `byte` on each connection.
fn serve(listener: &TcpListener, byte: u8) {
    COUNTED.set(true);
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => stream.write_all(&[byte]).unwrap(),
            Err(error) => {
                assert!(Cancelled::find(&error).is_some(), "{error}");
                return;
            }
        }
    }
}

/// Waits until `count` tasks wait for connections.
fn until_waiting(count: usize) {
    let waits = |task: &&TaskInfo| task.waits_on().is_some_and(|wait| wait.fd().is_some());
    until(|| RuntimeHandle::current().dump().tasks().filter(waits).count() == count);
}

/// Returns a listener that is known to be shared, because two tasks have already waited on it at
/// once.
fn listen_together() -> (TcpListener, SocketAddr) {
    let (listener, address) = listen();
    ecru::scope(|s| {
        let accept = || assert!(listener.accept().is_err());
        let tasks = [s.spawn(accept), s.spawn(accept)];
        until_waiting(2);
        tasks.iter().for_each(|task| task.cancel());
    });
    (listener, address)
}

/// Makes `connections` connections one after another, for `acceptors` tasks that all wait at first.
/// Returns the number of turns that the tasks took, and the bytes of the acceptors that served.
///
/// `wait` is called after each connection.
fn turns_for(
    address: SocketAddr,
    acceptors: usize,
    connections: usize,
    wait: impl Fn(),
) -> (usize, Vec<u8>) {
    until_waiting(acceptors);
    let before = TURNS.load(SeqCst);
    let serve_one = |_| {
        let client = thread::spawn(move || be_served(address));
        until(|| client.is_finished());
        wait();
        client.join().unwrap()
    };
    let served = (0..connections).map(serve_one).collect();
    (TURNS.load(SeqCst) - before, served)
}

/// - given: eight workers with a task each in `accept` on one listener, all asleep
/// - when: connections come, one after another
/// - then: about one task continues for each connection, and not eight; this holds on both drivers
#[test]
fn serve_13_one_wake_up_for_each_connection_slow() {
    const ACCEPTORS: usize = 8;
    const CONNECTIONS: usize = 300;
    on_each(ACCEPTORS + 1, || {
        let (listener, address) = listen_together();
        let each_on_its_own = Barrier::new(ACCEPTORS);
        ecru::scope(|s| {
            for n in 0..ACCEPTORS {
                let (listener, barrier) = (&listener, &each_on_its_own);
                s.spawn_daemon(move || {
                    // This blocks the worker, so that each acceptor gets a worker of its own.
                    barrier.wait();
                    serve(listener, n as u8);
                });
            }
            let (turns, served) = turns_for(address, ACCEPTORS, CONNECTIONS, settle);
            assert_eq!(served.len(), CONNECTIONS);
            // If each connection woke all acceptors, the turns would be eight times the
            // connections.
            assert!(turns <= 3 * CONNECTIONS, "{turns} turns for {CONNECTIONS} connections");
        });
    });
}

/// - given: eight tasks of one worker in `accept`
/// - when: connections come, one after another
/// - then: the tasks serve in the order in which they came to wait
#[test]
fn serve_14_acceptors_of_one_worker_take_turns() {
    const ACCEPTORS: usize = 8;
    const ROUNDS: usize = 20;
    on_each(1, || {
        let (listener, address) = listen_together();
        ecru::scope(|s| {
            for n in 0..ACCEPTORS {
                let listener = &listener;
                s.spawn_daemon(move || serve(listener, n as u8));
            }
            // An acceptor that does not wait yet could take the next connection out of turn.
            let wait = || until_waiting(ACCEPTORS);
            let (turns, served) = turns_for(address, ACCEPTORS, ACCEPTORS * ROUNDS, wait);
            assert!(turns <= 2 * ACCEPTORS * ROUNDS, "{turns} turns");
            for round in served.chunks(ACCEPTORS) {
                assert_eq!(round, &served[..ACCEPTORS], "{served:?}");
            }
        });
    });
}

/// - given: several tasks in `accept` on several workers, some of which are cancelled at the moment
///   when connections come
/// - when: this happens repeatedly
/// - then: each connection is accepted, by a task that was cancelled or by one that still waits
///
/// If a cancelled acceptor was woken for a connection, another acceptor is told of it.
#[test]
fn serve_15_no_connection_is_stranded_slow() {
    on_each(4, || {
        let (listener, address) = listen();
        let (served, mut connected) = (AtomicUsize::new(0), 0);
        let end = Instant::now() + ms(300);
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while listener.accept().is_ok() {
                    served.fetch_add(1, SeqCst);
                }
            });
            while Instant::now() < end {
                let count = fastrand::usize(1..4);
                connected += count;
                let victims: Vec<_> =
                    (0..3).map(|_| s.spawn(|| listener.accept().is_ok())).collect();
                if fastrand::bool() {
                    ecru::yield_now().unwrap();
                }
                let pause = fastrand::u32(0..20_000);
                thread::scope(|threads| {
                    threads.spawn(|| {
                        (0..count).for_each(|_| drop(StdStream::connect(address).unwrap()));
                    });
                    (0..pause).for_each(|_| std::hint::spin_loop());
                    victims.iter().for_each(|victim| victim.cancel());
                });
                for victim in victims {
                    // The task may have been cancelled before it began.
                    if matches!(victim.join(), Ok(true)) {
                        served.fetch_add(1, SeqCst);
                    }
                }
                until(|| served.load(SeqCst) == connected);
            }
        });
    });
}

/// If a task is woken for a connection and cancelled before it continues, another acceptor is told
/// of the connection.
#[test]
fn serve_15_no_connection_is_stranded_by_one_that_was_told() {
    const ROUNDS: usize = 40;
    on_each(3, || {
        let (listener, address) = listen_together();
        let (listener, apart) = (&listener, &Barrier::new(2));
        let served = &AtomicUsize::new(0);
        let over = || served.load(SeqCst) == ROUNDS;
        ecru::scope(|s| {
            s.spawn_daemon(move || {
                apart.wait();
                while listener.accept().is_ok() {
                    served.fetch_add(1, SeqCst);
                }
            });
            s.spawn_daemon(move || {
                apart.wait();
                COUNTED.set(true);
                while !ecru::is_cancelled() {
                    ecru::cancel_scope(|cancel| {
                        *CANCELLED_FIRST.lock().unwrap() = Some(cancel.clone());
                        let before = served.load(SeqCst);
                        match listener.accept() {
                            Ok(_) => _ = served.fetch_add(1, SeqCst),
                            // This task has left the connection to the other acceptor, which must
                            // be told of it.
                            Err(_) => until(|| served.load(SeqCst) > before || over()),
                        }
                    });
                }
            });
            for round in 0..ROUNDS {
                until_waiting(2);
                let _client = StdStream::connect(address).unwrap();
                until(|| served.load(SeqCst) > round);
            }
        });
        CANCELLED_FIRST.lock().unwrap().take();
    });
}

const IDLE: usize = 0;
const COMPUTES: usize = 1;
const ENOUGH: usize = 2;

/// - given: a worker that slept with a task in `accept`, was woken by something else and computes
/// - when: connections come
/// - then: a task of another worker, which sleeps, accepts them at once
#[test]
fn serve_16_a_worker_that_computes_holds_none_up() {
    on_each(3, || {
        let (listener, address) = listen();
        let listener = &listener;
        let (apart, state) = (&Barrier::new(2), &AtomicUsize::new(IDLE));
        let (go, gone) = ecru::channel::bounded::<()>(0);
        ecru::scope(|s| {
            s.spawn_daemon(move || {
                apart.wait();
                serve(listener, 1);
            });
            s.spawn_daemon(move || {
                apart.wait();
                ecru::scope(|s| {
                    s.spawn_local(|| {
                        while gone.recv().is_ok() {
                            state.store(COMPUTES, SeqCst);
                            while state.load(SeqCst) == COMPUTES {
                                thread::yield_now();
                            }
                            state.store(IDLE, SeqCst);
                        }
                    });
                    serve(listener, 2);
                });
            });
            until_waiting(2);
            let rounds = || {
                // On every exit from here, the worker stops computing.
                let _over = OnDrop(|| state.store(ENOUGH, SeqCst));
                for _ in 0..20 {
                    // Both acceptors wait by now, and their workers sleep.
                    thread::sleep(ms(1));
                    go.send(()).unwrap();
                    until(|| state.load(SeqCst) == COMPUTES);
                    assert_eq!([(); 3].map(|()| be_served(address)), [1; 3]);
                    state.store(ENOUGH, SeqCst);
                    until(|| state.load(SeqCst) == IDLE);
                }
            };
            // The rounds run on a separate thread, because the worker that computes may be that of
            // the root task.
            thread::scope(|threads| {
                let rounds = threads.spawn(rounds);
                until(|| rounds.is_finished());
                rounds.join().unwrap();
            });
            drop(go);
        });
    });
}

/// - given: tasks in `accept`, and a process that may open no more files
/// - when: one client connects
/// - then: each of the tasks returns the error, and none waits beside the pending connection
///
/// If an acceptor fails for a reason other than the connection, the other acceptors are told of the
/// connection.
#[test]
fn serve_17_a_failure_is_passed_on() {
    const ACCEPTORS: usize = 6;
    alone("serve_17_a_failure_is_passed_on", || {
        on_each(4, || {
            let (listener, address) = listen_together();
            let accept = || listener.accept().map(drop);
            ecru::scope(|s| {
                let tasks: Vec<_> = (0..ACCEPTORS).map(|_| s.spawn(accept)).collect();
                until_waiting(ACCEPTORS);
                let client = prepared(address);
                without_descriptors(|| {
                    let _client = client();
                    for task in &tasks {
                        let error = task.join().unwrap().unwrap_err();
                        let expected = rustix::io::Errno::MFILE.raw_os_error();
                        assert_eq!(error.raw_os_error(), Some(expected));
                    }
                });
                assert!(listener.accept().is_ok());
            });
        });
    });
}

/// Creates a socket, and returns a function that connects it.
fn prepared(address: SocketAddr) -> impl FnOnce() -> OwnedFd {
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
    move || {
        rustix::net::connect(&socket, &address).unwrap();
        socket
    }
}

/// Runs `body` while the process cannot open any file.
fn without_descriptors(body: impl FnOnce()) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    body();
    setrlimit(Resource::Nofile, before).unwrap();
}
