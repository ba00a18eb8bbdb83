//! Futures that need tokio, in tasks with one worker and with two, and on plain threads.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use common::{HOUR, OnDrop, alone, begin, each_run, ms, pair, panic_text, quiet_panic};
use ecru::source::{Either, either, race};
use ecru::{Cancelled, Source, channel};
use ecru_tokio::{AlreadyStarted, Builder, Direct, EcruIo, enter, inside, receiver, source, wait};
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// The thread is in no tokio runtime.
#[track_caller]
fn assert_outside() {
    assert!(Handle::try_current().is_err());
}

/// A future may wait for tokio's timers and tasks, borrow, and keep what is not `Send`.
#[test]
fn futures() {
    let body = || {
        let (words, count) = (vec!["one", "two"], Rc::new(Cell::new(0)));
        let result = wait(async {
            sleep(ms(1)).await;
            count.set(tokio::spawn(async { 7 }).await.unwrap());
            let blocking = tokio::task::spawn_blocking(|| 8).await.unwrap();
            (words.len(), blocking)
        });
        assert_eq!((result, count.get()), (Ok((2, 8)), 7));
        assert_outside();
    };
    each_run(body);
    thread::scope(|s| _ = s.spawn(body));
}

/// A cancellation or a limit drops the future before the call returns, inside the runtime. So do a
/// panic and the end of the future.
#[test]
fn the_end_of_a_future() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        let spawns = || {
            OnDrop(|| {
                tokio::spawn(async {});
                dropped.fetch_add(1, SeqCst);
            })
        };
        ecru::scope(|s| {
            let task = begin(s, || {
                let ended = wait(async {
                    let _spawns = spawns();
                    sleep(HOUR).await;
                });
                (ended, dropped.load(SeqCst))
            });
            task.cancel();
            let (ended, dropped) = task.join().unwrap();
            assert!(ended.is_err() && dropped == 1);
        });
        // The limit may pass before the first poll.
        let spawns_first = spawns();
        let endless = async move {
            let _spawns = spawns_first;
            pending::<()>().await;
        };
        let limited = ecru::timeout(ms(1), || wait(endless));
        assert!(limited.is_err() && dropped.load(SeqCst) == 2);
        let text = panic_text(|| {
            wait(async {
                let _spawns = spawns();
                sleep(ms(1)).await;
                quiet_panic("inside");
            })
        });
        assert_eq!((text.as_str(), dropped.load(SeqCst)), ("inside", 3));
        // A future that is never polled is dropped there, too.
        let spawns = spawns();
        let never = async move { drop(spawns) };
        let cancelled: Result<(), Cancelled> = ecru::cancel_scope(|c| {
            c.cancel();
            wait(never)
        });
        assert!(cancelled.is_err() && dropped.load(SeqCst) == 4);
        assert_outside();
        assert_eq!(wait(async { 7 }), Ok(7));
    });
}

/// A call of ecru that waits inside a future panics and says so, and the context is left.
#[test]
fn direct_style_inside() {
    each_run(|| {
        for call in [
            (|| _ = ecru::sleep(ms(1))) as fn(),
            || _ = wait(async {}),
            || _ = enter(ecru::yield_now),
        ] {
            let text = panic_text(|| wait(async { call() }));
            assert!(text.contains("no_suspend"), "{text}");
            assert_outside();
        }
        let text = panic_text(|| ecru::no_suspend(|| wait(async {})));
        assert!(text.contains("no_suspend"), "{text}");
    });
}

/// Tasks of one worker are inside one after another, and each is outside while it is parked.
#[test]
fn twenty_tasks_at_once() {
    each_run(|| {
        let listener = wait(TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let server = enter(|| {
            tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move {
                        let (mut reader, mut writer) = stream.split();
                        let _ = tokio::io::copy(&mut reader, &mut writer).await;
                    });
                }
            })
        });
        ecru::scope(|s| {
            for task in 0..20_u8 {
                s.spawn(move || {
                    let mut stream = wait(TcpStream::connect(address)).unwrap().unwrap();
                    for round in 0..20 {
                        let bytes = [task, round];
                        let echo = wait(async {
                            stream.write_all(&bytes).await?;
                            if round % 5 == 0 {
                                sleep(ms(1)).await;
                            }
                            let mut echo = [0; 2];
                            stream.read_exact(&mut echo).await.map(|_| echo)
                        });
                        assert_outside();
                        assert_eq!(echo.unwrap().unwrap(), bytes);
                        ecru::yield_now().unwrap();
                    }
                });
            }
        });
        server.abort();
    });
}

