//! Waiting allocates no memory, and nothing is left allocated after a run.
//!
//! The allocator is counted, so each test has a process of its own: the test runner of the others
//! also allocates.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::poll_fn;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Duration;

use ecru::channel::{self, Select};
use ecru::net::{Polled, UnixStream};
use ecru::{DriverKind, Source, select, source};

mod common;

use common::alone;

struct Counting;

/// The number of blocks that have been allocated.
static ASKED: AtomicUsize = AtomicUsize::new(0);
/// The number of bytes that have not been freed.
static BYTES: AtomicIsize = AtomicIsize::new(0);
/// The number of blocks that have not been freed.
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, SeqCst);
        LIVE.fetch_add(1, SeqCst);
        BYTES.fetch_add(layout.size().cast_signed(), SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, SeqCst);
        BYTES.fetch_sub(layout.size().cast_signed(), SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, SeqCst);
        BYTES.fetch_add(size.cast_signed() - layout.size().cast_signed(), SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns how many blocks `body` allocates once it is warm.
fn asked_for(mut body: impl FnMut()) -> usize {
    body();
    let before = ASKED.load(SeqCst);
    body();
    ASKED.load(SeqCst) - before
}

fn on_one_worker<T>(body: impl FnOnce() -> T) -> T {
    // The watchdog of debug builds allocates on a thread of its own.
    let builder = ecru::Runtime::builder().workers(1).watchdog(Duration::ZERO);
    builder.build().unwrap().run(body)
}

#[test]
fn waiting_racing_and_selecting_ask_for_no_memory() {
    alone("waiting_racing_and_selecting_ask_for_no_memory", || {
        on_one_worker(|| {
            let (sender, receiver) = channel::bounded(0);
            let (other, from_other) = channel::bounded::<usize>(0);
            let (back, returned) = channel::bounded(0);
            let idle = channel::never::<usize>();
            ecru::scope(|s| {
                s.spawn_local(|| {
                    while let Ok(n) = receiver.recv() {
                        back.send(n).unwrap();
                        // Receives the value again, wherever it was sent.
                        let n = select! {
                            recv(receiver) -> n => n.unwrap(),
                            recv(idle) -> _ => unreachable!(),
                        };
                        select! {
                            send(back, n) -> sent => sent.unwrap(),
                            send(other, n) -> sent => sent.unwrap(),
                        }
                    }
                });
                let rounds = |round: &mut dyn FnMut()| (0..50).for_each(|_| round());
                let mut plain = || {
                    sender.send(1).unwrap();
                    returned.recv().unwrap();
                    sender.send(2).unwrap();
                    let _ = source::race([&returned, &from_other]).wait().unwrap().unwrap();
                };
                assert_eq!(asked_for(|| rounds(&mut plain)), 0, "send, recv, select, race");
                let mut limited = || {
                    sender.send_timeout(1, Duration::from_secs(60)).unwrap();
                    returned.recv_timeout(Duration::from_secs(60)).unwrap();
                    sender.send(2).unwrap();
                    select! {
                        recv(returned) -> n => n.unwrap(),
                        recv(from_other) -> n => n.unwrap(),
                        recv(idle) -> _ => unreachable!(),
                        send(sender, 9) -> _ => unreachable!(),
                        default(Duration::from_secs(60)) => unreachable!(),
                    };
                };
                assert_eq!(asked_for(|| rounds(&mut limited)), 0, "with limits");
                let mut filtered = || {
                    sender.send(1).unwrap();
                    let _ = (&returned).filter(|n| *n == 1).wait().unwrap().unwrap();
                    sender.send(2).unwrap();
                    let mapped =
                        (&returned).or(&from_other).filter(|n| *n == 2).map(|n| n.unwrap());
                    assert_eq!(mapped.wait(), Ok(2));
                };
                assert_eq!(asked_for(|| rounds(&mut filtered)), 0, "filter, map, or");
                // Creating one allocates a list. Using it allocates nothing.
                let mut choice = Select::new();
                choice.recv(&returned);
                choice.recv(&from_other);
                let mut dynamic = || {
                    sender.send(1).unwrap();
                    let selected = choice.select();
                    let _ = match selected.index() {
                        0 => selected.recv(&returned),
                        _ => selected.recv(&from_other),
                    };
                    sender.send(2).unwrap();
                    let _ = source::either(&returned, &from_other).wait().unwrap();
                };
                assert_eq!(asked_for(|| rounds(&mut dynamic)), 0, "Select, either");
                let mut vain = || {
                    let _ = returned.recv_timeout(Duration::from_micros(1));
                    select! {
                        recv(returned) -> _ => unreachable!(),
                        recv(idle) -> _ => unreachable!(),
                        default => {}
                    }
                };
                assert_eq!(asked_for(|| rounds(&mut vain)), 0, "in vain");
                sender.close();
            });
        });
    });
}

#[test]
fn the_first_select_on_a_channel_asks_for_no_memory_either() {
    alone("the_first_select_on_a_channel_asks_for_no_memory_either", || {
        on_one_worker(|| {
            let pairs: Vec<_> = (0..20).map(|_| channel::bounded::<usize>(1)).collect();
            let (gate, opened) = channel::bounded::<()>(1);
            ecru::scope(|s| {
                s.spawn_local(|| {
                    for (sender, _) in &pairs {
                        sender.send(1).unwrap();
                        opened.recv().unwrap();
                    }
                });
                let mut counts = Vec::with_capacity(20);
                for (_, receiver) in &pairs {
                    let before = ASKED.load(SeqCst);
                    select! {
                        recv(receiver) -> n => n.unwrap(),
                        recv(receiver) -> n => n.unwrap(),
                    };
                    counts.push(ASKED.load(SeqCst) - before);
                    gate.send(()).unwrap();
                }
                // The first rounds may allocate, for example the task's stack.
                assert_eq!(counts[2..].iter().sum::<usize>(), 0, "{counts:?}");
            });
        });
    });
}

/// Two tasks that wait for each other by futures: `block_on` uses its memory again. What the futures
/// need themselves is not counted.
#[test]
fn block_on_asks_for_no_memory() {
    /// A value, and the waker of the task that waits for the next one.
    #[derive(Default)]
    struct Cell(std::sync::Mutex<(Option<usize>, Option<Waker>)>);

    impl Cell {
        fn put(&self, value: usize) {
            let mut inner = self.0.lock().unwrap();
            inner.0 = Some(value);
            let waker = inner.1.take();
            drop(inner);
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        fn take(&self) -> usize {
            let taken = ecru::block_on(poll_fn(|cx| {
                let mut inner = self.0.lock().unwrap();
                if inner.0.is_none() {
                    inner.1 = Some(cx.waker().clone());
                }
                inner.0.take().map_or(Poll::Pending, Poll::Ready)
            }));
            taken.unwrap()
        }
    }

    alone("block_on_asks_for_no_memory", || {
        on_one_worker(|| {
            let (asked, answered) = (Cell::default(), Cell::default());
            ecru::scope(|s| {
                s.spawn_local(|| {
                    while asked.take() != 0 {
                        answered.put(1)
                    }
                });
                let round = || {
                    for _ in 0..50 {
                        asked.put(1);
                        answered.take();
                    }
                };
                assert_eq!(asked_for(round), 0);
                asked.put(0);
            });
        });
    });
}

/// Two futures that send each other bytes over polled sockets, one in a task without a stack and one
/// by `block_on`: each read is a wait, which uses the registration and the wakers that are there.
#[test]
fn waits_of_polled_sockets_ask_for_no_memory() {
    /// Reads a byte that has not been sent yet. Returns `None` at the end.
    async fn next(stream: &Polled<UnixStream>, waits: &AtomicUsize) -> Option<u8> {
        let mut byte = [0];
        let read = poll_fn(|cx| {
            let polled = stream.poll_read(cx, &mut byte);
            waits.fetch_add(usize::from(polled.is_pending()), SeqCst);
            polled
        });
        (read.await.unwrap() > 0).then_some(byte[0])
    }

    async fn say(stream: &Polled<UnixStream>, byte: u8) {
        let count = poll_fn(|cx| stream.poll_write(cx, &[byte])).await.unwrap();
        assert_eq!(count, 1);
    }

    let rounds_on = |runtime: &ecru::Runtime| {
        runtime.run(|| {
            let (asks, answers) = UnixStream::pair().unwrap();
            let (asks, answers) = (Polled::new(asks).unwrap(), Polled::new(answers).unwrap());
            let waits = AtomicUsize::new(0);
            ecru::scope(|s| {
                let echo = s.spawn_local_future(async {
                    while let Some(byte) = next(&answers, &waits).await {
                        say(&answers, byte).await;
                    }
                });
                let rounds = || {
                    ecru::block_on(async {
                        for byte in 0..50 {
                            say(&asks, byte).await;
                            assert_eq!(next(&asks, &waits).await, Some(byte));
                        }
                    })
                    .unwrap();
                };
                assert_eq!(asked_for(rounds), 0);
                assert!(waits.load(SeqCst) >= 200, "each read waits");
                asks.get_ref().shutdown(ecru::net::Shutdown::Both).unwrap();
                echo.join().unwrap();
            });
        });
    };
    alone("waits_of_polled_sockets_ask_for_no_memory", || {
        for driver in [DriverKind::Uring, DriverKind::Poll] {
            let builder = ecru::Runtime::builder().workers(1).watchdog(Duration::ZERO);
            // io_uring may be forbidden here.
            if let Ok(runtime) = builder.driver(driver).build() {
                rounds_on(&runtime);
            }
        }
    });
}

/// A pending task without a stack takes the size of its future, and at most 256 bytes more.
#[test]
fn a_pending_future_takes_little_memory() {
    const TASKS: usize = 1_000;
    alone("a_pending_future_takes_little_memory", || {
        on_one_worker(|| {
            let future = || async {
                let kept = std::hint::black_box([7_u8; 1024]);
                std::future::pending::<()>().await;
                std::hint::black_box(&kept);
            };
            let size = size_of_val(&future());
            assert!(size >= 1024);
            ecru::scope(|s| {
                let mut tasks = Vec::with_capacity(2 * TASKS);
                let grow = |tasks: &mut Vec<_>| {
                    let before = BYTES.load(SeqCst);
                    tasks.extend((0..TASKS).map(|_| s.spawn_future(future())));
                    // They are polled.
                    for _ in 0..TASKS {
                        ecru::yield_now().unwrap();
                    }
                    (BYTES.load(SeqCst) - before) as usize / TASKS
                };
                grow(&mut tasks);
                let each = grow(&mut tasks);
                assert!(each <= size + 256, "{} bytes beside the future", each - size);
                s.cancel();
            });
        });
    });
}

#[test]
fn a_wait_on_a_plain_thread_asks_for_no_memory() {
    alone("a_wait_on_a_plain_thread_asks_for_no_memory", || {
        let (sender, receiver) = channel::bounded(0);
        let (back, returned) = channel::bounded(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                while let Ok(n) = receiver.recv() {
                    let _: Result<(), _> = back.send(n);
                }
            });
            let rounds = || {
                for n in 0..50 {
                    sender.send(n).unwrap();
                    let got = select! {
                        recv(returned) -> n => n.unwrap(),
                        default(Duration::from_secs(60)) => unreachable!(),
                    };
                    assert_eq!(got, n);
                }
            };
            assert_eq!(asked_for(rounds), 0);
            sender.close();
        });
    });
}

