//! A TCP proxy between the clients and one broker, which can stop forwarding.
//!
//! A partition closes no connection: both sides see silence. When it ends, what was held back is
//! forwarded, or all connections are cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Weak};

use ecru::Scope;
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::{Condvar, Mutex};

use crate::plan::Direction;

/// A proxy. Its tasks are daemons of the scope that it was started in.
#[derive(Clone, Debug)]
pub(crate) struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    broker: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    holds: Option<Direction>,
    /// Both ends of each connection.
    links: Vec<Weak<[TcpStream; 2]>>,
}

impl Proxy {
    /// Listens for clients of the broker.
    pub(crate) fn start<'s>(s: &'s Scope<'s, '_>, broker: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, state) = (listener.local_addr()?, Mutex::default());
        let proxy = Proxy(Arc::new(Shared { address, broker, state, changed: Condvar::new() }));
        let shared = Arc::clone(&proxy.0);
        s.spawn_daemon(move || accept(&listener, &shared));
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Holds back what is sent in a direction.
    pub(crate) fn hold(&self, direction: Direction) {
        self.0.state.lock().holds = Some(direction);
    }

    /// Forwards everything again. If `cut`, closes all connections instead.
    pub(crate) fn release(&self, cut: bool) {
        let mut state = self.0.state.lock();
        state.holds = None;
        if cut {
            for link in state.links.drain(..).filter_map(|link| link.upgrade()) {
                close(&link);
            }
        }
        self.0.changed.notify_all();
    }
}

fn close(link: &[TcpStream; 2]) {
    for stream in link {
        // It may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, shared: &Shared) -> io::Result<()> {
    ecru::scope(|s| {
        loop {
            let (client, _) = listener.accept()?;
            s.spawn_daemon(move || {
                // If the broker is dead, the client sees a connection that ends at once.
                let Ok(broker) = TcpStream::connect(shared.broker) else { return };
                let link = Arc::new([client, broker]);
                let mut state = shared.state.lock();
                state.links.retain(|link| link.strong_count() > 0);
                state.links.push(Arc::downgrade(&link));
                drop(state);
                let [client, broker] = &*link;
                ecru::scope(|s| {
                    s.spawn(|| forward(client, broker, shared, Direction::ToBroker, &link));
                    forward(broker, client, shared, Direction::ToClient, &link);
                });
            });
        }
    })
}

/// Forwards until one side closes the connection, and closes it then.
fn forward(
    from: &TcpStream,
    to: &TcpStream,
    shared: &Shared,
    direction: Direction,
    link: &[TcpStream; 2],
) {
    let mut buffer = vec![0; 16 * 1024];
    let (mut from, mut to) = (from, to);
    while let Ok(length) = from.read(&mut buffer)
        && length > 0
        && shared.pass(direction).is_ok()
        && to.write_all(&buffer[..length]).is_ok()
    {}
    close(link);
}

impl Shared {
    /// Waits until bytes in this direction are forwarded.
    fn pass(&self, direction: Direction) -> Result<(), ecru::Cancelled> {
        let is_held = |state: &mut State| {
            state.holds.is_some_and(|holds| holds == direction || holds == Direction::Both)
        };
        self.changed.wait_while(&mut self.state.lock(), is_held)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// Answers each line with itself.
    fn echo(listener: &TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept()?;
            for line in BufReader::new(&stream).lines() {
                (&stream).write_all((line? + "\n").as_bytes())?;
            }
        }
    }

    fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        Ok(line)
    }

    #[test]
    fn a_partition_holds_bytes_back_until_it_ends() {
        let ran = ecru::run(|| {
            let broker = TcpListener::bind("127.0.0.1:0")?;
            ecru::scope(|s| {
                let proxy = Proxy::start(s, broker.local_addr()?)?;
                s.spawn_daemon(move || echo(&broker));
                for direction in [Direction::ToBroker, Direction::ToClient, Direction::Both] {
                    let mut stream = BufReader::new(TcpStream::connect(proxy.address())?);
                    stream.get_mut().write_all(b"one\n")?;
                    assert_eq!(line(&mut stream)?, "one\n");
                    proxy.hold(direction);
                    stream.get_mut().write_all(b"two\n")?;
                    let silence = std::time::Duration::from_millis(50);
                    ecru::timeout(silence, || line(&mut stream)).unwrap_err();
                    proxy.release(false);
                    assert_eq!(line(&mut stream)?, "two\n");
                    proxy.release(true);
                    assert!(line(&mut stream).map_or(true, |line| line.is_empty()));
                }
                Ok::<(), io::Error>(())
            })
        });
        ran.unwrap();
    }
}
