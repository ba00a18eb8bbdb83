//! A pool of connections that takes back a connection whose request has timed out. The late answer
//! is read by the next request on it.

use super::{Form, is_found, passes};
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::Mutex;
use ecru::{sim, sleep};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Answers each request with itself, after up to 80 ms.
fn serve() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:7000")?.serve(16, |mut stream, _| {
        let mut request = [0];
        while stream.read(&mut request)? > 0 {
            sleep(Duration::from_millis(sim::random_u64() % 80))?;
            stream.write_all(&request)?;
        }
        Ok(())
    })
}

fn ask(stream: &mut TcpStream, request: u8) -> io::Result<u8> {
    let mut answer = [0];
    stream.write_all(&[request])?;
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

fn with_pool(form: Form, pool: &Mutex<Vec<TcpStream>>, request: u8) -> io::Result<u8> {
    let pooled = pool.lock().pop();
    let mut stream = match pooled {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect("server:7000")?;
            stream.set_read_timeout(Some(Duration::from_millis(50)))?;
            stream
        }
    };
    let answer = ask(&mut stream, request);
    if form == Form::Buggy || answer.is_ok() {
        pool.lock().push(stream);
    }
    answer
}

fn program(form: Form) {
    sim::host("server", serve);
    sim::settle();
    let pool = Mutex::new(Vec::new());
    ecru::scope(|s| {
        for client in 0..2_u8 {
            let pool = &pool;
            s.builder().name(format!("client {client}")).spawn(move || {
                for number in 0..4 {
                    let request = 16 * client + number;
                    if let Ok(answer) = with_pool(form, pool, request) {
                        assert_eq!(answer, request, "the answer is that of another request");
                    }
                }
            });
        }
    });
}

#[test]
fn answer_of_another_is_found() {
    is_found(program, &["that of another request", "client ", "answer_of_another.rs", "'server'"]);
}

#[test]
fn answer_of_another_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("pool that takes back a broken connection", program);
