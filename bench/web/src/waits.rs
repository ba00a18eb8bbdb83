//! What it costs to wait for a future: from a task for one of tokio's, and between two tasks.

use std::time::Instant;

use ecru::{DriverKind, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::load::Sample;
use crate::{Kind, Result, Side};

const TIMES: u32 = 100_000;

/// Runs one side for one round, in this process. Returns the time of one wait.
pub(crate) fn measure(side: Side, kind: Kind) -> Result<Sample> {
    let driver = match side {
        Side::Tokio => None,
        Side::Ecru => Some(DriverKind::Uring),
        Side::EcruPoll => Some(DriverKind::Poll),
    };
    let time = match (kind, driver) {
        (Kind::Crossing, None) => crossing_from_a_thread()?,
        (Kind::Crossing, Some(driver)) => crossing_from_a_task(driver)?,
        (_, None) => round_trips_on_tokio()?,
        (_, Some(driver)) => round_trips_on_ecru(driver)?,
    };
    Ok(vec![("time", time)])
}

/// Calls `once` a tenth of the times first, and returns its time in nanoseconds.
fn timed(mut once: impl FnMut()) -> f64 {
    (0..TIMES / 10).for_each(|_| once());
    let start = Instant::now();
    (0..TIMES).for_each(|_| once());
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

/// A task of tokio's answers each request. A crossing is one request and its answer.
fn answerer(handle: &tokio::runtime::Handle) -> (Sender<u32>, Receiver<u32>) {
    let (requests, mut asked) = channel(1);
    let (answers, answered) = channel(1);
    handle.spawn(async move {
        while let Some(number) = asked.recv().await {
            if answers.send(number).await.is_err() {
                break;
            }
        }
    });
    (requests, answered)
}

async fn ask(requests: &Sender<u32>, answers: &mut Receiver<u32>) {
    requests.send(7).await.expect("the other task listens");
    assert_eq!(answers.recv().await, Some(7));
}

fn crossing_from_a_thread() -> Result<f64> {
    // With sockets and timers, as the runtime of the other side.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build()?;
    let (requests, mut answers) = answerer(runtime.handle());
    Ok(timed(|| runtime.handle().block_on(ask(&requests, &mut answers))))
}

fn crossing_from_a_task(driver: DriverKind) -> Result<f64> {
    let (requests, mut answers) = answerer(ecru_tokio::handle());
    let runtime = Runtime::builder().workers(1).driver(driver).build()?;
    Ok(runtime.run(|| {
        timed(|| ecru_tokio::wait(ask(&requests, &mut answers)).expect("it is not cancelled"))
    }))
}

fn round_trips_on_tokio() -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (requests, mut answers) = answerer(runtime.handle());
    let asker = async move {
        for _ in 0..TIMES / 10 {
            ask(&requests, &mut answers).await;
        }
        let start = Instant::now();
        for _ in 0..TIMES {
            ask(&requests, &mut answers).await;
        }
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    // In a task of its own, because the caller of `block_on` is woken in a dearer way.
    Ok(runtime.block_on(async { tokio::spawn(asker).await })?)
}

/// Both tasks wait by `block_on` on one worker.
fn round_trips_on_ecru(driver: DriverKind) -> Result<f64> {
    let runtime = Runtime::builder().workers(1).driver(driver).build()?;
    Ok(runtime.run(|| {
        let (requests, mut asked) = channel(1);
        let (answers, mut answered) = channel(1);
        ecru::scope(|s| {
            s.spawn(move || {
                while let Ok(Some(number)) = ecru::block_on(asked.recv()) {
                    if !ecru::block_on(answers.send(number)).is_ok_and(|sent| sent.is_ok()) {
                        break;
                    }
                }
            });
            // By the value, so that its end is the other task's.
            let requests = requests;
            timed(|| {
                ecru::block_on(ask(&requests, &mut answered)).expect("it is not cancelled");
            })
        })
    }))
}
