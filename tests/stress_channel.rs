//! A long stress test: two workers and plain threads, channels of every kind, selects, races, time
//! limits and cancellations. No value may be lost or duplicated, and nothing may hang or leak.
//!
//! `ECRU_STRESS_SECONDS` sets the length (default 3).

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use ecru::channel::{self, Receiver, Select, Sender};
use ecru::{Source, select, source};

use common::{PATIENCE, Watchdog};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn seconds() -> Duration {
    let wanted = std::env::var("ECRU_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(wanted.unwrap_or(3))
}

/// Counts of sent and received values, with sums of the numbers and of their squares. A lost value
/// and a duplicated one therefore do not cancel out.
#[derive(Default)]
struct Books {
    count: AtomicU64,
    sum: AtomicU64,
    squares: AtomicU64,
}

impl Books {
    fn enter(&self, number: u64) {
        self.count.fetch_add(1, SeqCst);
        self.sum.fetch_add(number, SeqCst);
        self.squares.fetch_add(number.wrapping_mul(number), SeqCst);
    }

    fn read(&self) -> (u64, u64, u64) {
        (self.count.load(SeqCst), self.sum.load(SeqCst), self.squares.load(SeqCst))
    }
}

/// A number that is counted while it exists.
struct Number {
    number: u64,
    alive: Arc<AtomicUsize>,
}

impl Number {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Number {
        alive.fetch_add(1, SeqCst);
        Number { number, alive: Arc::clone(alive) }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, SeqCst);
    }
}

struct World {
    channels: Vec<(Sender<Number>, Receiver<Number>)>,
    sent: Books,
    received: Books,
    stop: AtomicBool,
    next: AtomicU64,
    alive: Arc<AtomicUsize>,
}

impl World {
    fn new() -> World {
        let capacities = [0, 0, 0, 1, 2, 5, usize::MAX];
        World {
            channels: capacities.map(channel::bounded).into_iter().collect(),
            sent: Books::default(),
            received: Books::default(),
            stop: AtomicBool::new(false),
            next: AtomicU64::new(1),
            alive: Arc::default(),
        }
    }

    fn number(&self) -> Number {
        Number::new(self.next.fetch_add(1, SeqCst), &self.alive)
    }

    fn any(&self) -> &(Sender<Number>, Receiver<Number>) {
        &self.channels[fastrand::usize(..self.channels.len())]
    }

    fn got(&self, number: Number) {
        self.received.enter(number.number);
    }

    /// Sends once, in a random way, with a bounded wait.
    fn send(&self) {
        let limit = us(fastrand::u64(0..200));
        let number = self.number();
        let value = number.number;
        let (a, b) = (&self.any().0, &self.any().0);
        // A selected arm has a limit as well, because the receiver may have left before the value
        // is there.
        let limited = |body: &mut dyn FnMut() -> bool| ecru::timeout(limit, body).unwrap_or(false);
        let mut number = Some(number);
        let mut number = || number.take().expect("sent once");
        let sent = match fastrand::u8(0..6) {
            0 => a.try_send(number()).is_ok(),
            1 => a.send_timeout(number(), limit).is_ok(),
            2 => limited(&mut || a.send(number()).is_ok()),
            3 => limited(&mut || {
                select! {
                    send(a, number()) -> result => result.is_ok(),
                    send(b, number()) -> result => result.is_ok(),
                    default(limit / 2) => false,
                }
            }),
            4 => limited(&mut || {
                let mut choice = Select::new();
                let first = choice.send(a);
                choice.send(b);
                match choice.select_timeout(limit / 2) {
                    Ok(selected) if fastrand::u8(0..8) == 0 => {
                        drop(selected);
                        false
                    }
                    Ok(selected) if selected.index() == first => selected.send(a, number()).is_ok(),
                    Ok(selected) => selected.send(b, number()).is_ok(),
                    Err(_) => false,
                }
            }),
            _ => limited(&mut || {
                select! {
                    send(a, number()) -> result => result.is_ok(),
                    recv(self.any().1) -> other => {
                        if let Ok(other) = other {
                            self.got(other);
                        }
                        false
                    },
                }
            }),
        };
        if sent {
            self.sent.enter(value);
        }
    }

    /// Receives once, in a random way, with a bounded wait.
    fn receive(&self) {
        let limit = us(fastrand::u64(0..200));
        let (a, b) = (&self.any().1, &self.any().1);
        let got = match fastrand::u8(0..7) {
            0 => a.try_recv().ok(),
            1 => a.recv_timeout(limit).ok(),
            2 => ecru::timeout(limit, || a.recv().ok()).ok().flatten(),
            3 => select! {
                recv(a) -> value => value.ok(),
                recv(b) -> value => value.ok(),
                default(limit) => None,
            },
            4 => ecru::timeout(limit, || {
                let race = source::race(self.channels.iter().map(|(_, receiver)| receiver));
                race.wait().ok().and_then(Result::ok)
            })
            .ok()
            .flatten(),
            5 => {
                let parity = fastrand::u64(0..2);
                let wanted = a.filter(move |value| value.number % 2 == parity);
                ecru::timeout(limit, || wanted.wait().ok().and_then(Result::ok)).ok().flatten()
            }
            _ => {
                let mut choice = Select::new();
                let first = choice.recv(a);
                choice.recv(b);
                match choice.select_timeout(limit) {
                    Ok(selected) if selected.index() == first => selected.recv(a).ok(),
                    Ok(selected) => selected.recv(b).ok(),
                    Err(_) => None,
                }
            }
        };
        if let Some(number) = got {
            self.got(number);
        }
    }