#[test]
fn a_run_leaves_nothing_behind() {
    alone("a_run_leaves_nothing_behind", || {
        let load = || {
            ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
                for capacity in [0, 1, usize::MAX] {
                    let (sender, receiver) = channel::bounded::<Box<usize>>(capacity);
                    let (other, from_other) = channel::bounded::<Box<usize>>(0);
                    ecru::scope(|s| {
                        for _ in 0..3 {
                            s.spawn(|| {
                                for n in 0..200 {
                                    select! {
                                        send(sender, Box::new(n)) -> _ => {}
                                        send(other, Box::new(n)) -> _ => {}
                                    }
                                }
                            });
                            s.spawn(|| {
                                for _ in 0..190 {
                                    drop(source::race([&receiver, &from_other]).wait());
                                }
                            });
                        }
                        let late = s.spawn(|| sender.send(Box::new(1)));
                        let _ = ecru::sleep(Duration::from_millis(1));
                        late.cancel();
                        s.spawn(|| {
                            let _ = ecru::sleep(Duration::from_millis(5));
                            // There are values in the buffer, and waiting senders.
                            receiver.close_now();
                            from_other.close_now();
                        });
                    });
                }
            });
        };
        load();
        load();
        let before = LIVE.load(SeqCst);
        for _ in 0..5 {
            load();
        }
        // The number of blocks kept for reuse may differ with the thread that has them. A leak
        // would grow with the thousands of values.
        let grown = LIVE.load(SeqCst) - before;
        assert!(grown < 40, "{grown} blocks more");
    });
}

