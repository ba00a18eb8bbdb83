//! Rows of `doc/behaviour/serve.md`.

use crate::common::resident_bytes;
use crate::streams::{assert_cancelled, listen, loud};
use crate::support::{
    HOUR, alone, begin, each_run, forever, ms, now, panic_text, quiet_panic, run_on, settle, since,
    until,
};
use ecru::channel;
use ecru::net::{Shutdown, TcpStream, UnixListener, UnixStream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::{HashSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// Serves a connection by echoing.
pub(crate) fn echo(mut stream: TcpStream, _: SocketAddr) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Connects a client, which sends one request and reads the answer.
pub(crate) fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"ping");
    stream
}

/// - row: `serve_01_serves`
/// - given: a listener that serves
/// - when: clients come while others are being served
/// - then: each is served on a task of its own, and these spread over the workers
#[test]
fn serve_01_serves_each_on_a_task_of_its_own() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            let server = s.spawn(|| listener.serve(10, echo));
            // No connection has ended when the next one comes.
            let clients: Vec<_> = (0..5).map(|_| ask(address)).collect();
            for mut client in clients {
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
            }
            server.cancel();
            assert_cancelled(&server.join().unwrap().unwrap_err());
        });
    });
}

#[test]
fn serve_01_serves_on_every_worker() {
    run_on(2, || {
        let (listener, address) = listen();
        let threads = Mutex::new(HashSet::new());
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                listener.serve(1000, |stream, peer| {
                    threads.lock().unwrap().insert(thread::current().id());
                    echo(stream, peer)
                })
            });
            // The other worker serves one as soon as the system gives it a core.
            let mut clients = VecDeque::new();
            until(|| {
                clients.push_back(ask(address));
                clients.drain(..clients.len().saturating_sub(100));
                threads.lock().unwrap().len() == 2
            });
        });
    });
}

/// - given: a limit of 3
/// - when: 20 clients connect at once
/// - then: at most 3 are served at a time, and all are served in the end
#[test]
fn serve_02_at_most_so_many_at_once() {
    each_run(|| {
        let (listener, address) = listen();
        let (now, most, served) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                listener.serve(3, |_, _| {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    // All slots are taken, and a fourth connection would have the time to come.
                    until(|| most.load(SeqCst) >= 3);
                    settle();
                    now.fetch_sub(1, SeqCst);
                    served.fetch_add(1, SeqCst);
                    Ok(())
                })
            });
            let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
            until(|| served.load(SeqCst) == clients.len());
        });
        assert_eq!(most.load(SeqCst), 3);
    });
}

/// - given: a connection whose function fails
/// - when: others are served
/// - then: the handler gets the error and the peer, once; the other connections are not affected; a
///   cancellation is not reported as an error
#[test]
fn serve_03_errors_of_one_connection() {
    each_run(|| {
        let (listener, address) = listen();
        let errors = Mutex::new(Vec::new());
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                listener
                    .server()
                    .on_error(|error, peer| {
                        errors.lock().unwrap().push((error.kind(), peer.unwrap()));
                    })
                    .serve(|mut stream, peer| {
                        let mut bytes = [0; 4];
                        stream.read_exact(&mut bytes)?;
                        stream.write_all(&bytes)?;
                        echo(stream, peer)
                    })
            });
            let good = ask(address);
            let bad = TcpStream::connect(address).unwrap();
            (&bad).write_all(b"??").unwrap();
            bad.shutdown(Shutdown::Write).unwrap();
            until(|| !errors.lock().unwrap().is_empty());
            let from = bad.local_addr().unwrap();
            assert_eq!(*errors.lock().unwrap(), [(ErrorKind::UnexpectedEof, from)]);
            // The other connections are not affected.
            (&good).write_all(b"more").unwrap();
            (&good).read_exact(&mut [0; 4]).unwrap();
            ask(address);
        });
        assert_eq!(errors.lock().unwrap().len(), 1, "that the rest was cancelled is no error");
    });
}

