//! Servers under load: what is measured, and where each side runs.
//!
//! ```text
//!  first core: the contender's process                    second core: the load's process
//!  a server of the contender's own, one worker  <-- TCP -->  requests, one per connection
//!  a thread that waits for the load's words     <-- pipe --  `begin`, then `end REQUESTS P99`
//! ```
//! The server's cost is the CPU time of its own process, in user and kernel mode, between the two
//! words, divided by the number of requests. CPU time is what a loaded machine lacks. The load is
//! another process, so its work is not counted.
//!
//! With idle connections, the memory of the server's process is measured.
//!
//! Every contender answers through a [`Session`], so all do the same with the bytes.

mod load;
mod session;

use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::harness::{Metric, Sample, Unit, cpu_seconds, resident_bytes, second_core};

pub(crate) use load::load_main;
pub(crate) use session::{IDLE_ROOM, ROOM, Session};

/// The work of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Echoes what it receives. The requests are 64 bytes long.
    Echo,
    /// Answers each HTTP request with the same short page; the load is wrk.
    Http,
    /// As `Echo`, with a buffer of one request. The load sends one request on each connection and
    /// then keeps still.
    Idle,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Echo => "echo",
            Service::Http => "http",
            Service::Idle => "idle",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Service> {
        [Service::Echo, Service::Http, Service::Idle]
            .into_iter()
            .find(|service| service.name() == name)
    }
}

/// The metrics of each contender of such a row.
pub(crate) const METRICS: &[Metric] = &[
    Metric { name: "cpu", unit: Unit::Nanoseconds },
    Metric { name: "p99", unit: Unit::Nanoseconds },
    Metric { name: "time", unit: Unit::Nanoseconds },
];

/// The metrics of each contender of a row with idle connections.
pub(crate) const IDLE_METRICS: &[Metric] = &[Metric { name: "memory", unit: Unit::Bytes }];

/// Measures a server that `serve` starts on a listener and that runs until the process ends.
///
/// # Panics
///
/// Panics if the load ends without its two words.
pub(crate) fn measure(
    service: Service,
    connections: usize,
    serve: impl FnOnce(TcpListener) + Send + 'static,
) -> Sample {
    let mut load = Load::start(service, connections, serve);
    if service == Service::Idle {
        load.wait_for("begin");
        // One connection has been served, so everything that is created once exists.
        let before = resident_bytes();
        load.wait_for("end");
        return vec![("memory", (resident_bytes() - before) / (connections - 1) as f64)];
    }
    load.wait_for("begin");
    let before = cpu_seconds();
    let numbers = load.wait_for("end");
    let used = cpu_seconds() - before;
    let numbers: Vec<f64> =
        numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
    let [requests, p99, time] = numbers[..] else { panic!("three numbers: {numbers:?}") };
    vec![("cpu", used * 1e9 / requests), ("p99", p99), ("time", time)]
}

/// The load's process, which is killed when this is dropped.
struct Load {
    process: Child,
    words: Lines<BufReader<ChildStdout>>,
}

impl Load {
    fn start(
        service: Service,
        connections: usize,
        serve: impl FnOnce(TcpListener) + Send + 'static,
    ) -> Load {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        std::thread::spawn(move || serve(listener));
        let this = std::env::current_exe().expect("the running program has a path");
        let mut command = Command::new(this);
        command.args(["--load", service.name()]).arg(address).arg(connections.to_string());
        command.arg(second_core().to_string()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the load starts");
        let words = BufReader::new(process.stdout.take().expect("piped")).lines();
        Load { process, words }
    }

    /// Waits for the load's next word, and returns the text after it.
    fn wait_for(&mut self, word: &str) -> String {
        let line = self.words.next().expect("the load says more").expect("in text");
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("`{line}` for `{word}`"));
        rest.trim().to_owned()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
