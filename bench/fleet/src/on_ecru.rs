//! ecru's side: `ecru-nats` and `ecru-fleet`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ecru::Source;
use ecru_fleet::{Fleet, Queue};
use ecru_nats::jetstream::{Ack, ConsumerConfig, Deliveries, JetStream, Retention, StreamConfig};
use ecru_nats::{Client, Message};

use crate::measure::{Cost, Sample, median, resident_bytes};
use crate::workers::{self, Worker};
use crate::{CONSUMER, PAYLOAD, Result, STREAM, SUBJECT, WINDOW};

/// A tenth of the operations come before the measured ones.
const WARM_UP: usize = 10;

/// The length of a nap.
const NAP: Duration = Duration::from_millis(100);

/// The processes that nap, and the naps of each at once.
const NAPPERS: (usize, usize) = (2, 256);

/// How many jobs the worker holds while the rest is queued.
const HELD: usize = 16;

/// Publishes to a stream, with at most [`WINDOW`] messages without an acknowledgement.
pub(crate) fn publish(url: &str, count: usize) -> Result<Sample> {
    with_stream(url, |js| {
        send(js, count / WARM_UP)?;
        let cost = Cost::begin();
        send(js, count)?;
        Ok(cost.per(count))
    })
}

/// Takes messages out of a stream, with at most [`WINDOW`] of them taken or unconfirmed.
pub(crate) fn pull(url: &str, count: usize) -> Result<Sample> {
    with_stream(url, |js| {
        send(js, count / WARM_UP + count)?;
        let config =
            ConsumerConfig { max_ack_pending: Some(10_000), ..ConsumerConfig::new(CONSUMER) };
        let messages = js.create_consumer(STREAM, &config)?.messages(WINDOW)?;
        confirm(&messages, count / WARM_UP)?;
        let cost = Cost::begin();
        confirm(&messages, count)?;
        Ok(cost.per(count))
    })
}

fn with_stream(url: &str, work: impl FnOnce(&JetStream) -> Result<Sample>) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let js = Client::connect(s, url)?.jetstream();
            js.create_stream(&StreamConfig {
                subjects: vec!["bench.>".into()],
                retention: Retention::WorkQueue,
                ..StreamConfig::new(STREAM)
            })?;
            work(&js)
        })
    })
}

fn send(js: &JetStream, count: usize) -> Result<()> {
    let mut sent = VecDeque::with_capacity(WINDOW);
    for _ in 0..count {
        if sent.len() == WINDOW
            && let Some(oldest) = sent.pop_front()
        {
            oldest_stored(oldest)?;
        }
        let message = Message::new(SUBJECT, Bytes::from_static(PAYLOAD));
        sent.push_back(js.begin_publish(&message)?);
    }
    sent.into_iter().try_for_each(oldest_stored)
}

fn oldest_stored(publishing: ecru_nats::jetstream::Publishing) -> Result<()> {
    publishing.get()?;
    Ok(())
}

fn confirm(messages: &Deliveries, count: usize) -> Result<()> {
    let mut confirming = VecDeque::with_capacity(WINDOW);
    for _ in 0..count {
        if confirming.len() == WINDOW
            && let Some(oldest) = confirming.pop_front()
        {
            ecru_nats::Request::get(oldest)?;
        }
        let message = messages.recv()?;
        assert_eq!(message.payload(), PAYLOAD);
        confirming.push_back(message.begin_confirm(&Ack::Done)?);
    }
    for last in confirming {
        last.get()?;
    }
    Ok(())
}

/// Calls a function that this process serves, one call after another.
pub(crate) fn call(url: &str, count: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let double = Fleet::connect(s, url)?.function("double", |n: u64, _run| Ok(2 * n));
            let double = double.open()?;
            s.spawn_daemon({
                let double = double.clone();
                move || double.serve(WINDOW)
            });
            let mut times = Vec::with_capacity(count);
            for number in 0..(count / WARM_UP + count) as u64 {
                let begun = Instant::now();
                let doubled = double.call(number)?;
                times.push(begun.elapsed());
                assert_eq!(doubled, 2 * number);
            }
            Ok(vec![("time", median(times.split_off(count / WARM_UP)))])
        })
    })
}