/// A payload whose destructor panics.
struct BadPayload;

impl Drop for BadPayload {
    fn drop(&mut self) {
        quiet_panic("a payload");
    }
}

/// Runs `serve` on a task, with connections that panic. Then ends it by `end` and returns its
/// result.
fn after_panics<T: Send>(
    serve: impl FnOnce(&ecru::net::TcpListener) -> T + Send,
    end: impl FnOnce(&ecru::JoinHandle<'_, T>),
) -> T {
    let (listener, address) = listen();
    ecru::scope(|s| {
        let server = s.spawn(|| serve(&listener));
        for byte in [b'!', b'?', b'!', b'.'] {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(&[byte]).unwrap();
            let mut reply = Vec::new();
            client.read_to_end(&mut reply).unwrap();
            assert_eq!(reply.is_empty(), byte != b'.');
        }
        assert!(!server.is_finished());
        end(&server);
        server.join().unwrap()
    })
}

/// Panics if the client asks for that.
fn fragile(mut stream: TcpStream, _: SocketAddr) -> io::Result<()> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    match &byte {
        b"!" => quiet_panic("a connection"),
        b"?" => std::panic::resume_unwind(Box::new(BadPayload)),
        _ => stream.write_all(&byte),
    }
}

/// - given: connections that panic
/// - when: others are served, and the server stops or is cancelled
/// - then: the others continue, and `serve` returns what it would return without the panics; a
///   handler gets each panic with the peer
#[test]
fn serve_04_panics_of_one_connection() {
    each_run(|| {
        let (stop, stopped) = channel::bounded::<()>(0);
        let result = after_panics(
            |listener| listener.server().stop_when(stopped).serve(fragile),
            |_| drop(stop),
        );
        result.unwrap();
    });
}

#[test]
fn serve_04_panics_of_one_connection_and_a_cancellation() {
    each_run(|| {
        let result = after_panics(|listener| listener.serve(10, fragile), |server| server.cancel());
        assert_cancelled(&result.unwrap_err());
    });
}

#[test]
fn serve_04_panics_of_one_connection_for_a_handler_of_errors() {
    each_run(|| {
        let panics = Mutex::new(Vec::new());
        let (stop, stopped) = channel::bounded::<()>(0);
        let result = after_panics(
            |listener| {
                listener
                    .server()
                    .stop_when(stopped)
                    .on_error(|_, _| quiet_panic("the handler of errors"))
                    .on_panic(|payload, _| {
                        panics.lock().unwrap().push(payload.message().map(str::to_owned));
                    })
                    .serve(|mut stream, _| {
                        let mut byte = [0];
                        stream.read_exact(&mut byte)?;
                        if byte != *b"." {
                            return Err(io::Error::other("on purpose"));
                        }
                        stream.write_all(&byte)
                    })
            },
            |_| drop(stop),
        );
        result.unwrap();
        assert_eq!(*panics.lock().unwrap(), vec![Some("the handler of errors".to_owned()); 3]);
    });
}

#[test]
fn serve_04_panics_of_one_connection_for_a_handler() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(0);
        let panics = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let server = s.spawn(|| {
                listener
                    .server()
                    .stop_when(stopped)
                    .on_panic(|payload, peer| {
                        panics.lock().unwrap().push((payload.message().map(String::from), peer));
                    })
                    .serve(|_, _| quiet_panic("a connection"))
            });
            let client = TcpStream::connect(address).unwrap();
            until(|| !panics.lock().unwrap().is_empty());
            let expected = (Some("a connection".to_owned()), client.local_addr().unwrap());
            assert_eq!(*panics.lock().unwrap(), [expected]);
            drop(stop);
            server.join().unwrap().unwrap();
        });
    });
}

