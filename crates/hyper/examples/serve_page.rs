//! A page over HTTP/1.1 with hyper, and a task without a stack for each connection.
//!
//! With an address the program serves until Ctrl-C, for an external load generator. Without an
//! address it runs its own client, and ends:
//! `cargo run --release -p ecru-hyper --example serve_page [ADDRESS [WORKERS]]`

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::time::Instant;

use ecru::net::{TcpListener, TcpStream};
use ecru_hyper::{EcruIo, EcruTimer};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

const PAGE: &str = "<!doctype html><title>ecru</title><p>undyed cloth\n";
const CLIENTS: usize = 10;
const REQUESTS: usize = 100;

async fn page(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(PAGE.as_bytes()))))
}

/// Serves connections until the task is cancelled.
fn serve(listener: &TcpListener) -> io::Result<()> {
    ecru::scope(|s| {
        loop {
            let (stream, from) = listener.accept()?;
            let io = match stream.set_nodelay(true).and_then(|()| EcruIo::new(stream)) {
                Ok(io) => io,
                Err(error) => {
                    eprintln!("{from}: {error}");
                    continue;
                }
            };
            s.spawn_future(async move {
                let mut builder = http1::Builder::new();
                let served = builder.timer(EcruTimer).serve_connection(io, service_fn(page)).await;
                if let Err(error) = served {
                    eprintln!("{from}: {error}");
                }
            });
        }
    })
}

/// Requests the page many times on one connection.
fn client(address: std::net::SocketAddr) -> io::Result<usize> {
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    let mut body = vec![0; PAGE.len()];
    for _ in 0..REQUESTS {
        stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        stream.read_exact(&mut body)?;
        if body != PAGE.as_bytes() {
            return Err(io::Error::other("this is not the page"));
        }
    }
    Ok(REQUESTS)
}

fn show() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let begun = Instant::now();
    let served = ecru::try_scope(|s| {
        s.spawn_daemon(|| serve(&listener).or(Ok(())));
        let clients: Vec<_> = (0..CLIENTS).map(|_| s.spawn(|| client(address))).collect();
        clients
            .into_iter()
            .map(|one| one.join().map_err(io::Error::other))
            .sum::<io::Result<usize>>()
    })?;
    let each = begun.elapsed() / u32::try_from(served).unwrap_or(u32::MAX);
    println!("{CLIENTS} clients got the page {served} times, every {each:?} on average");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next();
    let workers = arguments.next().map_or(Ok(1), |count| count.parse())?;
    let runtime = ecru::Runtime::builder().workers(workers).cancel_on_ctrl_c(true).build()?;
    runtime.run(|| match address {
        None => show(),
        Some(address) => {
            let listener = TcpListener::bind(&address)?;
            println!("http://{}/, until Ctrl-C", listener.local_addr()?);
            serve(&listener).or_else(|error| match ecru::Cancelled::find(&error) {
                Some(_) => Ok(()),
                None => Err(error),
            })
        }
    })?;
    Ok(())
}
