//! Futures of tokio and smol in direct style, and ecru's handles and sources in tokio and smol.

use std::time::{Duration, Instant};

use crate::support::{SHORT, each_run};
use ecru::{Source, channel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Creates a tokio runtime, on threads of its own.
fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// tokio's timers, sockets, channels and tasks, awaited in an ecru task while tokio's handle is
/// entered.
#[test]
fn interop_tokio_futures_in_block_on() {
    let tokio = tokio_runtime();
    each_run(|| {
        let _entered = tokio.enter();
        let begun = Instant::now();
        ecru::block_on(tokio::time::sleep(SHORT)).unwrap();
        assert!(begun.elapsed() >= SHORT);

        let answer = ecru::block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            });
            let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
            client.write_all(b"hello").await.unwrap();
            let mut bytes = [0; 5];
            client.read_exact(&mut bytes).await.unwrap();
            server.await.unwrap();
            bytes
        });
        assert_eq!(&answer.unwrap(), b"hello");
    });
}

/// Many tasks of a worker await futures that tokio runs. None of them enters tokio's runtime: the
/// guards of several tasks would be dropped in an order that tokio refuses.
#[test]
fn interop_tokio_futures_in_many_tasks() {
    let tokio = tokio_runtime();
    each_run(|| {
        let handle = tokio.handle();
        ecru::scope(|s| {
            let tasks: Vec<_> = (0..20)
                .map(|n| {
                    s.spawn(move || {
                        let length = Duration::from_millis(20 - n);
                        let future = async move {
                            tokio::time::sleep(length).await;
                            n
                        };
                        ecru::block_on(handle.spawn(future)).unwrap().unwrap()
                    })
                })
                .collect();
            assert_eq!(tasks.iter().map(|task| task.join().unwrap()).sum::<u64>(), 190);
        });
    });
}

/// The other tasks of the worker continue while one waits for tokio, and a limit ends its wait.
#[test]
fn interop_block_on_parks_and_is_cancelled() {
    let tokio = tokio_runtime();
    each_run(|| {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        ecru::scope(|s| {
            let receives = s.spawn(move || ecru::block_on(async { receiver.recv().await }));
            ecru::yield_now().unwrap();
            s.spawn(move || ecru::block_on(sender.send(7)).unwrap().unwrap());
            assert_eq!(receives.join().unwrap(), Ok(Some(7)));
        });
        let _entered = tokio.enter();
        let hour = || tokio::time::sleep(Duration::from_secs(3600));
        assert!(ecru::timeout(SHORT, || ecru::block_on(hour())).is_err());
    });
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

/// The same conversions with smol, whose reactor needs no handle.
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
