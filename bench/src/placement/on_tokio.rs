//! The contender `tokio`: the multi-thread runtime.
//!
//! It follows tokio's documentation: jobs of more than 100 microseconds go to `spawn_blocking`. A
//! channel with several receivers is that of `async-channel`, because tokio has none.

use std::net::TcpListener;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::clients::served;
use super::measure::{Watch, hit, measure};
use super::shape::{
    ACTORS, Arrival, BESIDE_NAP, BURST, CAPACITY, CONNECTIONS, INNER, LATE, MAILBOX, NAP, OUTER,
    PAIRS, PAUSE, POOL_TASKS, REQUEST, SENDERS, STAGES, Shape, Spawner, actor_of, actor_steps,
    is_long, messages_of, nested_number,
};
use super::spin::spin;
use super::words;
use crate::harness::Sample;

/// Both ends of every channel live long enough, and no task is aborted.
const ALIVE: &str = "both ends are alive";

/// Measures these shapes, which all run at the same time.
pub(super) fn perform(shapes: &'static [Shape], workers: usize) -> Sample {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.expect("tokio starts");
    match *shapes {
        [shape @ Shape::Accept { steps, .. }] => {
            served(shape, |listener| in_task(&runtime, accept(listener, steps)))
        }
        [shape @ Shape::Blocked { tasks, steps, spawner }] => {
            let watch = Arc::new(Watch::over(tasks));
            let work = blocked(tasks, steps, spawner, watch.clone());
            let sample = measure(&[shape], || in_task(&runtime, work));
            watch.amend(sample, tasks)
        }
        _ => measure(shapes, || {
            in_task(&runtime, async {
                let tasks: JoinSet<()> = shapes.iter().map(|&shape| work(shape)).collect();
                tasks.join_all().await;
            });
        }),
    }
}

/// Runs `work` in a task, and not in the caller of `block_on`, which is not a worker.
fn in_task(runtime: &Runtime, work: impl Future<Output = ()> + Send + 'static) {
    runtime.block_on(runtime.spawn(work)).expect("the task does not panic");
}

/// Runs one shape.
async fn work(shape: Shape) {
    match shape {
        Shape::Pool { jobs, steps, arrival } => pool(jobs, steps, arrival).await,
        Shape::Pipeline { items, steps } => pipeline(items, steps).await,
        Shape::Pairs { messages } => pairs(messages).await,
        Shape::Map { items, steps } => map(items, steps).await,
        Shape::Nested { scopes, steps } => nested(scopes, steps).await,
        Shape::Short { tasks } => short(tasks).await,
        Shape::Actors { messages, steps } => actors(messages, steps).await,
        Shape::Words => count_words().await,
        Shape::Accept { .. } | Shape::Blocked { .. } => unreachable!("measured in its own way"),
    }
}

/// Computes on a worker, or on the blocking pool for a long job.
async fn job(number: u64, steps: u64) -> u64 {
    let compute = move || {
        let value = spin(number, steps);
        hit(value);
        value
    };
    if is_long(steps) { spawn_blocking(compute).await.expect(ALIVE) } else { compute() }
}

async fn pool(jobs: u64, steps: u64, arrival: Arrival) {
    let (sender, receiver) = async_channel::bounded::<u64>(CAPACITY);
    let mut tasks = JoinSet::new();
    for _ in 0..POOL_TASKS {
        let receiver = receiver.clone();
        tasks.spawn(async move {
            while let Ok(number) = receiver.recv().await {
                job(number, steps).await;
            }
        });
    }
    if arrival == Arrival::Late {
        sleep(LATE).await;
    }
    for number in 1..=jobs {
        sender.send(number).await.expect(ALIVE);
        if arrival == Arrival::Trickling && number % BURST == 0 {
            sleep(PAUSE).await;
        }
    }
    drop(sender);
    tasks.join_all().await;
}

async fn pipeline(items: u64, steps: u64) {
    let (first, mut from) = mpsc::channel::<u64>(CAPACITY);
    let mut tasks = JoinSet::new();
    for _ in 1..STAGES {
        let (to, next) = mpsc::channel(CAPACITY);
        let mut stage = std::mem::replace(&mut from, next);
        tasks.spawn(async move {
            while let Some(value) = stage.recv().await {
                let value = spin(value, steps);
                hit(0);
                to.send(value).await.expect(ALIVE);
            }
        });
    }
    tasks.spawn(async move {
        while let Some(value) = from.recv().await {
            hit(spin(value, steps));
        }
    });
    for number in 1..=items {
        first.send(number).await.expect(ALIVE);
    }
    drop(first);
    tasks.join_all().await;
}