/// Tasks that are cancelled at random leave others alone: none of these misses its wake-up.
#[test]
fn a_storm_of_cancellations() {
    each_run(|| {
        for round in 0..20_u64 {
            ecru::scope(|s| {
                let tasks: Vec<_> = (0..20_u64)
                    .map(|task| {
                        s.spawn(move || {
                            for step in 0..5 {
                                let (sender, receiver) = oneshot::channel();
                                let got = wait(async move {
                                    tokio::spawn(async move {
                                        sleep(Duration::from_micros((task * step) % 300)).await;
                                        let _ = sender.send(step);
                                    });
                                    receiver.await.unwrap()
                                });
                                match got {
                                    Ok(got) => assert_eq!(got, step),
                                    Err(_) => return false,
                                }
                            }
                            true
                        })
                    })
                    .collect();
                let victims = tasks.iter().skip((round % 3) as usize).step_by(3);
                for victim in victims {
                    let _ = wait(async { sleep(Duration::from_micros(round * 10)).await });
                    victim.cancel();
                }
                let ended: Vec<_> = tasks.iter().map(|task| task.join()).collect();
                let whole = ended.iter().filter(|ended| matches!(ended, Ok(true))).count();
                assert!(whole >= 13, "{ended:?}");
            });
        }
    });
}

/// tokio's streams in direct style: what is written arrives, and a cancelled read loses nothing.
#[test]
fn streams_in_direct_style() {
    each_run(|| {
        let (one, other) = tokio::io::duplex(8);
        let (mut one, mut other) = (Direct::new(one), Direct::new(other));
        let (cut, has_been_cut) = channel::bounded(1);
        ecru::scope(|s| {
            let all = s.spawn(move || {
                let limited = ecru::timeout(ms(1), || {
                    let error = other.read(&mut [0; 4]).unwrap_err();
                    assert!(Cancelled::find(&error).is_some(), "{error}");
                });
                assert!(limited.is_err());
                cut.send(()).unwrap();
                let mut text = String::new();
                other.read_to_string(&mut text).map(|_| text)
            });
            has_been_cut.recv().unwrap();
            one.write_all(b"more than there is room for").unwrap();
            one.flush().unwrap();
            one.shutdown().unwrap();
            assert_eq!(all.join().unwrap().unwrap(), "more than there is room for");
        });
        assert_eq!(one.write(b"late").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    });
}

/// An ecru stream is polled by a task of ecru, and by a task of tokio on its thread.
#[test]
fn ecru_streams_in_tokio() {
    each_run(|| {
        let (ours, theirs) = pair();
        let mut theirs = EcruIo::new(theirs).unwrap();
        theirs.stream().set_nodelay(true).unwrap();
        let echo = enter(|| {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                theirs.read_to_end(&mut bytes).await?;
                theirs.write_all(&bytes).await?;
                theirs.shutdown().await?;
                io::Result::Ok(theirs.into_inner())
            })
        });
        let long = vec![7; 1_000_000];
        let mut ours = EcruIo::new(ours).unwrap();
        let back = ecru::block_on(async {
            ours.write_all(&long).await?;
            ours.shutdown().await?;
            let mut back = Vec::new();
            ours.read_to_end(&mut back).await?;
            io::Result::Ok(back)
        });
        assert_eq!(back.unwrap().unwrap().len(), long.len());
        wait(echo).unwrap().unwrap().unwrap();
    });
}

/// Items of tokio's channels and of streams in races: each goes to one waiter, none is lost by a
/// wait that ends otherwise, and the end is told to all.
#[test]
fn sources() {
    each_run(|| {
        let (sender, theirs) = mpsc::channel(4);
        let theirs = receiver(theirs);
        let (_own_sender, own) = channel::unbounded::<u32>();
        assert_eq!(theirs.try_take(), None);
        ecru::scope(|s| {
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    begin(s, || {
                        let mut sum = 0;
                        loop {
                            match either(&theirs, &own).wait().unwrap() {
                                Either::Left(Some(number)) => sum += number,
                                Either::Left(None) => return sum,
                                Either::Right(_) => panic!("nothing was sent"),
                            }
                        }
                    })
                })
                .collect();
            let cancelled = begin(s, || theirs.wait());
            cancelled.cancel();
            let lost = match cancelled.join().unwrap() {
                Ok(item) => panic!("nothing was sent, but there is {item:?}"),
                Err(_) => ecru::timeout(ms(1), || source(stream::pending::<u32>()).wait()),
            };
            assert!(lost.is_err());
            for number in 1..=100 {
                wait(sender.send(number)).unwrap().unwrap();
            }
            drop(sender);
            let sum: u32 = waiters.iter().map(|waiter| waiter.join().unwrap()).sum();
            assert_eq!(sum, 5050);
        });
        assert_eq!(theirs.wait(), Ok(None));
    });
}