/// - given: a handler of panics that panics itself, and another connection that is open
/// - when: a connection panics
/// - then: nothing more is accepted, the other connection is cancelled and awaited, and `serve`
///   resumes the handler's first panic without being asked to stop
#[test]
fn serve_19_a_handler_that_panics_ends_the_server() {
    each_run(|| {
        let (listener, address) = listen();
        let cancelled = AtomicBool::new(false);
        let text = panic_text(|| {
            ecru::scope(|s| {
                let server = s.spawn(|| {
                    listener.server().on_panic(|_, _| quiet_panic("the handler")).serve(
                        |stream, peer| {
                            let result = fragile(stream, peer);
                            assert_cancelled(&forever().into());
                            cancelled.store(true, SeqCst);
                            result
                        },
                    )
                });
                let mut open = TcpStream::connect(address).unwrap();
                open.write_all(b".").unwrap();
                open.read_exact(&mut [0]).unwrap();
                let mut bad = TcpStream::connect(address).unwrap();
                bad.write_all(b"!").unwrap();
                match server.join() {
                    Err(ecru::JoinError::Panicked(payload)) => {
                        std::panic::resume_unwind(payload.into_inner())
                    }
                    other => panic!("{other:?}"),
                }
            });
        });
        assert_eq!(text, "the handler");
        assert!(cancelled.load(SeqCst));
    });
}

/// - given: a task that serves
/// - when: it is cancelled
/// - then: its connections are cancelled and awaited, and it returns `Cancelled`
#[test]
fn serve_05_cancelled() {
    each_run(|| {
        let (listener, address) = listen();
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let result = listener.serve(10, |mut stream, _| {
                    stream.write_all(b"x")?;
                    let error = stream.read(&mut [0]).unwrap_err();
                    assert_cancelled(&error);
                    ended.fetch_add(1, SeqCst);
                    Err(error)
                });
                (result, ended.load(SeqCst))
            });
            let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
            for mut client in &clients {
                client.read_exact(&mut [0]).unwrap();
            }
            server.cancel();
            let (result, ended) = server.join().unwrap();
            assert_cancelled(&result.unwrap_err());
            assert_eq!(ended, 3, "none outlives the call");
        });
        assert!(ecru::timeout(ms(3), || listener.serve(1, echo)).is_err());
    });
}

/// - given: a source that says when to stop
/// - when: it has an item, or its channel is disconnected
/// - then: nothing more is accepted, even if all slots are taken; accepted connections continue to
///   their end, then `serve` returns `Ok`
#[test]
fn serve_06_stop() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(1);
        ecru::scope(|s| {
            let server = s.spawn(|| listener.server().stop_when(stopped).serve(echo));
            let mut client = ask(address);
            stop.send(()).unwrap();
            // From some client on, they stay in the listener's queue.
            let is_late = |late: &mut TcpStream| {
                late.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::TimedOut)
            };
            let mut late = None;
            until(|| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(ms(3))).unwrap();
                stream.write_all(b"ping").unwrap();
                late = is_late(&mut stream).then_some(stream);
                late.is_some()
            });
            // Accepted connections continue.
            client.write_all(b"more").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
            assert!(!server.is_finished());
            drop(client);
            let mut late = late.unwrap();
            late.shutdown(Shutdown::Write).unwrap();
            server.join().unwrap().unwrap();
            // A client that was only slow has its answer by now.
            let own = late.local_addr().unwrap();
            listener.set_nonblocking(true).unwrap();
            until(|| !is_late(&mut late) || listener.accept().is_ok_and(|(_, from)| from == own));
        });
    });
}

#[test]
fn serve_06_stop_while_all_places_are_taken() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(1);
        ecru::scope(|s| {
            let server = s.spawn(|| listener.server().limit(1).stop_when(stopped).serve(echo));
            let client = ask(address);
            stop.send(()).unwrap();
            settle();
            drop(client);
            server.join().unwrap().unwrap();
        });
    });
}

