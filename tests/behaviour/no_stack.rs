//! What happens when no stack can be mapped, in `serve` and elsewhere.

use crate::common::await_workers;
use crate::streams::{assert_cancelled, listen};
use crate::support::{Watchdog, alone, forever, panic_text, settle, until};
use ecru::channel;
use ecru::diag::TaskState;
use ecru::net::TcpStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;

/// The size of a stack in tests that let the address space run out. All else fits into half of it.
const LARGE_STACK: usize = 64 << 20;

/// The process may map about half of a large stack from now on, until this is dropped.
struct Limited(Rlimit);

impl Limited {
    fn new() -> Limited {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
        let limit = pages * rustix::param::page_size() as u64 + LARGE_STACK as u64 / 2;
        let before = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: Some(limit), ..before }).unwrap();
        Limited(before)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        setrlimit(Resource::As, self.0).unwrap();
    }
}

fn with_large_stacks(workers: usize, body: impl FnOnce()) {
    let _watchdog = Watchdog::new();
    let builder = ecru::Runtime::builder().workers(workers).stack_size(LARGE_STACK);
    let runtime = builder.placement(ecru::Placement::Together).build().unwrap();
    runtime.run(|| {
        await_workers(workers);
        body();
    });
}

/// Returns whether each task of the run has a stack.
fn all_have_begun() -> bool {
    let tree = ecru::RuntimeHandle::current().dump();
    tree.tasks().all(|task| !matches!(task.state(), TaskState::Unstarted | TaskState::Unknown))
}

/// Sends a byte and keeps the connection until the client closes it.
fn hold(mut stream: TcpStream, _: SocketAddr) -> io::Result<()> {
    stream.write_all(b"x")?;
    stream.read(&mut [0]).map(drop)
}

/// Connects. Returns `None` if the connection is closed at once.
fn connect_held(address: SocketAddr) -> Option<TcpStream> {
    let mut client = TcpStream::connect(address).unwrap();
    matches!(client.read(&mut [0]), Ok(1)).then_some(client)
}

/// - given: a process that can map no more stacks
/// - when: more clients connect
/// - then: a connection without a stack is closed; the handler gets an error of kind `OutOfMemory`
///   with the peer; the others are served, later ones as well, and the server stops as it is asked
///   to
#[test]
fn serve_20_no_stack_for_a_connection() {
    alone("no_stack::serve_20_no_stack_for_a_connection", || {
        for workers in [1, 2] {
            with_large_stacks(workers, || {
                let (listener, address) = listen();
                let (stop, stopped) = channel::bounded::<()>(0);
                let errors = Mutex::new(Vec::new());
                ecru::scope(|s| {
                    let server = s.spawn(|| {
                        let server = listener.server().stop_when(stopped);
                        server
                            .on_error(|error, peer| {
                                // A handler may wait.
                                ecru::yield_now().unwrap();
                                errors.lock().unwrap().push((error.kind(), peer));
                            })
                            .serve(hold)
                    });
                    drop(connect_held(address).unwrap());
                    // The server's own tasks have stacks, also the one that waits for the stop.
                    until(all_have_begun);
                    let _limited = Limited::new();
                    let mut held = Vec::new();
                    let mut refused = 0;
                    while refused < 2 {
                        match connect_held(address) {
                            Some(client) => held.push(client),
                            None => refused += 1,
                        }
                        assert!(held.len() < 1000, "there is a stack for each");
                    }
                    until(|| errors.lock().unwrap().len() == 2);
                    held.clear();
                    until(|| connect_held(address).is_some());
                    drop(stop);
                    server.join().unwrap().unwrap();
                });
                let errors = errors.into_inner().unwrap();
                assert!(
                    errors
                        .iter()
                        .all(|(kind, peer)| { *kind == ErrorKind::OutOfMemory && peer.is_some() })
                );
            });
        }
    });
}

#[test]
fn serve_20_no_stack_for_a_connection_and_no_handler() {
    alone("no_stack::serve_20_no_stack_for_a_connection_and_no_handler", || {
        with_large_stacks(1, || {
            let (listener, address) = listen();
            ecru::scope(|s| {
                let server = s.spawn(|| listener.serve(1000, hold));
                drop(connect_held(address).unwrap());
                let _limited = Limited::new();
                let mut held = Vec::new();
                held.extend(std::iter::from_fn(|| connect_held(address)));
                drop(held);
                until(|| connect_held(address).is_some());
                server.cancel();
                assert_cancelled(&server.join().unwrap().unwrap_err());
            });
        });
    });
}

/// - given: a process that can map no more stacks
/// - when: a server is started that a source is to stop
/// - then: `serve` returns `OutOfMemory`, because nothing could stop the server
#[test]
fn serve_22_no_stack_for_the_wait_for_the_stop() {
    alone("no_stack::serve_22_no_stack_for_the_wait_for_the_stop", || {
        for workers in [1, 2] {
            with_large_stacks(workers, || {
                let (listener, _) = listen();
                let (_stop, stopped) = channel::bounded::<()>(0);
                let _limited = Limited::new();
                ecru::scope(|s| {
                    // The stacks that were mapped before are in use.
                    let held: Vec<_> = (0..4).map(|_| s.spawn(forever)).collect();
                    settle();
                    let error = listener.server().stop_when(stopped).serve(hold).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                    s.cancel();
                    held.into_iter().for_each(|task| _ = task.join());
                });
            });
        }
    });
}

/// - given: a process that can map no more stacks
/// - when: a task is spawned
/// - then: its closure is dropped, and the task has panicked with a text that says why and what to
///   do; a join returns it, and a scope without a join panics with it
#[test]
fn serve_21_no_stack_for_a_task() {
    alone("no_stack::serve_21_no_stack_for_a_task", || {
        with_large_stacks(1, || {
            let _limited = Limited::new();
            let said = panic_text(|| {
                ecru::scope(|s| {
                    let spawn = || s.spawn(|| ecru::yield_now().map(|()| _ = forever()));
                    let mut tasks: Vec<_> = (0..1000).map(|_| spawn()).collect();
                    settle();
                    s.cancel();
                    let text = tasks.drain(500..).find_map(|task| match task.join() {
                        Err(ecru::JoinError::Panicked(payload)) => {
                            payload.message().map(str::to_owned)
                        }
                        _ => None,
                    });
                    let text = text.unwrap();
                    assert!(text.contains("a stack cannot be mapped"), "{text}");
                    assert!(text.contains("ulimit -v"), "{text}");
                });
            });
            assert!(said.contains("a stack cannot be mapped"), "{said}");
        });
    });
}
