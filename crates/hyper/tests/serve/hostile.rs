//! The client against servers that break the protocol, are slow, or do not end.
#![expect(clippy::mem_forget, reason = "answers and clients that are forgotten are attacks")]

use std::io::{self, Read as _, Write as _};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ecru::Scope;
use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::client;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;

use crate::common::{HOUR, each_run, ms, until};
use crate::requests::head;

/// Starts a server that calls `answer` with each connection and its number, and returns its URL.
fn answering<'scope>(
    s: &'scope Scope<'scope, '_>,
    answer: impl Fn(usize, TcpStream) + Send + Sync + 'scope,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    s.spawn_daemon(move || {
        let number = AtomicUsize::new(0);
        listener.serve(100, |stream, _| {
            answer(number.fetch_add(1, SeqCst), stream);
            Ok(())
        })
    });
    url
}

/// Writes pieces until the client has closed the connection, and returns how many bytes it wrote.
fn flood(mut stream: &TcpStream, begin: &[u8], piece: &[u8], pause: Duration) -> usize {
    let mut sent = begin.len();
    if stream.write_all(begin).is_err() {
        return 0;
    }
    while stream.write_all(piece).is_ok() {
        sent += piece.len();
        if !pause.is_zero() && ecru::sleep(pause).is_err() {
            break;
        }
    }
    sent
}

/// Answers that are no HTTP, or that contradict themselves, are errors.
#[test]
fn answers_that_are_wrong() {
    const ANSWERS: [&str; 12] = [
        "",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    ];
    each_run(|| {
        ecru::scope(|s| {
            let url = answering(s, |number, mut stream| {
                head(&mut stream);
                stream.write_all(ANSWERS[number].as_bytes()).unwrap();
            });
            let client = client(s).build();
            for answer in ANSWERS {
                let all = client.get(&url).and_then(|response| response.into_body().bytes());
                assert!(all.is_err(), "{answer:?} gave {all:?}");
            }
        });
    });
}

/// Heads that do not end, by size and by number, are errors after a bounded number of bytes, and
/// the connection is closed.
#[test]
fn heads_that_are_too_large() {
    each_run(|| {
        let (ended, sizes) = channel::bounded(1);
        ecru::scope(|s| {
            let url = answering(s, |number, mut stream| {
                head(&mut stream);
                let begin = b"HTTP/1.1 200 OK\r\nLong: ";
                let piece = [b"a".repeat(4096), b"a: b\r\n".repeat(600)][number % 2].clone();
                ended.send(flood(&stream, begin, &piece, Duration::ZERO)).unwrap();
            });
            let client = client(s).build();
            for _ in 0..2 {
                assert!(client.get(&url).is_err());
                // What the kernel takes on both sides is a part of it.
                assert!(sizes.recv().unwrap() < 32 << 20);
            }
        });
    });
}