#[test]
fn a_drained_channel_gives_its_memory_back_slow() {
    const MANY: usize = 300_000;
    fn fill_and_drain(
        make: fn() -> (channel::Sender<usize>, channel::Receiver<usize>),
        way: usize,
    ) {
        let before = BYTES.load(SeqCst);
        let (sender, receiver) = make();
        for _ in 0..2 {
            (0..MANY).for_each(|n| sender.send(n).unwrap());
            assert!(BYTES.load(SeqCst) - before >= (MANY * size_of::<usize>()).cast_signed());
            for n in 0..MANY {
                let got = match way {
                    0 => receiver.recv().unwrap(),
                    1 => receiver.try_recv().unwrap(),
                    2 => select! { recv(receiver) -> n => n.unwrap() },
                    _ => (&receiver).filter(|_| true).wait().unwrap().unwrap(),
                };
                assert_eq!(got, n);
            }
            let kept = BYTES.load(SeqCst) - before;
            assert!(kept < 200 << 10, "{kept} bytes are kept");
        }
    }
    alone("a_drained_channel_gives_its_memory_back_slow", || {
        for way in 0..4 {
            fill_and_drain(channel::unbounded, way);
            fill_and_drain(|| channel::bounded(MANY), way);
        }
        on_one_worker(|| fill_and_drain(channel::unbounded, 0));
    });
}

#[test]
fn a_channel_whose_length_changes_little_is_not_reallocated() {
    alone("a_channel_whose_length_changes_little_is_not_reallocated", || {
        let (sender, receiver) = channel::unbounded();
        (0..100_000).for_each(|n| sender.send(n).unwrap());
        let round = || {
            for _ in 0..5 {
                (0..50_000).for_each(|_| assert!(receiver.recv().is_ok()));
                (0..50_000).for_each(|n| sender.send(n).unwrap());
            }
        };
        assert_eq!(asked_for(round), 0);
    });
}