/// Maps a function that does nothing, which this process serves. Its results are stored.
pub(crate) fn noop(url: &str, count: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let noop = Fleet::connect(s, url)?.function("noop", |n: u64, _run| Ok(n)).open()?;
            s.spawn_daemon({
                let noop = noop.clone();
                move || noop.serve(WINDOW)
            });
            let map = |name: &str, count: usize| {
                let results = noop.map(name, 0..count as u64)?;
                let mut next = 0;
                for result in results {
                    assert_eq!(result?, next);
                    next += 1;
                }
                assert_eq!(next, count as u64);
                Result::Ok(())
            };
            map("before", count / WARM_UP)?;
            let cost = Cost::begin();
            map("measured", count)?;
            Ok(cost.per(count))
        })
    })
}

/// Maps naps over two processes, and returns the time as a multiple of the ideal.
pub(crate) fn naps(url: &str, count: usize) -> Result<Sample> {
    let (processes, slots) = NAPPERS;
    let workers: Result<Vec<_>> =
        (0..processes).map(|_| Worker::start(workers::NAPS, url, slots)).collect();
    let workers = workers?;
    let sample = ecru::run(|| {
        ecru::scope(|s| {
            let nap = workers::function(&Fleet::connect(s, url)?)?;
            let map = |name: &str, count: usize, length: Duration| {
                let length = length.as_millis() as u64;
                let mut done = 0;
                for result in nap.map(name, std::iter::repeat_n(length, count))? {
                    assert_eq!(result?, length);
                    done += 1;
                }
                assert_eq!(done, count);
                Result::Ok(())
            };
            map("before", processes * slots, Duration::ZERO)?;
            let begun = Instant::now();
            map("measured", count, NAP)?;
            let ideal = NAP.as_secs_f64() * count as f64 / (processes * slots) as f64;
            Ok(vec![("time", begun.elapsed().as_secs_f64() / ideal)])
        })
    });
    drop(workers);
    sample
}

/// Kills a process that has a number of jobs, and returns the seconds until this one has the first
/// and the last of them.
pub(crate) fn rerun(url: &str, count: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = workers::queue(&Fleet::connect(s, url)?)?;
            send_jobs(&queue, count)?;
            let mut worker = Worker::start(workers::HOLD, url, count)?;
            worker.wait_for("begun")?;
            let jobs = queue.jobs(count)?;
            worker.kill()?;
            let begun = Instant::now();
            let first = jobs.recv()?;
            let to_first = begun.elapsed().as_secs_f64();
            assert_eq!(first.attempt(), 2);
            let others: Vec<_> = jobs.iter().take(count - 1).collect();
            let to_last = begun.elapsed().as_secs_f64();
            for job in others.into_iter().chain([first]) {
                job.done()?;
            }
            Ok(vec![("first", to_first), ("last", to_last)])
        })
    })
}

/// Queues jobs while a worker holds a few of them, and returns the memory of both.
pub(crate) fn memory(url: &str, count: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let queue = workers::queue(&Fleet::connect(s, url)?)?;
            let mut worker = Worker::start(workers::HOLD, url, HELD)?;
            send_jobs(&queue, count)?;
            worker.wait_for("begun")?;
            let (own, workers) = (std::process::id(), worker.id());
            Ok(vec![("coordinator", resident_bytes(own)?), ("worker", resident_bytes(workers)?)])
        })
    })
}

fn send_jobs(queue: &Queue<u64>, count: usize) -> Result<()> {
    let mut sent = VecDeque::with_capacity(WINDOW);
    for number in 0..count as u64 {
        if sent.len() == WINDOW
            && let Some(oldest) = sent.pop_front()
        {
            Source::wait(&oldest)??;
        }
        sent.push_back(queue.begin_send(number));
    }
    for last in sent {
        last.wait()??;
    }
    Ok(())
}