/// An answer that never comes to an end is ended by a limit, at any place: a head that drips,
/// announcements without an answer, and a body. Its connection is closed.
#[test]
fn answers_without_an_end() {
    const OK: &str = "HTTP/1.1 200 OK\r\n";
    let cases: [(&str, &str, Duration); 6] = [
        ("HTTP/1.1 200 OK\r\nLong: ", "a", ms(1)),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", Duration::ZERO),
        ("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Duration::ZERO),
        (&format!("{OK}Transfer-Encoding: chunked\r\n\r\n"), "1\r\na\r\n", Duration::ZERO),
        (&format!("{OK}\r\n"), "without a length", ms(1)),
        (&format!("{OK}Content-Length: 1000000000000\r\n\r\n"), "a", ms(1)),
    ];
    each_run(|| {
        let (ended, has_ended) = channel::bounded(1);
        ecru::scope(|s| {
            let cases = &cases;
            let url = answering(s, move |number, mut stream| {
                head(&mut stream);
                let (begin, piece, pause) = cases[number];
                flood(&stream, begin.as_bytes(), piece.as_bytes(), pause);
                ended.send(()).unwrap();
            });
            let client = client(s).build();
            for (begin, piece, _) in cases {
                let all = ecru::timeout(ms(100), || {
                    let mut body = client.get(&url)?.into_body();
                    io::copy(&mut body, &mut io::sink())
                });
                assert!(!matches!(all, Ok(Ok(_))), "{begin:?} {piece:?} gave {all:?}");
                has_ended.recv().unwrap();
            }
        });
    });
}

/// A connection that is reset in the middle of a body is an error, and the next request has another
/// connection.
#[test]
fn a_reset_in_a_body() {
    each_run(|| {
        ecru::scope(|s| {
            let url = answering(s, |number, mut stream| {
                if number == 0 {
                    // The request is not read as a whole, so the end of the stream is a reset.
                    stream.read_exact(&mut [0]).unwrap();
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthe beginning";
                    stream.write_all(answer).unwrap();
                } else {
                    head(&mut stream);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                }
            });
            let client = client(s).build();
            assert!(client.get(&url).and_then(|response| response.into_body().bytes()).is_err());
            assert_eq!(client.get(&url).unwrap().into_body().bytes().unwrap(), "ok");
        });
    });
}

/// Bytes after an answer are not the answer to the next request.
#[test]
fn an_answer_to_no_request() {
    each_run(|| {
        ecru::scope(|s| {
            let url = answering(s, |_, mut stream| {
                let asked = head(&mut stream);
                let own = asked.split(' ').nth(1).unwrap();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", own.len());
                let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
                let _ = stream.write_all(format!("{answer}{own}{forged}").as_bytes());
                // The connection stays open until the client closes it.
                let _ = stream.read(&mut [0]);
            });
            let client = client(s).build();
            for number in 0..20 {
                let answer = client.get(&format!("{url}{number}"));
                let text = answer.and_then(|response| response.into_body().bytes());
                // The connection may be found out only when the request has been sent.
                assert!(text.is_err() || text.unwrap() == format!("/{number}"));
            }
        });
    });
}

/// A redirect, also one to itself, is an answer as any other.
#[test]
fn a_redirect_to_itself() {
    each_run(|| {
        let asked = AtomicUsize::new(0);
        ecru::scope(|s| {
            let url = answering(s, |_, mut stream| {
                head(&mut stream);
                asked.fetch_add(1, SeqCst);
                let answer = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).unwrap();
            });
            let response = client(s).build().get(&url).unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()["location"]),
                (302, &"/".parse().unwrap())
            );
            assert_eq!(response.into_body().bytes().unwrap(), "");
        });
        assert_eq!(asked.into_inner(), 1);
    });
}

/// Answers that have no body whatever they announce.
#[test]
fn answers_without_a_body() {
    each_run(|| {
        ecru::scope(|s| {
            let url = answering(s, |_, mut stream| {
                // There is neither a body nor an end.
                for _ in 0..2 {
                    if stream.peek(&mut [0]).unwrap_or(0) == 0 {
                        return;
                    }
                    let asked = head(&mut stream);
                    let status =
                        if asked.starts_with("HEAD") { "200 OK" } else { "304 Not Modified" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 1000\r\n\r\n");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                let _ = stream.read(&mut [0]);
            });
            let client = client(s).build();
            for method in ["HEAD", "GET"] {
                let request = Request::builder().method(method).uri(&url);
                let response = client.send(request.body(Empty::<Bytes>::new()).unwrap()).unwrap();
                assert_eq!(response.headers()["content-length"], "1000");
                assert_eq!(response.into_body().bytes().unwrap(), "");
            }
        });
    });
}

/// Whatever a server of HTTP/2 answers that is none: it is an error, or a limit ends it.
#[test]
fn answers_that_are_not_http2() {
    let cases: [&[u8]; 4] = [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        // Settings of a length that they cannot have.
        b"\0\0\x05\x04\0\0\0\0\0.....",
        // A frame of 16 MiB that does not come.
        b"\xff\xff\xff\0\0\0\0\0\x01",
    ];
    each_run(|| {
        let (begun, numbers) = channel::bounded(1);
        ecru::scope(|s| {
            let url = answering(s, |number, mut stream| {
                begun.send(number).unwrap();
                stream.write_all(cases[number % cases.len()]).unwrap();
                if number < cases.len() {
                    return;
                }
                // The second time, the connection stays open.
                let _ = io::copy(&mut stream, &mut io::sink());
            });
            for expected in 0..2 * cases.len() {
                // A connection that stays open is used again, so each request has its own client.
                let client = client(s).http2().build();
                let result = ecru::timeout(ms(100), || client.get(&url));
                assert!(!matches!(result, Ok(Ok(_))), "{result:?}");
                assert_eq!(numbers.recv(), Ok(expected));
            }
        });
    });
}

/// Nothing that is forgotten keeps a scope from its end: a future that was polled, an answer, a
/// body that was read in part, and the client itself.
#[test]
fn what_is_forgotten() {
    each_run(|| {
        for http2 in [false, true] {
            ecru::scope(|s| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let url = format!("http://{}/", listener.local_addr().unwrap());
                let answer = |_| -> io::Result<_> { Ok(crate::client::page(vec![7; 1 << 20])) };
                s.spawn_daemon(move || {
                    ecru_hyper::serve(&listener, ecru_hyper::direct(answer)).http1().http2().run()
                });
                ecru::scope(|s| {
                    let builder = client(s);
                    let client = if http2 { builder.http2().build() } else { builder.build() };
                    std::mem::forget(client.get(&url).unwrap());
                    let mut part = client.get(&url).unwrap().into_body();
                    part.read_exact(&mut [0; 10]).unwrap();
                    std::mem::forget(part);
                    let request = Request::get(&url).body(Empty::<Bytes>::new()).unwrap();
                    let mut future = Box::pin(client.request(request));
                    let polled = std::future::poll_fn(|cx| {
                        std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())
                    });
                    ecru::block_on(polled).unwrap();
                    std::mem::forget(future);
                    std::mem::forget(client);
                });
            });
        }
    });
}

