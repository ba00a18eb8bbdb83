//! Consideration for servers: connections per host, `Retry-After`, and the rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Folder, Server, body, run, send, serve};

/// A server that records the largest number of requests that it had at one moment.
///
/// Each of the first `together` requests is answered only when that many have arrived.
fn counting(together: usize) -> (Server, Arc<AtomicUsize>) {
    let most = Arc::new(AtomicUsize::new(0));
    let (now, seen) = (AtomicUsize::new(0), Arc::clone(&most));
    let barrier = Barrier::new(together);
    let server = Server::start(move |asked, stream| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        barrier.wait();
        // This comes before the answer, because the client may send its next request as soon as it
        // has that.
        now.fetch_sub(1, Ordering::SeqCst);
        serve(asked, stream, "\"v1\"", b"x");
    });
    (server, most)
}

fn urls(server: &Server, number: usize) -> Vec<String> {
    (0..number).map(|index| server.url(&format!("/{index}"))).collect()
}

fn with<'a>(flags: &[&'a str], urls: &'a [String]) -> Vec<&'a str> {
    flags.iter().copied().chain(urls.iter().map(String::as_str)).collect()
}

/// `--per-host` limits one host, and not other hosts: `localhost` and `127.0.0.1` are two hosts.
#[test]
fn per_host() {
    let (one, most_of_one) = counting(3);
    let (two, most_of_two) = counting(3);
    let folder = Folder::new();
    let mut all = urls(&one, 30);
    all.extend((0..30).map(|n| format!("http://localhost:{}/b{n}", two.address.port())));
    let ran = run(&folder, &with(&["--per-host", "3"], &all)).succeeded();
    assert!(ran.out.contains("60 of 60 files"), "{ran:?}");
    assert_eq!(most_of_one.load(Ordering::SeqCst), 3);
    assert_eq!(most_of_two.load(Ordering::SeqCst), 3);
}

/// A long queue for one host takes no place in the window from other hosts.
#[test]
fn a_full_host_does_not_hold_up_the_others() {
    let others = Arc::new(Barrier::new(2));
    let gate = Arc::clone(&others);
    let slow = Server::start(move |asked, stream| {
        if asked.number == 0 {
            gate.wait();
        }
        serve(asked, stream, "\"v1\"", b"x");
    });
    let fast = Server::start(move |asked, stream| {
        if asked.number == 9 {
            others.wait();
        }
        serve(asked, stream, "\"v1\"", b"x");
    });
    let folder = Folder::new();
    let mut all = urls(&slow, 20);
    all.extend((0..10).map(|n| format!("http://localhost:{}/b{n}", fast.address.port())));
    let ran = run(&folder, &with(&["--per-host", "1", "-c", "2"], &all)).succeeded();
    assert!(ran.out.contains("30 of 30 files"), "{ran:?}");
}

/// Loopback has no limit by default, and no host has one with `-c`.
#[test]
fn loopback_is_not_limited() {
    for flags in [&[][..], &["-c", "20"]] {
        let (server, most) = counting(20);
        let folder = Folder::new();
        run(&folder, &with(flags, &urls(&server, 20))).succeeded();
        assert_eq!(most.load(Ordering::SeqCst), 20);
    }
}

/// `Retry-After` applies to all downloads from the host, and no request is sent before its time.
#[test]
fn retry_after_slow() {
    let asked_to_wait = Arc::new(Mutex::new(None::<Instant>));
    let early = Arc::new(AtomicUsize::new(0));
    let (since, too_early) = (Arc::clone(&asked_to_wait), Arc::clone(&early));
    let server = Server::start(move |asked, stream| {
        if asked.number == 0 {
            *since.lock().unwrap() = Some(Instant::now());
            return send(stream, "429 Too Many Requests", &[("Retry-After", "1")], b"");
        }
        let waited = since.lock().unwrap().unwrap().elapsed();
        if waited < Duration::from_secs(1) {
            too_early.fetch_add(1, Ordering::SeqCst);
        }
        serve(asked, stream, "\"v1\"", &body(10));
    });
    let folder = Folder::new();
    run(&folder, &with(&["-c", "1"], &urls(&server, 3))).succeeded();
    assert_eq!((server.count(), early.load(Ordering::SeqCst)), (4, 0));
}

/// A server that asks for hours gets one request, and the line says when to retry.
#[test]
fn retry_after_hours() {
    let server = Server::start(|_, stream| {
        send(stream, "503 Service Unavailable", &[("Retry-After", "7200")], b"");
    });
    let folder = Folder::new();
    run(&folder, &with(&["-c", "1"], &urls(&server, 5)))
        .failed(1, &["asks to be left alone for 7", "run the same command again after that"]);
    assert_eq!(server.count(), 1);
}

/// `--limit-rate` applies to all downloads together.
#[test]
fn limit_rate_slow() {
    let server = Server::start(|asked, stream| serve(asked, stream, "\"v1\"", &body(50_000)));
    let folder = Folder::new();
    let start = Instant::now();
    run(&folder, &with(&["--limit-rate", "200k"], &urls(&server, 2))).succeeded();
    assert!(start.elapsed() >= Duration::from_millis(450), "{:?}", start.elapsed());
    assert_eq!(folder.read("1"), body(50_000));
}
