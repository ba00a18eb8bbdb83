//! zigcoro's cases of timers and IO, each as a user of ecru would write it.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::process::Command;
use ecru::sync::Notify;
use ecru::{channel, sleep};

use crate::common::PATIENCE;
use crate::support::{each_run, everywhere, ms, now, since};

/// Repeats an attempt that a busy machine may delay, until it is in time once. It must never be
/// early.
fn in_time_once(attempt: impl Fn() -> bool) {
    let start = now();
    let mut attempts = 0;
    while !attempt() {
        attempts += 1;
        let goes_on = attempts < 50 || since(start) < PATIENCE / 4;
        assert!(goes_on, "it was late {attempts} times");
    }
}

/// Returns how long `body` took, which must not be less than `least`.
fn taken(least: Duration, body: impl FnOnce()) -> Duration {
    let start = now();
    body();
    let taken = since(start);
    assert!(taken >= least, "early: {taken:?} instead of {least:?}");
    taken
}

/// - given: a task, or a plain thread without a run
/// - when: it sleeps 10 ms
/// - then: it never sleeps for less, and on an idle machine for less than 13 ms
#[test]
fn aio_01_sleep() {
    everywhere(|_| in_time_once(|| taken(ms(10), || sleep(ms(10)).unwrap()) < ms(13)));
}

/// - given: two tasks
/// - when: one sleeps 10 ms, the other 20 ms
/// - then: both have ended after 20 ms, the first 10 ms before the second
#[test]
fn aio_02_sleeps_at_the_same_time() {
    each_run(|| {
        in_time_once(|| {
            let start = now();
            let [short, long] = ecru::scope(|s| {
                let both = [10, 20].map(|time| {
                    s.spawn(move || {
                        sleep(ms(time)).unwrap();
                        since(start)
                    })
                });
                both.map(|one| one.join().unwrap())
            });
            assert!(short >= ms(10) && long >= ms(20), "{short:?}, {long:?}");
            long < ms(23) && long.saturating_sub(short) > ms(7) && long - short < ms(13)
        });
    });
}

/// - given: a loop of short sleeps and a loop of longer sleeps
/// - when: both run ten rounds
/// - then: when the slow loop has had five to seven rounds, the fast loop has finished
#[test]
fn aio_03_timer_loops_interleave() {
    each_run(|| {
        in_time_once(|| {
            let slow = AtomicU32::new(0);
            ecru::scope(|s| {
                let looping = s.spawn(|| {
                    for _ in 0..10 {
                        sleep(ms(3)).unwrap();
                        slow.fetch_add(1, SeqCst);
                    }
                });
                for _ in 0..10 {
                    sleep(ms(2)).unwrap();
                }
                let seen = slow.load(SeqCst);
                looping.join().unwrap();
                (5..=7).contains(&seen)
            })
        });
    });
}

/// - given: a listener on a port that the system chose
/// - when: seven bytes are sent and echoed
/// - then: they come back unchanged
#[test]
fn aio_04_tcp_echo() {
    everywhere(|side| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_ne!(address.port(), 0);
        let mut back = [0; 7];
        side.both(
            || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut got = [0; 7];
                stream.read_exact(&mut got).unwrap();
                stream.write_all(&got).unwrap();
            },
            || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"seven b").unwrap();
                stream.read_exact(&mut back).unwrap();
            },
        );
        assert_eq!(&back, b"seven b");
    });
}

/// - given: two sockets
/// - when: seven bytes are sent and echoed by datagrams
/// - then: they come back unchanged
#[test]
fn aio_05_udp_echo() {
    everywhere(|side| {
        let [ours, theirs] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = theirs.local_addr().unwrap();
        let mut back = [0; 16];
        let (_, count) = side.both(
            || {
                let mut got = [0; 16];
                let (count, from) = theirs.recv_from(&mut got).unwrap();
                theirs.send_to(&got[..count], from).unwrap();
            },
            || {
                ours.send_to(b"seven b", address).unwrap();
                ours.recv(&mut back).unwrap()
            },
        );
        assert_eq!(&back[..count], b"seven b");
    });
}

/// - given: a new file
/// - when: it is written, closed and read
/// - then: it contains the same text
#[test]
fn aio_06_file() {
    everywhere(|side| {
        let name = format!("ecru-aio-{}-{side:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = ecru::fs::File::create_new(&path).unwrap();
        file.write_all(b"hello").unwrap();
        file.sync_all().unwrap();
        drop(file);
        let read = ecru::fs::read_to_string(&path);
        ecru::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), "hello");
    });
}

/// - given: a program that ends with 0
/// - when: it is waited for
/// - then: its status is 0
#[test]
fn aio_07_process() {
    everywhere(|_| {
        let mut child =
            Command::new("sh").args(["-c", "exit 0"]).stdin(Stdio::null()).spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}

/// - given: a task that waits for a `Notify`
/// - when: another task notifies it
/// - then: the first continues, and sees what was written before the notification
#[test]
fn aio_08_notification_between_tasks() {
    everywhere(|side| {
        let (notify, told) = (Notify::new(), AtomicU32::new(0));
        side.both(
            || {
                notify.wait().unwrap();
                assert_eq!(told.load(SeqCst), 1);
            },
            || {
                side.pause();
                told.store(1, SeqCst);
                notify.notify_one();
            },
        );
    });
}

/// - given: both sides of a channel sleep between values
/// - when: six values go through
/// - then: none is lost
#[test]
fn aio_09_channel_and_sleep() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let (sum, ()) = side.both(
            || receiver.iter().inspect(|_| sleep(ms(1)).unwrap()).sum::<u32>(),
            || {
                for number in 0..6 {
                    sender.send(number).unwrap();
                    sleep(ms(1)).unwrap();
                }
                sender.close();
            },
        );
        assert_eq!(sum, 15);
    });
}

/// - given: one task waits for a plain thread, another sleeps
/// - when: the thread notifies after the sleeps are over
/// - then: both continue
#[test]
fn aio_10_notified_by_a_thread_while_others_sleep() {
    everywhere(|side| {
        let notify = Arc::new(Notify::new());
        let rings = Arc::clone(&notify);
        let (slept, ()) = side.both(
            || (0..5).map(|_| sleep(ms(1))).filter(Result::is_ok).count(),
            || {
                let thread = thread::spawn(move || {
                    thread::sleep(ms(8));
                    rings.notify_one();
                });
                notify.wait().unwrap();
                thread.join().unwrap();
            },
        );
        assert_eq!(slept, 5);
    });
}