/// - given: a grace period
/// - when: connections outlast it, or do not
/// - then: they are cancelled when it is over, and awaited; if all end earlier, `serve` ends then
#[test]
fn serve_07_grace() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(1);
        let grace = ms(8);
        let cancelled = AtomicBool::new(false);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                listener
                    .server()
                    .stop_when(stopped)
                    .grace(grace)
                    .on_error(|error, _| panic!("{error}"))
                    .serve(|mut stream, _| {
                        stream.write_all(b"x")?;
                        let end = forever();
                        cancelled.store(true, SeqCst);
                        Err(end.into())
                    })
            });
            let mut client = TcpStream::connect(address).unwrap();
            client.read_exact(&mut [0]).unwrap();
            let start = now();
            stop.send(()).unwrap();
            server.join().unwrap().unwrap();
            assert!((grace..HOUR / 100).contains(&since(start)));
        });
        assert!(cancelled.load(SeqCst));
    });
}

#[test]
fn serve_07_grace_not_needed() {
    each_run(|| {
        let (listener, address) = listen();
        let (stop, stopped) = channel::bounded::<()>(1);
        ecru::scope(|s| {
            let server = s.spawn(|| listener.server().stop_when(stopped).grace(HOUR).serve(echo));
            drop(ask(address));
            stop.send(()).unwrap();
            server.join().unwrap().unwrap();
        });
    });
}

/// Returns the number of open sockets. Other descriptors are not counted, because workers open them
/// when they need them.
fn open_sockets() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// - given: a process that may open only a few more files
/// - when: more clients connect
/// - then: the handler gets an error without a peer, `serve` pauses, and all clients are served in
///   the end
#[test]
fn serve_08_too_many_open_files() {
    const CLIENTS: usize = 20;
    const FREE: usize = 3;
    alone("serve::serve_08_too_many_open_files", || {
        run_on(1, || {
            let (listener, address) = listen();
            let shortages = Mutex::new(Vec::new());
            // The driver has opened its descriptors.
            assert!(ecru::timeout(ms(1), || listener.accept()).is_err());
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
            let before = getrlimit(Resource::Nofile);
            let few = Some(CLIENTS as u64 + 50);
            setrlimit(Resource::Nofile, Rlimit { current: few, ..before }).unwrap();
            let mut rest = Vec::new();
            while let Ok(file) = std::fs::File::open("/dev/null") {
                rest.push(file);
            }
            rest.truncate(rest.len() - FREE);
            ecru::scope(|s| {
                s.spawn_daemon(|| {
                    listener
                        .server()
                        .on_error(|error, peer| {
                            assert!(peer.is_none());
                            shortages.lock().unwrap().push(error.raw_os_error());
                        })
                        .serve(|mut stream, _| stream.write_all(b"x"))
                });
                for mut client in &clients {
                    client.read_exact(&mut [0]).unwrap();
                }
            });
            setrlimit(Resource::Nofile, before).unwrap();
            let shortages = shortages.into_inner().unwrap();
            assert!(!shortages.is_empty());
            assert!(
                shortages
                    .iter()
                    .all(|errno| *errno == Some(rustix::io::Errno::MFILE.raw_os_error())),
                "{shortages:?}"
            );
            // There is a pause each time, and not a busy loop.
            assert!(shortages.len() <= CLIENTS, "{}", shortages.len());
        });
    });
}

/// - given: a `UnixListener`
/// - when: it serves
/// - then: it acts as a `TcpListener`
#[test]
fn serve_09_unix() {
    each_run(|| {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ecru-serve-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let (stop, stopped) = channel::bounded::<()>(1);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                listener.server().stop_when(stopped).serve(|mut stream, peer| {
                    assert!(peer.is_unnamed());
                    stream.write_all(b"hello")
                })
            });
            for _ in 0..3 {
                let mut text = String::new();
                let mut client = UnixStream::connect_addr(&address).unwrap();
                client.read_to_string(&mut text).unwrap();
                assert_eq!(text, "hello");
            }
            stop.send(()).unwrap();
            server.join().unwrap().unwrap();
        });
        assert!(ecru::timeout(ms(2), || listener.serve(1, |_, _| Ok(()))).is_err());
    });
}