/// Waiters of a stream that come and go while it has items miss none of them.
#[test]
fn a_storm_of_waiters() {
    each_run(|| {
        let (sender, theirs) = mpsc::unbounded_channel();
        let theirs = ecru_tokio::unbounded_receiver(theirs);
        let taken = AtomicUsize::new(0);
        const ITEMS: usize = 2000;
        ecru::scope(|s| {
            for task in 0..8 {
                let (theirs, taken) = (&theirs, &taken);
                s.spawn(move || {
                    for round in 0.. {
                        let item = if (round + task) % 3 == 0 {
                            let limit = Duration::from_micros(20);
                            // An item wins over the limit, so it is counted inside.
                            ecru::timeout(limit, || {
                                let item = theirs.wait();
                                taken.fetch_add(usize::from(matches!(item, Ok(Some(_)))), SeqCst);
                                item
                            })
                            .map_or(Some(()), |item| item.map_or(Some(()), |item| item))
                        } else {
                            let item = race([theirs, theirs]).wait().unwrap();
                            taken.fetch_add(usize::from(item.is_some()), SeqCst);
                            item
                        };
                        if item.is_none() {
                            return;
                        }
                    }
                });
            }
            enter(|| {
                tokio::spawn(async move {
                    for item in 0..ITEMS {
                        sender.send(()).unwrap();
                        if item % 7 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                })
            });
        });
        assert_eq!(taken.load(SeqCst), ITEMS);
    });
}

/// A stream whose poll panics gives the panic to its taker, and has ended.
#[test]
fn a_source_that_panics() {
    each_run(|| {
        let panics = source(stream::poll_fn(|_| -> Poll<Option<u8>> { quiet_panic("the stream") }));
        assert_eq!(panic_text(|| panics.wait()), "the stream");
        assert_eq!(panics.wait(), Ok(None));
    });
}

/// Wakers that are called during the poll, many times, and after the future has ended, are harmless.
#[test]
fn wakers() {
    each_run(|| {
        let mut polls = 0;
        let mut kept = None;
        let ended = wait(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            kept = Some(context.waker().clone());
            if polls == 100 { Poll::Ready(polls) } else { Poll::Pending }
        }));
        assert_eq!(ended, Ok(100));
        kept.unwrap().wake();
    });
}

/// A second builder is refused, and so are settings without threads.
#[test]
fn builders() {
    alone("builders", || {
        let none = Builder::new().workers(0).start().unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        Builder::new().workers(2).max_blocking_threads(1).start().unwrap();
        let again = Builder::new().start().unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let handle = ecru_tokio::handle().clone();
        assert_eq!(Builder::use_handle(handle), Err(AlreadyStarted));
        let name = || thread::current().name().map(String::from);
        let task = enter(|| tokio::spawn(async move { name() }));
        assert_eq!(wait(task).unwrap().unwrap().as_deref(), Some("ecru-tokio"));
    });
}

/// Handlers that ecru polls and that need tokio, and their drop inside its runtime.
#[test]
fn handlers_inside() {
    use axum::extract::Request;
    use axum::middleware::{Next, from_fn};
    use axum::response::Response;
    use axum::{Router, routing::get};

    async fn in_tokio(request: Request, next: Next) -> Response {
        inside(next.run(request)).await
    }
    async fn timed() -> &'static str {
        sleep(ms(1)).await;
        let _spawns = OnDrop(|| drop(tokio::spawn(async {})));
        tokio::spawn(async { "by tokio" }).await.unwrap()
    }
    each_run(|| {
        let router = Router::new().route("/", get(timed)).layer(from_fn(in_tokio));
        let listener = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| ecru_hyper::serve(&listener, router).run());
            let mut client = ecru::net::TcpStream::connect(address).unwrap();
            let request = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
            client.write_all(request).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\nby tokio"), "{answer}");
        });
        assert_outside();
    });
    // A future that is given up while it is pending.
    each_run(|| {
        let dropped = Rc::new(Cell::new(false));
        let future = inside({
            let _spawns = OnDrop(|| {
                assert!(Handle::try_current().is_ok());
            });
            let dropped = Rc::clone(&dropped);
            async move {
                let _spawns = _spawns;
                let _marks = OnDrop(|| dropped.set(true));
                pending::<()>().await;
            }
        });
        let limited = ecru::timeout(ms(1), || ecru::block_on(future).is_err());
        assert!(limited.is_err() && dropped.get());
        assert_outside();
    });
}
