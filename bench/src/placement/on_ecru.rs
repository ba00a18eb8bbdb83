//! ecru's contenders.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use ecru::channel;
use ecru::{JoinHandle, Placement, Runtime, Scope};

use super::clients::served;
use super::measure::{Watch, hit, measure};
use super::shape::{
    ACTORS, Arrival, BESIDE_NAP, BURST, CAPACITY, CONNECTIONS, INNER, LATE, MAILBOX, NAP, OUTER,
    PAIRS, PAUSE, POOL_TASKS, REQUEST, SENDERS, STAGES, Shape, Spawner, actor_of, actor_steps,
    messages_of, nested_number,
};
use super::spin::spin;
use super::words;
use crate::harness::Sample;

/// Nothing is cancelled here, and no end of a channel is dropped early.
const ALIVE: &str = "nothing is cancelled";

/// A contender's settings of ecru.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) workers: usize,
    pub(super) placement: Placement,
    /// Whether tasks are spawned with `near()`.
    pub(super) near: bool,
}

/// Measures these shapes, which all run at the same time.
pub(super) fn perform(shapes: &[Shape], setup: Setup) -> Sample {
    let runtime = Runtime::builder().workers(setup.workers).placement(setup.placement).build();
    let runtime = runtime.expect("the runtime starts");
    let near = setup.near;
    match *shapes {
        [shape @ Shape::Accept { steps, .. }] => {
            served(shape, |listener| runtime.run(|| accept(listener, steps)))
        }
        [shape @ Shape::Blocked { tasks, steps, spawner }] => {
            let watch = Watch::over(tasks);
            let work = || blocked(tasks, steps, spawner, &watch);
            let sample = measure(&[shape], || runtime.run(work));
            watch.amend(sample, tasks)
        }
        [shape] => measure(shapes, || runtime.run(|| work(shape, near))),
        _ => measure(shapes, || {
            runtime.run(|| {
                ecru::scope(|s| {
                    for &shape in shapes {
                        s.spawn(move || work(shape, near));
                    }
                });
            });
        }),
    }
}

/// Runs one shape, in a task.
fn work(shape: Shape, near: bool) {
    match shape {
        Shape::Pool { jobs, steps, arrival } => pool(jobs, steps, arrival),
        Shape::Pipeline { items, steps } => pipeline(items, steps, near),
        Shape::Pairs { messages } => pairs(messages, near),
        Shape::Map { items, steps } => map(items, steps),
        Shape::Nested { scopes, steps } => nested(scopes, steps),
        Shape::Short { tasks } => short(tasks),
        Shape::Actors { messages, steps } => actors(messages, steps),
        Shape::Words => count_words(),
        Shape::Accept { .. } | Shape::Blocked { .. } => unreachable!("measured in its own way"),
    }
}

/// Spawns a task, with `near()` if requested. ecru attributes its observations to the caller's
/// source location.
#[track_caller]
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    near: bool,
    task: impl FnOnce() -> T + Send + 'scope,
) -> JoinHandle<'scope, T> {
    if near { scope.builder().near().spawn(task) } else { scope.spawn(task) }
}

fn pool(jobs: u64, steps: u64, arrival: Arrival) {
    let (sender, receiver) = channel::bounded::<u64>(CAPACITY);
    ecru::scope(|s| {
        for _ in 0..POOL_TASKS {
            let receiver = receiver.clone();
            s.spawn(move || receiver.iter().for_each(|number| hit(spin(number, steps))));
        }
        if arrival == Arrival::Late {
            ecru::sleep(LATE).expect(ALIVE);
        }
        for number in 1..=jobs {
            sender.send(number).expect(ALIVE);
            if arrival == Arrival::Trickling && number % BURST == 0 {
                ecru::sleep(PAUSE).expect(ALIVE);
            }
        }
        drop(sender);
    });
}

fn pipeline(items: u64, steps: u64, near: bool) {
    let (first, mut from) = channel::bounded::<u64>(CAPACITY);
    ecru::scope(|s| {
        for _ in 1..STAGES {
            let (to, next) = channel::bounded(CAPACITY);
            let stage = std::mem::replace(&mut from, next);
            start(s, near, move || {
                for value in stage.iter() {
                    let value = spin(value, steps);
                    hit(0);
                    to.send(value).expect(ALIVE);
                }
            });
        }
        start(s, near, move || from.iter().for_each(|value| hit(spin(value, steps))));
        for number in 1..=items {
            first.send(number).expect(ALIVE);
        }
        drop(first);
    });
}

