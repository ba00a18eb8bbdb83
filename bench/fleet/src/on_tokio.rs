//! async-nats on tokio, on one thread.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::{self, Stream};
use async_nats::jetstream::{self, Context, kv, stream};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use tokio::runtime::Builder;

use crate::measure::{Cost, Sample, median};
use crate::{CONSUMER, PAYLOAD, Result, STREAM, SUBJECT, WINDOW};

/// A tenth of the operations come before the measured ones.
const WARM_UP: usize = 10;

/// Publishes to a stream, with at most [`WINDOW`] messages without an acknowledgement.
pub(crate) fn publish(url: &str, count: usize) -> Result<Sample> {
    on_tokio(url, async move |js| {
        create_stream(&js).await?;
        send(&js, count / WARM_UP).await?;
        let cost = Cost::begin();
        send(&js, count).await?;
        Ok(cost.per(count))
    })
}

/// Takes messages out of a stream, with at most [`WINDOW`] of them unconfirmed.
pub(crate) fn pull(url: &str, count: usize) -> Result<Sample> {
    on_tokio(url, async move |js| {
        let stream = create_stream(&js).await?;
        send(&js, count / WARM_UP + count).await?;
        let consumer = stream
            .create_consumer(pull::Config {
                durable_name: Some(CONSUMER.into()),
                max_ack_pending: 10_000,
                ..pull::Config::default()
            })
            .await?;
        let mut messages = consumer.stream().max_messages_per_batch(WINDOW).messages().await?;
        confirm(&mut messages, count / WARM_UP).await?;
        let cost = Cost::begin();
        confirm(&mut messages, count).await?;
        Ok(cost.per(count))
    })
}

/// Runs `work` in a task, and not in the caller of `block_on`, whose wake-ups cost more.
fn on_tokio<F>(url: &str, work: impl FnOnce(Context) -> F + Send + 'static) -> Result<Sample>
where
    F: Future<Output = Result<Sample>> + Send + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let url = url.to_owned();
    let task = async move {
        let client = async_nats::connect(url).await?;
        work(jetstream::new(client)).await
    };
    runtime.block_on(runtime.spawn(task))?
}

async fn create_stream(js: &Context) -> Result<stream::Stream> {
    let config = stream::Config {
        name: STREAM.into(),
        subjects: vec!["bench.>".into()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    };
    Ok(js.create_stream(config).await?)
}

async fn send(js: &Context, count: usize) -> Result<()> {
    let mut sent = VecDeque::with_capacity(WINDOW);
    for _ in 0..count {
        if sent.len() == WINDOW
            && let Some(oldest) = sent.pop_front()
        {
            IntoFuture::into_future(oldest).await?;
        }
        sent.push_back(js.publish(SUBJECT, Bytes::from_static(PAYLOAD)).await?);
    }
    for last in sent {
        last.await?;
    }
    Ok(())
}

async fn confirm(messages: &mut Stream, count: usize) -> Result<()> {
    messages
        .take(count)
        .map_err(Into::into)
        .try_for_each_concurrent(WINDOW, async |message| {
            assert_eq!(message.payload, PAYLOAD);
            message.double_ack().await
        })
        .await
}

/// The hops of a call: a job through a work queue to a worker, and its result through a bucket to
/// the caller. The worker stores the result before it confirms the job, as ecru-fleet does.
pub(crate) fn call(url: &str, count: usize) -> Result<Sample> {
    on_tokio(url, async move |js| {
        let stream = create_stream(&js).await?;
        let config = kv::Config { bucket: "results".into(), ..kv::Config::default() };
        let results = js.create_key_value(config).await?;
        let consumer = stream
            .create_consumer(pull::Config {
                durable_name: Some(CONSUMER.into()),
                ..pull::Config::default()
            })
            .await?;
        let mut jobs = consumer.stream().max_messages_per_batch(WINDOW).messages().await?;
        let mut seen = results.watch_all().await?;
        let store = results.clone();
        let worker = tokio::spawn(async move {
            while let Some(job) = jobs.next().await {
                tokio::spawn(work(job?, store.clone()));
            }
            Result::Ok(())
        });
        let mut times = Vec::with_capacity(count);
        for number in 0..(count / WARM_UP + count) as u64 {
            let begun = Instant::now();
            js.publish(SUBJECT, number.to_string().into()).await?.await?;
            let doubled = loop {
                let entry = seen.next().await.ok_or("the watch ended")??;
                if entry.key == number.to_string() {
                    break str::from_utf8(&entry.value)?.parse::<u64>()?;
                }
            };
            times.push(begun.elapsed());
            assert_eq!(doubled, 2 * number);
        }
        worker.abort();
        let times: Vec<Duration> = times.split_off(count / WARM_UP);
        Ok(vec![("time", median(times))])
    })
}

/// A job whose result is stored before it is confirmed.
async fn work(job: jetstream::Message, results: kv::Store) -> Result<()> {
    let number: u64 = str::from_utf8(&job.payload)?.parse()?;
    results.create(number.to_string(), (2 * number).to_string().into()).await?;
    job.double_ack().await
}
