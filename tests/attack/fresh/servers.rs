//! Servers whose connections panic, leak and get no stacks, and whose handlers panic.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ecru::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ecru::source::WaitList;
use ecru::{Cancelled, Placement, Source, channel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{OnDrop, on_each_driver};
use crate::common::{
    alone, await_workers, begin, each_run, forever, listen, ms, panic_text, quiet_panic, run_on,
    until,
};

/// The size of a stack that cannot be mapped after [`limit_address_space`].
const LARGE_STACK: usize = 64 << 20;
const SMALL_STACK: usize = 256 << 10;

fn limit_address_space() {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    let limit = pages * rustix::param::page_size() as u64 + LARGE_STACK as u64 / 2;
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(limit), ..before }).unwrap();
}

/// Runs `body` with stacks that cannot be mapped, except for tasks that ask for small ones.
fn without_stacks(workers: usize, body: impl FnOnce()) {
    let _watchdog = crate::common::Watchdog::new();
    let builder = ecru::Runtime::builder().workers(workers).stack_size(LARGE_STACK);
    builder.placement(Placement::Together).build().unwrap().run(|| {
        await_workers(workers);
        limit_address_space();
        body();
    });
}

fn is_closed_at_once(address: SocketAddr) -> bool {
    !matches!(TcpStream::connect(address).unwrap().read(&mut [0]), Ok(1))
}

/// There is no stack for anything from the start, not even for the tasks of the server itself.
fn no_stack_from_the_start(workers: usize, handler: bool) {
    without_stacks(workers, || {
        let (listener, address) = listen();
        let errors = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let server = s.builder().stack_size(SMALL_STACK).spawn_local(|| {
                let server = listener.server();
                let server = match handler {
                    true => server.on_error(|error, peer| {
                        errors.lock().unwrap().push((error.kind(), peer.is_some()));
                    }),
                    false => server,
                };
                server.serve(|mut stream, _| stream.write_all(b"x"))
            });
            for _ in 0..3 {
                assert!(is_closed_at_once(address));
            }
            assert!(!server.is_finished());
            server.cancel();
            let error = server.join().unwrap().unwrap_err();
            assert!(Cancelled::find(&error).is_some(), "{error:?}");
        });
        let errors = errors.into_inner().unwrap();
        assert_eq!(errors.len(), if handler { 3 } else { 0 });
        assert!(errors.iter().all(|seen| *seen == (ErrorKind::OutOfMemory, true)));
    });
}

#[test]
fn no_stack_from_the_start_and_no_handler() {
    alone("fresh::servers::no_stack_from_the_start_and_no_handler", || {
        no_stack_from_the_start(1, false);
    });
}

#[test]
fn no_stack_from_the_start_and_a_handler() {
    alone("fresh::servers::no_stack_from_the_start_and_a_handler", || {
        no_stack_from_the_start(1, true);
    });
}

#[test]
fn no_stack_from_the_start_on_two_workers() {
    alone("fresh::servers::no_stack_from_the_start_on_two_workers", || {
        no_stack_from_the_start(2, true);
    });
}