/// tokio has no channel without a buffer, so the channel holds one value.
async fn pairs(messages: u64) {
    let mut tasks = JoinSet::new();
    for pair in 0..PAIRS {
        let (sender, mut receiver) = mpsc::channel::<u64>(1);
        tasks.spawn(async move {
            for number in 1..=messages {
                sender.send(pair * messages + number).await.expect(ALIVE);
            }
        });
        tasks.spawn(async move {
            while let Some(number) = receiver.recv().await {
                hit(number);
            }
        });
    }
    tasks.join_all().await;
}

async fn map(items: u64, steps: u64) {
    let spawn = |number| tokio::spawn(job(number, steps));
    let tasks: Vec<_> = (1..=items).map(spawn).collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.expect(ALIVE));
    }
    assert_eq!(results.len() as u64, items);
}

async fn nested(scopes: u64, steps: u64) {
    let mut outermost = JoinSet::new();
    for outer in 0..OUTER {
        outermost.spawn(async move {
            for scope in 0..scopes {
                let mut tasks = JoinSet::new();
                for inner in 0..INNER {
                    tasks.spawn(async move {
                        sleep(NAP).await;
                        hit(spin(nested_number(scopes, outer, scope, inner), steps));
                    });
                }
                tasks.join_all().await;
            }
        });
    }
    outermost.join_all().await;
}

async fn short(tasks: u64) {
    let spawn = |number| tokio::spawn(async move { hit(number) });
    let tasks: Vec<_> = (1..=tasks).map(spawn).collect();
    for task in tasks {
        task.await.expect(ALIVE);
    }
}

async fn actors(messages: u64, steps: u64) {
    let mut tasks = JoinSet::new();
    let mut mailboxes = Vec::new();
    for actor in 0..ACTORS {
        let (sender, mut mailbox) = mpsc::channel::<u64>(MAILBOX);
        mailboxes.push(sender);
        tasks.spawn(async move {
            while let Some(number) = mailbox.recv().await {
                hit(spin(number, actor_steps(actor, steps)));
            }
        });
    }
    for sender in 0..SENDERS {
        let mailboxes = mailboxes.clone();
        tasks.spawn(async move {
            for number in messages_of(sender, messages) {
                mailboxes[actor_of(number)].send(number).await.expect(ALIVE);
            }
        });
    }
    drop(mailboxes);
    tasks.join_all().await;
}

async fn accept(listener: TcpListener, steps: u64) {
    listener.set_nonblocking(true).expect("it is a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("it is TCP");
        tasks.spawn(async move {
            let mut request = [0; REQUEST];
            while stream.read_exact(&mut request).await.is_ok() {
                let number = u64::from_le_bytes(request[..8].try_into().expect("eight bytes"));
                let value = spin(number, steps);
                hit(value);
                stream.write_all(&value.to_le_bytes()).await.expect("the client waits");
            }
        });
    }
    tasks.join_all().await;
}

/// As in every contender, the foreign code runs in the task, and not in `spawn_blocking`.
async fn blocked(count: u64, steps: u64, spawner: Spawner, watch: Arc<Watch>) {
    let foreign = watch.clone();
    let spawn_all = move || {
        let task = |number| {
            let watch = watch.clone();
            async move {
                sleep(BESIDE_NAP).await;
                hit(spin(number, steps));
                watch.done();
            }
        };
        (1..=count).map(task).collect::<JoinSet<()>>()
    };
    if spawner == Spawner::Blocker {
        let blocker = async move {
            let tasks = spawn_all();
            foreign.foreign_code();
            tasks
        };
        tokio::spawn(blocker).await.expect(ALIVE).join_all().await;
        return;
    }
    let blocker = tokio::spawn(async move { foreign.foreign_code() });
    tokio::task::yield_now().await;
    spawn_all().join_all().await;
    blocker.await.expect(ALIVE);
}

async fn count_words() {
    let mut file = tokio::fs::File::open(words::file()).await.expect("the file was made");
    let (sender, receiver) = async_channel::bounded::<Vec<u8>>(CAPACITY);
    let mut tasks = JoinSet::new();
    for _ in 0..POOL_TASKS {
        let receiver = receiver.clone();
        tasks.spawn(async move {
            while let Ok(chunk) = receiver.recv().await {
                let counted = spawn_blocking(move || hit(words::count(&chunk)));
                counted.await.expect(ALIVE);
            }
        });
    }
    for _ in 0..words::CHUNKS {
        let mut chunk = vec![0; words::CHUNK];
        file.read_exact(&mut chunk).await.expect("the file is whole");
        sender.send(chunk).await.expect(ALIVE);
    }
    drop(sender);
    tasks.join_all().await;
}