    fn work(&self) {
        while !self.stop.load(SeqCst) {
            if fastrand::bool() {
                self.send()
            } else {
                self.receive()
            }
            if fastrand::u8(0..30) == 0 {
                let _ = ecru::yield_now();
            }
        }
    }
}

/// Runs tasks that wait without a limit until another task cancels them.
fn with_cancellations(world: &World) {
    ecru::scope(|s| {
        while !world.stop.load(SeqCst) {
            let sending = s.spawn(|| {
                let (sender, number) = (&world.any().0, world.number());
                let value = number.number;
                if sender.send(number).is_ok() {
                    world.sent.enter(value);
                }
            });
            let receiving = s.spawn(|| {
                if let Ok(number) = world.any().1.recv() {
                    world.got(number);
                }
            });
            let selecting = s.spawn(|| {
                let (number, value);
                select! {
                    recv(world.any().1) -> result => {
                        if let Ok(number) = result {
                            world.got(number);
                        }
                    },
                    send(world.any().0, {
                        number = world.number();
                        value = number.number;
                        number
                    }) -> result => {
                        if result.is_ok() {
                            world.sent.enter(value);
                        }
                    },
                }
            });
            for _ in 0..fastrand::u8(0..4) {
                let _ = ecru::yield_now();
            }
            for task in [sending, receiving, selecting] {
                task.cancel();
                let _ = task.join();
            }
        }
    });
}

#[test]
fn nothing_is_lost_under_load() {
    let length = seconds();
    let _watchdog = Watchdog::within(length * 2 + PATIENCE);
    let world = World::new();
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| world.work());
        }
        threads.spawn(|| {
            ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
                ecru::scope(|s| {
                    for _ in 0..6 {
                        s.spawn(|| world.work());
                    }
                    s.spawn(|| with_cancellations(&world));
                });
            });
        });
        thread::sleep(length);
        world.stop.store(true, SeqCst);
    });
    for (sender, receiver) in &world.channels {
        sender.close();
        receiver.try_iter().for_each(|number| world.got(number));
        assert!(receiver.try_recv().is_err_and(|error| error.is_disconnected()));
    }
    let (sent, received) = (world.sent.read(), world.received.read());
    println!("{sent:?} sent, {received:?} received, {} left", world.alive.load(SeqCst));
    assert_eq!(sent, received, "count, sum and sum of squares of what was sent and received");
    assert!(sent.0 > 100, "{} values", sent.0);
    assert_eq!(world.alive.load(SeqCst), 0, "values that are left");
    println!("{} values in {length:?}", sent.0);
}

#[test]
fn channels_are_closed_under_load() {
    let length = seconds();
    let _watchdog = Watchdog::within(length * 2 + PATIENCE);
    let start = Instant::now();
    let alive = Arc::new(AtomicUsize::new(0));
    let mut rounds = 0;
    ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
        while start.elapsed() < length {
            rounds += 1;
            let capacity = [0, 1, 4, usize::MAX][rounds % 4];
            let (sender, receiver) = channel::bounded(capacity);
            let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let now = rounds % 3 == 0;
            ecru::scope(|s| {
                for n in 0..3 {
                    let (sender, receiver, sent, received) =
                        (sender.clone(), receiver.clone(), &sent, &received);
                    let alive = &alive;
                    let new = move || Number::new(1, alive);
                    s.spawn(move || {
                        loop {
                            let result = match n {
                                0 => sender.send(new()).is_ok(),
                                1 => select! { send(sender, new()) -> result => result.is_ok() },
                                _ => sender.send_deadline(new(), Instant::now() + us(500)).is_ok(),
                            };
                            if result {
                                sent.fetch_add(1, SeqCst);
                            } else if sender.is_closed() {
                                break;
                            }
                        }
                    });
                    s.spawn(move || {
                        loop {
                            let result = match n {
                                0 => receiver.recv(),
                                1 => select! { recv(receiver) -> result => result },
                                _ => source::race([&receiver]).wait().unwrap(),
                            };
                            if result.is_err() {
                                break;
                            }
                            received.fetch_add(1, SeqCst);
                        }
                    });
                }
                for _ in 0..fastrand::u8(0..20) {
                    let _ = ecru::yield_now();
                }
                if now { receiver.close_now() } else { sender.close() }
            });
            let (sent, received) = (sent.load(SeqCst), received.load(SeqCst));
            assert!(received == sent || now && received <= sent, "{received} of {sent}");
            drop((sender, receiver));
            assert_eq!(alive.load(SeqCst), 0);
        }
    });
    println!("{rounds} channels in {length:?}");
}