/// A Unix server refuses as well. Its handler panics each time. When there are stacks again, the
/// server serves.
#[test]
fn no_stack_and_a_handler_that_panics() {
    alone("fresh::servers::no_stack_and_a_handler_that_panics", || {
        let (calls, unlimited) = (AtomicUsize::new(0), getrlimit(Resource::As));
        without_stacks(1, || {
            let name = format!("ecru-refuses-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
            let listener = UnixListener::bind_addr(&address).unwrap();
            let ask = || {
                let mut stream = UnixStream::connect_addr(&address).unwrap();
                stream.read(&mut [0]).is_ok_and(|count| count == 1)
            };
            ecru::scope(|s| {
                let server = s.builder().stack_size(SMALL_STACK).spawn_local(|| {
                    let server = listener.server().limit(1).on_error(|_, _| {
                        calls.fetch_add(1, SeqCst);
                        quiet_panic("the handler")
                    });
                    server.serve(|mut stream, _| stream.write_all(b"x"))
                });
                (0..4).for_each(|_| assert!(!ask()));
                setrlimit(Resource::As, unlimited).unwrap();
                (0..4).for_each(|_| assert!(ask()));
                server.cancel();
                let error = server.join().unwrap().unwrap_err();
                assert!(Cancelled::find(&error).is_some(), "{error:?}");
            });
        });
        assert_eq!(calls.into_inner(), 4);
    });
}

/// A refused connection at the moment when the server is cancelled, or stops with no grace. There
/// is no stack for waiting for the stop either: the server ends and says so, instead of going on
/// without it.
#[test]
fn refusals_while_the_server_stops() {
    alone("fresh::servers::refusals_while_the_server_stops", || {
        without_stacks(1, || {
            for round in 0..20 {
                let (listener, address) = listen();
                let (stop, stopped) = channel::bounded::<()>(0);
                let refused = AtomicUsize::new(0);
                let mut clients = Vec::new();
                ecru::scope(|s| {
                    let server = s.builder().stack_size(SMALL_STACK).spawn_local(|| {
                        let server = listener.server().grace(ms(0));
                        let server =
                            if round % 2 == 0 { server } else { server.stop_when(&stopped) };
                        server
                            .on_error(|_, _| _ = refused.fetch_add(1, SeqCst))
                            .serve(|_, _| unreachable!("it has no stack"))
                    });
                    clients.extend((0..3).map(|_| TcpStream::connect(address).unwrap()));
                    (0..round / 2).for_each(|_| _ = ecru::yield_now());
                    if round % 2 == 0 {
                        server.cancel();
                    }
                    drop(stop);
                    match server.join() {
                        Ok(Err(error)) if round % 2 == 0 => {
                            assert!(Cancelled::find(&error).is_some(), "{error}");
                        }
                        Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
                        served => panic!("{served:?}"),
                    }
                });
                drop(listener);
                for mut client in clients {
                    assert_ne!(client.read(&mut [0]).ok(), Some(1));
                }
                assert!(refused.into_inner() <= 3);
            }
        });
    });
}

/// A payload that panics when it is dropped, with and without a handler.
#[test]
fn payloads_that_panic() {
    each_run(|| {
        for with_handler in [false, true] {
            let (listener, address) = listen();
            let dropped = &*Box::leak(Box::new(AtomicUsize::new(0)));
            ecru::scope(|s| {
                let server = s.spawn(|| {
                    let server = listener.server().limit(1);
                    let server = match with_handler {
                        true => server.on_panic(|payload, _| {
                            let caught = panic_text(|| drop(payload.into_inner()));
                            assert_eq!(caught, "in the payload");
                        }),
                        false => server,
                    };
                    server.serve(|mut stream, _| {
                        let mut byte = [0];
                        stream.read_exact(&mut byte)?;
                        if byte == *b"!" {
                            std::panic::resume_unwind(Box::new(OnDrop(move || {
                                dropped.fetch_add(1, SeqCst);
                                quiet_panic("in the payload")
                            })));
                        }
                        stream.write_all(&byte)
                    })
                });
                for round in 1..6 {
                    let mut bad = TcpStream::connect(address).unwrap();
                    bad.write_all(b"!").unwrap();
                    assert_eq!(bad.read(&mut [0]).unwrap(), 0);
                    until(|| dropped.load(SeqCst) == round);
                    let mut good = TcpStream::connect(address).unwrap();
                    good.write_all(b".").unwrap();
                    good.read_exact(&mut [0]).unwrap();
                }
                server.cancel();
                server.join().unwrap().unwrap_err();
            });
        }
    });
}

/// Connections panic while the server waits for them after a stop: by themselves, and because they
/// were cancelled.
#[test]
fn panics_during_the_grace() {
    for workers in [1, 2, 4] {
        run_on(workers, || {
            let (listener, address) = listen();
            let (stop, stopped) = channel::bounded::<()>(0);
            let (entered, panics) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                let server = s.spawn(|| {
                    let server = listener.server().grace(ms(5)).stop_when(stopped);
                    server.on_panic(|_, _| _ = panics.fetch_add(1, SeqCst)).serve(|_, _| {
                        if entered.fetch_add(1, SeqCst) % 2 == 0 {
                            _ = ecru::shield(|| ecru::sleep(ms(1)));
                        } else {
                            _ = forever();
                        }
                        quiet_panic("late")
                    })
                });
                let _clients: Vec<_> =
                    (0..6).map(|_| TcpStream::connect(address).unwrap()).collect();
                until(|| entered.load(SeqCst) == 6);
                drop(stop);
                server.join().unwrap().unwrap();
            });
            assert_eq!(panics.into_inner(), 6);
        });
    }
}

