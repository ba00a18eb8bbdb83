//! The works on the calling thread with tokio.

use std::future::Future;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::{spawn, task};

use crate::{BATCH, ECHO, Meter, Work};

pub(crate) fn measure(work: Work) -> Meter {
    match work {
        Work::Yield => run(yields()),
        Work::SpawnJoin => run(spawn_join()),
        Work::Channel => run(over_channels()),
        Work::Echo => run(echo()),
    }
}

/// Does the same while the subscriber of tokio's console is told of each task. It has a thread of its
/// own, and no client.
#[cfg(feature = "console")]
pub(crate) fn with_console(work: Work) -> Meter {
    console_subscriber::ConsoleLayer::builder().server_addr(([127, 0, 0, 1], 0)).init();
    measure(work)
}

fn run(work: impl Future<Output = Meter> + Send + 'static) -> Meter {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it starts");
    // In a task, as ecru's works are.
    runtime.block_on(async { spawn(work).await.expect("it ends") })
}

async fn yields() -> Meter {
    let other = spawn(async {
        loop {
            task::yield_now().await;
        }
    });
    let mut meter = Meter::start();
    while meter.goes_on() {
        for _ in 0..BATCH / 2 {
            task::yield_now().await;
        }
    }
    other.abort();
    meter
}

async fn spawn_join() -> Meter {
    let mut meter = Meter::start();
    while meter.goes_on() {
        for _ in 0..BATCH {
            spawn(async {}).await.expect("it ends");
        }
    }
    meter
}

async fn over_channels() -> Meter {
    let (ask, mut asked) = mpsc::channel::<u32>(1);
    let (answer, mut answered) = mpsc::channel::<u32>(1);
    let other = spawn(async move {
        while let Some(value) = asked.recv().await {
            answer.send(value).await.expect("it is open");
        }
    });
    let mut meter = Meter::start();
    while meter.goes_on() {
        for value in 0..BATCH {
            ask.send(value).await.expect("it is open");
            assert_eq!(answered.recv().await, Some(value));
        }
    }
    drop(ask);
    other.await.expect("it ends");
    meter
}

async fn echo() -> Meter {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (mut client, (mut server, _)) =
        (client.expect("it listens"), accepted.expect("a client has come"));
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("it is a socket");
    }
    let other = spawn(async move {
        let mut bytes = [0; ECHO];
        while server.read_exact(&mut bytes).await.is_ok() {
            server.write_all(&bytes).await.expect("the client is there");
        }
    });
    let mut bytes = [1; ECHO];
    let mut meter = Meter::start();
    while meter.goes_on() {
        for _ in 0..BATCH {
            client.write_all(&bytes).await.expect("the server is there");
            client.read_exact(&mut bytes).await.expect("the server is there");
        }
    }
    drop(client);
    other.await.expect("it ends");
    meter
}
