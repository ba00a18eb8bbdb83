//! The clients.

use ecru::net::TcpStream;
use ecru::par;
use ecru::sync::Semaphore;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// The number of clients that connect at the same time. More than a listener's queue holds would
/// have to retry a second later.
const CALLERS: usize = 64;

/// Runs all clients at once and returns the sum of their last bytes.
///
/// # Errors
/// Returns the error of the first client, by number, that did not get all its answers.
pub fn run(address: SocketAddr, seed: u64, clients: u64, messages: u64) -> io::Result<u64> {
    run_on(&[address], seed, clients, messages)
}

/// Runs all clients at once, against several servers in turn, and returns the sum of their last
/// bytes.
///
/// # Errors
/// Returns the error of the first client, by number, that did not get all its answers.
///
/// # Panics
/// Panics if there are clients and no servers.
pub fn run_on(servers: &[SocketAddr], seed: u64, clients: u64, messages: u64) -> io::Result<u64> {
    let callers = Semaphore::new(CALLERS);
    let last_bytes = par::map(0..clients, |number| {
        let stream = {
            let _permit = callers.acquire()?;
            TcpStream::connect(servers[number as usize % servers.len()])?
        };
        client(stream, seed.wrapping_add(number), messages)
    });
    last_bytes.into_iter().map(|byte| byte.map(u64::from)).sum()
}

/// Sends each request when the previous one has been answered. The answer is the seed of the next
/// request.
fn client(mut stream: TcpStream, seed: u64, messages: u64) -> io::Result<u8> {
    stream.set_nodelay(true)?;
    let (mut current, kinds) = stream_of(seed);
    for kind in kinds.take(usize::try_from(messages).unwrap_or(usize::MAX)) {
        stream.write_all(format!("{kind}:{current}\n").as_bytes())?;
        stream.read_exact(std::slice::from_mut(&mut current))?;
    }
    Ok(current)
}

/// Returns what a client with this seed draws: the seed of its first request, and the type of each.
pub fn stream_of(seed: u64) -> (u8, impl Iterator<Item = usize>) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let first = random.r#gen();
    (first, std::iter::repeat_with(move || random.r#gen::<usize>() % 2))
}