/// Several handlers panic at once. The server ends with one of the panics, after all connections.
#[test]
fn handlers_that_panic_at_once() {
    for workers in [1, 2, 4] {
        let open = AtomicUsize::new(0);
        run_on(workers, || {
            let (listener, address) = listen();
            let (go, may_go) = channel::bounded::<()>(0);
            let text = panic_text(|| {
                ecru::scope(|s| {
                    s.spawn(|| {
                        let _clients: Vec<_> =
                            (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
                        until(|| open.load(SeqCst) == 8);
                        drop(go);
                        forever();
                    });
                    _ = listener.server().on_panic(|_, _| quiet_panic("a handler")).serve(
                        |_, _| {
                            open.fetch_add(1, SeqCst);
                            let _left = OnDrop(|| _ = open.fetch_sub(1, SeqCst));
                            _ = may_go.recv();
                            quiet_panic("a connection")
                        },
                    );
                })
            });
            assert_eq!(text, "a handler");
            assert_eq!(open.load(SeqCst), 0);
        });
    }
}

/// The source that stops the server panics. The server ends, and says so, instead of serving on.
#[test]
fn a_stop_source_that_panics() {
    struct Panics<'a>(&'a AtomicUsize);
    impl Source for Panics<'_> {
        type Item = ();
        fn try_take(&self) -> Option<()> {
            self.0.fetch_add(1, SeqCst);
            quiet_panic("no source")
        }
        fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a WaitList)) {}
    }
    each_run(|| {
        let (listener, _) = listen();
        let looks = AtomicUsize::new(0);
        let text = panic_text(|| listener.server().stop_when(Panics(&looks)).serve(|_, _| Ok(())));
        assert!(text.contains("no source"), "{text}");
        assert_eq!(looks.into_inner(), 1);
    });
}

/// The server is cancelled before it begins, and its stop is there before it begins.
#[test]
fn servers_that_end_before_they_begin() {
    on_each_driver(2, || {
        let (listener, address) = listen();
        let mut waiting = TcpStream::connect(address).unwrap();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                _ = forever();
                listener.serve(usize::MAX, |_, _| unreachable!("it was cancelled"))
            });
            server.cancel();
            match server.join() {
                Ok(served) => assert!(Cancelled::find(&served.unwrap_err()).is_some()),
                Err(error) => assert!(matches!(error, ecru::JoinError::Cancelled), "{error:?}"),
            }
        });
        // The connection is still in the queue.
        let served = AtomicUsize::new(0);
        ecru::scope(|s| {
            let (stop, stopped) = channel::bounded::<()>(0);
            let server = s.spawn(|| {
                let server = listener.server().limit(usize::MAX).stop_when(stopped);
                server.serve(|mut stream, _| {
                    served.fetch_add(1, SeqCst);
                    stream.write_all(b"x")
                })
            });
            waiting.read_exact(&mut [0]).unwrap();
            drop(stop);
            server.join().unwrap().unwrap();
        });
        assert_eq!(served.into_inner(), 1);
        listener.server().stop_when(ecru::source::ready(())).serve(|_, _| Ok(())).unwrap();
    });
}

/// Two servers on one listener, one inside a connection of the other, and streams that are leaked.
#[test]
#[expect(clippy::mem_forget, reason = "a leaked stream is the attack")]
fn servers_in_servers_and_leaked_streams() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (listener, address) = listen();
            let inner = AtomicUsize::new(0);
            let serve_inside = |stream: TcpStream, _: SocketAddr| -> io::Result<()> {
                std::mem::forget(stream);
                listener.serve(3, |mut stream, _| {
                    stream.write_all(b"inner")?;
                    inner.fetch_add(1, SeqCst);
                    std::mem::forget(stream.try_clone()?);
                    Ok(())
                })
            };
            ecru::scope(|s| {
                let server = s.spawn(|| listener.serve(1, serve_inside));
                let leaked = TcpStream::connect(address).unwrap();
                for _ in 0..5 {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.read_exact(&mut [0; 5]).unwrap();
                }
                until(|| inner.load(SeqCst) == 5);
                server.cancel();
                let error = server.join().unwrap().unwrap_err();
                assert!(Cancelled::find(&error).is_some());
                leaked.set_nonblocking(true).unwrap();
                let kind = (&leaked).read(&mut [0]).unwrap_err().kind();
                assert_eq!(kind, ErrorKind::WouldBlock);
            });
        });
    }
}

/// With a limit of one, neither panics nor errors nor panicking error handlers keep the place.
#[test]
fn a_place_is_given_back_after_each_end() {
    on_each_driver(2, || {
        let (listener, address): (TcpListener, _) = listen();
        let count = AtomicUsize::new(0);
        ecru::scope(|s| {
            let server = begin(s, || {
                let server = listener.server().limit(1).on_error(|error, _| {
                    if error.kind() == ErrorKind::AddrInUse {
                        quiet_panic("in the handler of errors");
                    }
                });
                server.serve(|_, _| match count.fetch_add(1, SeqCst) % 4 {
                    0 => quiet_panic("in the connection"),
                    1 => Err(ErrorKind::AddrInUse.into()),
                    2 => Err(ErrorKind::InvalidData.into()),
                    _ => Ok(()),
                })
            });
            for _ in 0..40 {
                assert_ne!(TcpStream::connect(address).unwrap().read(&mut [0]).ok(), Some(1));
            }
            until(|| count.load(SeqCst) == 40);
            server.cancel();
            server.join().unwrap().unwrap_err();
        });
    });
}
