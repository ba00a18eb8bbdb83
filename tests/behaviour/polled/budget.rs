//! What is ready in one poll of a future.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ecru::net::{Polled, UdpSocket, UnixStream};
use ecru::time::Sleep;
use ecru::{Source, channel};

use crate::support::{Watchdog, each_run, ms, run_on};

/// Does the same again and again, and never gives its thread back by itself.
async fn endlessly<F: Future>(mut again: impl FnMut() -> F) {
    loop {
        again().await;
    }
}

/// Runs a future that never ends in a task without a stack and by `block_on`, each beside a time limit
/// that the same worker has to keep.
fn is_limited<F: Future<Output = ()> + Send>(future: impl Fn() -> F + Sync) {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let in_a_task = || ecru::scope(|s| drop(s.spawn_future(future())));
        assert!(ecru::timeout(ms(20), in_a_task).is_err());
        let ended = ecru::timeout(ms(20), || ecru::block_on(future()).is_ok());
        assert!(!matches!(ended, Ok(true)));
    });
}

/// Counts the operations that are ready in one poll.
struct Count<P>(P);

impl<P: FnMut(&mut Context<'_>) -> Poll<()> + Unpin> Future for Count<P> {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let ready = (0..1000).take_while(|_| (self.0)(cx).is_ready()).count();
        // Once the budget is used up, nothing is ready in this poll.
        assert!((self.0)(cx).is_pending());
        Poll::Ready(ready)
    }
}

/// - given: operations that are always ready: items of a channel, times that have passed, a socket that
///   can be written to, and a stream whose peer has always sent more
/// - when: a future of `spawn_future` or `block_on` makes them in one poll
/// - then: 128 of them are ready, or those that read 512 KiB. The next poll has as many again
#[test]
fn polled_38_operations_of_one_poll() {
    each_run(|| {
        let (sender, receiver) = channel::unbounded();
        (0..1000).for_each(|n| sender.send(n).unwrap());
        let socket = Polled::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let item = |cx: &mut Context<'_>| pin!((&receiver).to_future()).poll(cx).map(drop);
        let time = |cx: &mut Context<'_>| pin!(Sleep::new(Duration::ZERO)).poll(cx);
        let write = |cx: &mut Context<'_>| socket.poll_write_ready(cx).map(Result::unwrap);
        ecru::scope(|s| {
            for _ in 0..2 {
                assert_eq!(s.spawn_future(Count(item)).join().unwrap(), 128);
                assert_eq!(s.spawn_future(Count(time)).join().unwrap(), 128);
                assert_eq!(s.spawn_future(Count(write)).join().unwrap(), 128);
                assert_eq!(ecru::block_on(Count(write)).unwrap(), 128);
            }
        });
        assert_eq!(receiver.len(), 1000 - 2 * 128);
    });
}

/// - given: the same operations, made without an end, and a stream that is never empty
/// - when: they are made beside a time limit, on the same worker
/// - then: the limit is kept
#[test]
fn polled_39_always_ready_beside_a_limit() {
    let (sender, receiver) = channel::unbounded();
    is_limited(|| {
        endlessly(|| {
            sender.try_send(7).unwrap();
            (&receiver).to_future()
        })
    });
    is_limited(|| endlessly(|| Sleep::new(Duration::ZERO)));
    is_limited(|| {
        let socket = Polled::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        async move { endlessly(|| poll_fn(|cx| socket.poll_write_ready(cx))).await }
    });
    is_limited(|| {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let server = Polled::new(server).unwrap();
        let mut buffer = vec![0; 64 << 10];
        async move {
            loop {
                // What is written to such a stream can be read at once.
                let _ = (&client).write(&buffer);
                let _ = poll_fn(|cx| server.poll_read(cx, &mut buffer)).await;
            }
        }
    });
}

/// - given: a future of `block_on` whose poll waits in direct style, while another task of the worker
///   polls a future of its own
/// - when: both have used up their budgets
/// - then: code outside of these polls, and a poll by hand, has no budget that could be used up
#[test]
fn polled_40_waits_between_polls() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        (0..2000).for_each(|n| sender.send(n).unwrap());
        let by_hand = || {
            let mut cx = Context::from_waker(Waker::noop());
            (0..300).all(|_| pin!((&receiver).to_future()).poll(&mut cx).is_ready())
        };
        let uses_up = |cx: &mut Context<'_>| {
            while pin!((&receiver).to_future()).poll(cx).is_ready() {}
        };
        let waits_in_poll = || {
            let is_first = Cell::new(true);
            ecru::block_on(poll_fn(|cx| {
                if !is_first.replace(false) {
                    return Poll::Ready(());
                }
                uses_up(cx);
                ecru::sleep(ms(5)).unwrap();
                Poll::Pending
            }))
            .unwrap();
            assert!(by_hand());
        };
        ecru::scope(|s| {
            s.spawn(waits_in_poll);
            s.spawn(waits_in_poll);
            s.spawn(|| {
                ecru::sleep(ms(1)).unwrap();
                assert!(by_hand());
            });
        });
        assert!(by_hand());
    });
}
