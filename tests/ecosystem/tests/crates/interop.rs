//! Futures of smol in direct style, and ecru's handles and sources in tokio and smol.

use std::time::{Duration, Instant};

use crate::support::{SHORT, each_run};
use ecru::{Source, channel};

/// Creates a tokio runtime, on threads of its own.
fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Results and messages of ecru's tasks, awaited in tokio's tasks.
#[test]
fn interop_ours_in_tokio() {
    let tokio = tokio_runtime();
    let runtime = ecru::Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let (told, ready) = std::sync::mpsc::channel();
    let (stop, stopped) = channel::oneshot();
    std::thread::scope(|s| {
        s.spawn(|| {
            runtime.run(|| {
                told.send(()).unwrap();
                stopped.wait().unwrap().unwrap();
            });
        });
        ready.recv().unwrap();
        let (sender, receiver) = channel::bounded(2);
        let done = tokio.block_on(async {
            let joined = handle.spawn(|| {
                ecru::sleep(SHORT).unwrap();
                6 * 7
            });
            let sends = handle.spawn(move || (0..100).try_for_each(|number| sender.send(number)));
            let sums = tokio::spawn(async move {
                let mut sum = 0;
                while let Ok(number) = (&receiver).to_future().await {
                    sum += number;
                }
                sum
            });
            let within = Duration::from_secs(60);
            let joined = tokio::time::timeout(within, joined.unwrap()).await.unwrap();
            let sent = sends.unwrap().await;
            (joined.unwrap(), sent.unwrap(), sums.await.unwrap())
        });
        assert_eq!(done, (42, Ok(()), 4950));

        // A future that tokio's own limit drops half-way has taken nothing.
        let (sender, receiver) = channel::unbounded();
        tokio.block_on(async {
            assert!(tokio::time::timeout(SHORT, (&receiver).to_future()).await.is_err());
            sender.send("kept").unwrap();
        });
        assert_eq!(receiver.try_recv(), Ok("kept"));
        stop.send(()).unwrap();
    });
}

/// Both conversions with smol, whose reactor needs no handle.
#[test]
fn interop_smol_both_ways() {
    each_run(|| {
        let begun = Instant::now();
        ecru::block_on(smol::Timer::after(SHORT)).unwrap();
        assert!(begun.elapsed() >= SHORT);
        assert!(ecru::timeout(SHORT, || ecru::block_on(smol::Timer::never())).is_err());

        let (sender, receiver) = channel::bounded(1);
        let (back, answers) = smol::channel::bounded(1);
        ecru::scope(|s| {
            let task = s.spawn(move || {
                for number in 0..100_u32 {
                    sender.send(number).unwrap();
                    let answer = ecru::block_on(answers.recv()).unwrap();
                    assert_eq!(answer, Ok(number + 1));
                }
                "done"
            });
            // smol's executor, on a thread of its own.
            let executor = std::thread::spawn(move || {
                smol::block_on(async {
                    while let Ok(number) = (&receiver).to_future().await {
                        back.send(number + 1).await.unwrap();
                    }
                });
            });
            assert_eq!(ecru::block_on(task).unwrap().unwrap(), "done");
            ecru::unblock(|| executor.join().unwrap());
        });
    });
}

/// A join of an ecru task, in a smol executor.
#[test]
fn interop_handle_in_smol() {
    each_run(|| {
        let handle = ecru::spawn(|| {
            ecru::sleep(SHORT).unwrap();
            String::from("from a task")
        });
        let text = ecru::unblock(|| smol::block_on(handle.into_future()));
        assert_eq!(text.unwrap(), "from a task");
    });
}
