//! The contender `turmoil` of the rows `sim-echo` and `sim-connections`. It is an example because
//! turmoil turns on features of tokio that would change tokio's own rows.
//!
//! Prints the seconds for all round trips, and the bytes for a connection.

#[path = "../src/harness/memory.rs"]
#[allow(dead_code, reason = "only the resident bytes are of use here")]
mod memory;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use turmoil::net::{TcpListener, TcpStream};

const PORT: u16 = 7000;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let mut next = || numbers.next().expect("the number of connections, and that of rounds");
    let (connections, rounds) = (next(), next());

    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .simulation_duration(Duration::from_secs(1 << 20))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(1))
        .tcp_capacity(1 << 16)
        .build();
    sim.host("server", || async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(echo(stream));
        }
    });
    let before = memory::resident_bytes();
    sim.client("client", async move {
        let mut streams = Vec::new();
        for _ in 0..connections {
            streams.push(TcpStream::connect(("server", PORT)).await?);
        }
        let memory = (memory::resident_bytes() - before) / connections as f64;
        let began = Instant::now();
        let clients: JoinSet<()> = streams.into_iter().map(|stream| ask(stream, rounds)).collect();
        clients.join_all().await;
        println!("{} {memory}", began.elapsed().as_secs_f64());
        Ok(())
    });
    sim.run().expect("the simulation ends");
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 64];
    while stream.read_exact(&mut buffer).await.is_ok() {
        stream.write_all(&buffer).await.expect("the client reads");
    }
}

async fn ask(mut stream: TcpStream, rounds: usize) {
    let mut buffer = [7; 64];
    for _ in 0..rounds {
        stream.write_all(&buffer).await.expect("the server reads");
        stream.read_exact(&mut buffer).await.expect("the server answers");
    }
}
