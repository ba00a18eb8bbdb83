//! A forgotten time limit on a half-open connection: the server loses its power while a client
//! waits for the answer. The client is told nothing, and waits for ever.

use super::{Form, is_found, passes};
use ecru::net::{TcpListener, TcpStream};
use ecru::schedule::Delay;
use ecru::{Retry, sim, sleep};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 7000;

/// Answers each byte with the same byte, after a while.
fn serve() -> io::Result<()> {
    TcpListener::bind(("0.0.0.0", PORT))?.serve(16, |mut stream, _| {
        let mut question = [0];
        while stream.read(&mut question)? > 0 {
            sleep(Duration::from_millis(20))?;
            stream.write_all(&question)?;
        }
        Ok(())
    })
}

fn ask(form: Form, server: SocketAddr) -> io::Result<u8> {
    let limit = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    if form == Form::Repaired {
        stream.set_read_timeout(Some(limit))?;
    }
    stream.write_all(&[7])?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

fn program(form: Form) {
    let server = sim::host("server", serve);
    let address = SocketAddr::new(server.addr(), PORT);
    let again = Retry::new().delay(Delay::Constant(Duration::from_millis(10)));
    ecru::scope(|s| {
        let client = s.builder().name("client").spawn(|| again.until_ok(|| ask(form, address)));
        let _ = sleep(Duration::from_millis(sim::random_u64() % 100));
        server.power_fail();
        server.restart();
        assert_eq!(client.join().expect("the client ends").expect("it retries"), 7);
    });
}

#[test]
fn half_open_connection_is_found() {
    // The client waits for bytes of the server, at this address.
    is_found(program, &["deadlock", "client", "read", ":7000", "half_open_connection.rs"]);
}

#[test]
fn half_open_connection_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("no time limit on a half-open connection", program);