/// A client after the end of its run, on a plain thread and in another run.
#[test]
fn a_client_after_its_run() {
    let _watchdog = crate::common::Watchdog::new();
    let kept = ecru::run(|| ecru::scope(|s| client(s).build()));
    let error = || kept.get("http://127.0.0.1:1/").unwrap_err();
    assert_eq!(error().kind(), io::ErrorKind::NotConnected);
    each_run(|| assert_eq!(error().kind(), io::ErrorKind::NotConnected));
    let detached = ecru::run(|| {
        let (give, take) = channel::bounded(1);
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                // The client of a scope that is cancelled.
                ecru::scope(|s| {
                    give.send(client(s).build()).unwrap();
                    let _ = ecru::sleep(HOUR);
                    let cancelled = client(s).build().get("http://127.0.0.1:1/").unwrap_err();
                    assert!(ecru::Cancelled::find(&cancelled).is_some(), "{cancelled}");
                });
            });
            take.recv().unwrap()
        })
    });
    assert_eq!(
        detached.get("http://127.0.0.1:1/").unwrap_err().kind(),
        io::ErrorKind::NotConnected
    );
}

/// A request in a destructor, while its task is cancelled and while it panics: it ends.
#[test]
fn requests_in_destructors() {
    each_run(|| {
        let (listener, address, _stop, _stopped) = crate::client::listen();
        let url = format!("http://{address}/");
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let client = client(s).build();
            let last_words = || {
                crate::common::OnDrop(|| {
                    // The server never answers, so that only a cancellation ends this.
                    let result = ecru::timeout(ms(20), || client.get(&url));
                    assert!(!matches!(result, Ok(Ok(_))));
                    ended.fetch_add(1, SeqCst);
                })
            };
            ecru::scope(|tasks| {
                let cancelled = crate::common::begin(tasks, || {
                    let _last = last_words();
                    let _ = ecru::sleep(HOUR);
                });
                cancelled.cancel();
                cancelled.join().unwrap();
                let panicked = tasks.spawn(|| {
                    let _last = last_words();
                    crate::common::quiet_panic("on purpose");
                });
                assert!(panicked.join().is_err());
            });
        });
        drop(listener);
        assert_eq!(ended.into_inner(), 2);
    });
}

/// A server that closes each connection after its answer and does not say so: no answer is lost or
/// taken for another.
#[test]
fn a_server_that_keeps_nothing() {
    each_run(|| {
        let served = AtomicUsize::new(0);
        ecru::scope(|s| {
            let url = answering(s, |_, mut stream| {
                let asked = head(&mut stream);
                let own = asked.split(' ').nth(1).unwrap();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{own}", own.len());
                stream.write_all(answer.as_bytes()).unwrap();
                drop(stream);
                served.fetch_add(1, SeqCst);
            });
            let client = client(s).build();
            for number in 0..50 {
                let text = client.get(&format!("{url}{number}")).unwrap().into_body().bytes();
                assert_eq!(text.unwrap(), format!("/{number}"));
                // Its end has come to this side, so that the next request does not meet it.
                until(|| served.load(SeqCst) == number + 1);
                crate::common::settle();
            }
        });
    });
}
