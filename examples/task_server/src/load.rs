//! The clients.

use ecru::net::TcpStream;
use ecru::par;
use ecru::sync::Semaphore;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// Those who call at the same time: more than a listener's queue holds would have to call again, a second later.
const CALLERS: usize = 64;

/// Runs them all at once and gives the sum of the bytes that they ended with.
///
/// # Errors
/// The first one's, by number, that did not get all its answers.
pub fn run(address: SocketAddr, seed: u64, clients: u64, messages: u64) -> io::Result<u64> {
    let callers = Semaphore::new(CALLERS);
    let last_bytes = par::map(0..clients, |number| {
        let stream = {
            let _permit = callers.acquire()?;
            TcpStream::connect(address)?
        };
        client(stream, seed.wrapping_add(number), messages)
    });
    last_bytes.into_iter().map(|byte| byte.map(u64::from)).sum()
}

/// Sends each request when the one before has been answered; the answer is the next one's seed.
fn client(mut stream: TcpStream, seed: u64, messages: u64) -> io::Result<u8> {
    stream.set_nodelay(true)?;
    let (mut current, kinds) = stream_of(seed);
    for kind in kinds.take(usize::try_from(messages).unwrap_or(usize::MAX)) {
        stream.write_all(format!("{kind}:{current}\n").as_bytes())?;
        stream.read_exact(std::slice::from_mut(&mut current))?;
    }
    Ok(current)
}

/// What a client with this seed draws: the seed of its first request, and the type of each.
pub fn stream_of(seed: u64) -> (u8, impl Iterator<Item = usize>) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let first = random.r#gen();
    (first, std::iter::repeat_with(move || random.r#gen::<usize>() % 2))
}
