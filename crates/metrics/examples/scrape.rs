//! A page of metrics for Prometheus, served by a task, with fresh numbers for each request.
//!
//! ```sh
//! cargo run -p ecru-metrics --example scrape
//! ```

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream};
use ecru_metrics::Publisher;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

fn main() -> io::Result<()> {
    let exporter = PrometheusBuilder::new().build_recorder();
    let page = exporter.handle();
    metrics::set_global_recorder(exporter).map_err(io::Error::other)?;

    // A recorder adds the delays and the longest runs.
    ecru::Runtime::builder().record(1 << 20).build()?.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        ecru::try_scope(|s| {
            s.builder().name("metrics").spawn_daemon(|| serve(&listener, &page));
            for _ in 0..3 {
                s.spawn(|| {
                    metrics::counter!("program_rounds_total").increment(1); // one of its own
                    ecru::sleep(Duration::from_millis(20)).map_err(io::Error::from)
                });
            }
            print!("{}", fetch(address)?);
            Ok(())
        })
    })
}

/// Answers each connection with the page.
fn serve(listener: &TcpListener, page: &PrometheusHandle) -> io::Result<()> {
    let mut publisher = Publisher::new();
    loop {
        let (stream, _) = listener.accept()?;
        // A client that stops, or sends no end, must not stop the others for long.
        let answered = ecru::try_timeout(Duration::from_secs(2), || {
            publisher.publish(&ecru::diag::metrics());
            answer(&stream, &page.render())
        });
        if let Err(error) = answered {
            eprintln!("a client of the metrics has failed: {error}");
        }
    }
}

fn answer(mut stream: &TcpStream, page: &str) -> io::Result<()> {
    for line in BufReader::new(stream.take(8192)).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let length = page.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{page}")
}

/// What Prometheus does.
fn fetch(address: std::net::SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