fn pairs(messages: u64, near: bool) {
    ecru::scope(|s| {
        for pair in 0..PAIRS {
            let (sender, receiver) = channel::bounded::<u64>(0);
            start(s, near, move || {
                for number in 1..=messages {
                    sender.send(pair * messages + number).expect(ALIVE);
                }
            });
            start(s, near, move || receiver.iter().for_each(hit));
        }
    });
}

fn map(items: u64, steps: u64) {
    let results = ecru::par::map(1..=items, |number| {
        let value = spin(number, steps);
        hit(value);
        value
    });
    assert_eq!(results.len() as u64, items);
}

fn nested(scopes: u64, steps: u64) {
    ecru::scope(|s| {
        for outer in 0..OUTER {
            s.spawn(move || {
                for scope in 0..scopes {
                    ecru::scope(|s| {
                        for inner in 0..INNER {
                            s.spawn(move || {
                                ecru::sleep(NAP).expect(ALIVE);
                                hit(spin(nested_number(scopes, outer, scope, inner), steps));
                            });
                        }
                    });
                }
            });
        }
    });
}

fn short(tasks: u64) {
    ecru::scope(|s| {
        for number in 1..=tasks {
            s.spawn(move || hit(number));
        }
    });
}

fn actors(messages: u64, steps: u64) {
    ecru::scope(|s| {
        let actor = |actor| {
            let (sender, mailbox) = channel::bounded::<u64>(MAILBOX);
            let steps = actor_steps(actor, steps);
            s.spawn(move || mailbox.iter().for_each(|number| hit(spin(number, steps))));
            sender
        };
        let mailboxes: Vec<_> = (0..ACTORS).map(actor).collect();
        for sender in 0..SENDERS {
            let mailboxes = mailboxes.clone();
            s.spawn(move || {
                for number in messages_of(sender, messages) {
                    mailboxes[actor_of(number)].send(number).expect(ALIVE);
                }
            });
        }
    });
}

fn accept(listener: TcpListener, steps: u64) {
    let listener = ecru::net::TcpListener::from(OwnedFd::from(listener));
    ecru::scope(|s| {
        for stream in listener.incoming().take(CONNECTIONS as usize) {
            let mut stream = stream.expect("a connection");
            stream.set_nodelay(true).expect("it is TCP");
            s.spawn(move || {
                let mut request = [0; REQUEST];
                while stream.read_exact(&mut request).is_ok() {
                    let number = u64::from_le_bytes(request[..8].try_into().expect("eight bytes"));
                    let value = spin(number, steps);
                    hit(value);
                    stream.write_all(&value.to_le_bytes()).expect("the client waits");
                }
            });
        }
    });
}

fn blocked(tasks: u64, steps: u64, spawner: Spawner, watch: &Watch) {
    ecru::scope(|s| {
        let spawn_all = move || {
            for number in 1..=tasks {
                s.spawn(move || {
                    ecru::sleep(BESIDE_NAP).expect(ALIVE);
                    hit(spin(number, steps));
                    watch.done();
                });
            }
        };
        s.spawn(move || {
            if spawner == Spawner::Blocker {
                spawn_all();
            }
            watch.foreign_code();
        });
        if spawner == Spawner::Other {
            ecru::yield_now().expect(ALIVE);
            spawn_all();
        }
    });
}

fn count_words() {
    let mut file = ecru::fs::File::open(words::file()).expect("the file was made");
    let (sender, receiver) = channel::bounded::<Vec<u8>>(CAPACITY);
    ecru::scope(|s| {
        for _ in 0..POOL_TASKS {
            let receiver = receiver.clone();
            s.spawn(move || receiver.iter().for_each(|chunk| hit(words::count(&chunk))));
        }
        for _ in 0..words::CHUNKS {
            let mut chunk = vec![0; words::CHUNK];
            file.read_exact(&mut chunk).expect("the file is whole");
            sender.send(chunk).expect(ALIVE);
        }
        drop(sender);
    });
}