/// - given: a limit of 0
/// - when: `serve` is called
/// - then: `InvalidInput`
#[test]
fn serve_10_a_limit_of_none() {
    each_run(|| {
        let (listener, _) = listen();
        assert_eq!(listener.serve(0, echo).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

/// - given: a listener that is shut down
/// - when: it serves
/// - then: it stops as if it had been asked to, and returns the error
#[test]
fn serve_11_a_listener_of_no_use() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            let server = begin(s, || listener.serve(5, echo));
            let client = ask(address);
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
            settle();
            assert!(!server.is_finished(), "a connection is open");
            drop(client);
            let error = server.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        });
    });
}

/// Opens `connections` connections, one after another on each of four tasks. Nothing is left of
/// them. (For a minute: `tests/churn.rs`.)
fn churn(connections: usize) {
    const CLIENTS: usize = 4;
    ecru::Runtime::builder().workers(2).placement(ecru::Placement::Together).build().unwrap().run(
        || {
            let (listener, address) = listen();
            let served = AtomicUsize::new(0);
            ecru::scope(|s| {
                s.spawn_daemon(|| {
                    listener.serve(100, |stream, peer| {
                        let result = echo(stream, peer);
                        served.fetch_add(1, SeqCst);
                        result
                    })
                });
                let round = |count: usize| {
                    let before = served.load(SeqCst);
                    ecru::scope(|s| {
                        for _ in 0..CLIENTS {
                            s.spawn(|| (0..count / CLIENTS).for_each(|_| drop(ask(address))));
                        }
                    });
                    until(|| served.load(SeqCst) == before + count / CLIENTS * CLIENTS);
                };
                round(connections / 4);
                let (sockets, bytes) = (open_sockets(), resident_bytes());
                round(connections);
                assert_eq!(open_sockets(), sockets);
                let more = resident_bytes().saturating_sub(bytes);
                eprintln!("{connections} connections, {more} bytes more");
                assert!(more < 1 << 20, "{more} bytes more than before, which were {bytes}");
            });
        },
    );
}

/// - given: thousands of connections, one after another
/// - when: all have ended
/// - then: the number of open descriptors and the memory in use are the same as before
#[test]
fn serve_12_churn_leaks_nothing() {
    alone("serve::serve_12_churn_leaks_nothing", || churn(400));
}

#[test]
fn serve_12_churn_leaks_nothing_slow_at_full_speed() {
    let _loud = loud();
    let test = "serve::serve_12_churn_leaks_nothing_slow_at_full_speed";
    alone(test, || churn(4_000));
}

/// - given: a listener that serves
/// - when: a connection makes a dump
/// - then: the task of the connection is spawned at the place of the call of `serve`
#[test]
fn serve_18_connections_are_spawned_at_the_call() {
    run_on(1, || {
        let (listener, address) = listen();
        let places = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let serving_line = line!() + 2;
            let server = s.spawn(|| {
                listener.serve(10, |stream, peer| {
                    let me = ecru::task::current().id();
                    let dump = ecru::RuntimeHandle::current().dump();
                    let own = dump.tasks().find(|task| task.id() == me).unwrap();
                    places.lock().unwrap().push(own.spawned_at());
                    echo(stream, peer)
                })
            });
            drop(ask(address));
            server.cancel();
            assert_cancelled(&server.join().unwrap().unwrap_err());
            let place = places.lock().unwrap()[0];
            assert!(place.file().ends_with("serve.rs"), "{place}");
            assert_eq!(place.line(), serving_line);
        });
    });
}
