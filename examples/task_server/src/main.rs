//! `cargo run --release -p task-server -- <port> [seed] [clients] [messages]`: the server and its
//! load in one process.
//!
//! There are two runs, each on a thread of its own: one serves, and the other runs the clients. A
//! third, plain thread writes the status line with the same waiting calls, because in the stage
//! `client` sleeping requests block all workers.

mod arguments;

use arguments::{Arguments, Role};
use ecru::channel;
use ecru::net::TcpListener;
use ecru::{CancelHandle, Runtime, Scope};
use ecru_fleet::Fleet;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use task_server::counts::Counts;
use task_server::load;
use task_server::server::{CPU_TASKS, Server};
use task_server::work;

/// The time that the clients wait for the server to start.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same if it joins a fleet first.
const PATIENCE_IN_FLEET: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n\n{}", arguments::HELP);
            return ExitCode::from(2);
        }
    };
    raise_limit();
    let done = match arguments.role {
        Role::Both => both(&arguments),
        Role::Serve => {
            let counts = Arc::default();
            let served = serve(&arguments, &counts, |_, _| {});
            if arguments.fleet.is_some() && served.is_ok() {
                summarise(&arguments, &counts);
            }
            served
        }
        Role::Load(ref servers) => {
            ecru::run(|| apply_load(&arguments, servers)).map(|(sum, took)| say(sum, took))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("task-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn both(arguments: &Arguments) -> io::Result<()> {
    let counts = Arc::<Counts>::default();
    let patience = if arguments.fleet.is_some() { PATIENCE_IN_FLEET } else { PATIENCE };
    thread::scope(|threads| {
        let (started, starting) = channel::bounded(1);
        let serving = threads.spawn(|| {
            let tell = move |address, stop| _ = started.send((address, stop));
            serve(arguments, &counts, tell)
        });
        let (address, stop) = match starting.recv_timeout(patience) {
            Ok(started) => started,
            Err(channel::RecvTimeoutError::Timeout) => {
                // A thread that may never answer cannot be joined.
                eprintln!("task-server: the server is not there after {patience:?}");
                std::process::exit(1);
            }
            // The server has failed, and its result says why.
            Err(_) => return serving.join().expect("the server does not panic"),
        };
        let (stop_status, stopped) = channel::bounded::<()>(0);
        let status = threads.spawn(|| show_status(&counts, stopped));
        let loaded = ecru::run(|| apply_load(arguments, &[address]));
        drop(stop_status);
        stop.cancel();
        serving.join().expect("the server does not panic")?;
        status.join().expect("the status line does not panic");

        let (sum, took) = loaded?;
        summarise(arguments, &counts);
        say(sum, took);
        if counts.cpu.peak() > CPU_TASKS && arguments.bounds_cpu_tasks() {
            return Err(io::Error::other("more CPU tasks ran at once than may"));
        }
        Ok(())
    })
}

/// Serves until it is cancelled, alone or in a fleet. `tell` receives the address and the handle
/// that cancels the server.
fn serve(
    arguments: &Arguments,
    counts: &Arc<Counts>,
    tell: impl FnOnce(SocketAddr, CancelHandle),
) -> io::Result<()> {
    let mut builder = Runtime::builder().name("server").cancel_on_ctrl_c(true);
    if arguments.fleet.is_some() {
        builder = builder.cancel_on_terminate(true);
    }
    if let Some(workers) = arguments.stage.workers() {
        builder = builder.workers(workers);
    }
    let server = Server::new(arguments.stage, arguments.pace).with_counts(counts);
    builder.build()?.run(|| match &arguments.fleet {
        None => listen(arguments, &server, tell),
        Some(url) => ecru::scope(|s| {
            let server = join(s, url, arguments, counts)?;
            listen(arguments, &server, tell)
        }),
    })
}

/// Creates a server that shares its CPU tasks.
fn join<'s>(
    s: &'s Scope<'s, '_>,
    url: &str,
    arguments: &Arguments,
    counts: &Arc<Counts>,
) -> io::Result<Server<'s>> {
    let fleet = Fleet::connect(s, url).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => io::Error::other(format!(
            "--fleet: {error}; start `nats-server -js` there, or correct the address"
        )),
        kind => io::Error::new(kind, format!("--fleet: {error}")),
    })?;
    let server = Server::new(arguments.stage, arguments.pace).with_counts(counts);
    server.in_fleet(&fleet, work::compute)
}

fn listen(
    arguments: &Arguments,
    server: &Server<'_>,
    tell: impl FnOnce(SocketAddr, CancelHandle),
) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", arguments.port))?;
    let address = listener.local_addr()?;
    println!("{address}, stage {}", arguments.stage.name());
    ecru::cancel_scope(|stop| {
        tell(address, stop);
        server.serve(&listener)
    })
}

fn apply_load(arguments: &Arguments, servers: &[SocketAddr]) -> io::Result<(u64, Duration)> {
    let started = Instant::now();
    let sum = load::run_on(servers, arguments.seed, arguments.clients, arguments.messages)?;
    Ok((sum, started.elapsed()))
}

/// Rewrites one line ten times a second, if standard error is a terminal.
fn show_status(counts: &Counts, stopped: channel::Receiver<()>) {
    if !io::stderr().is_terminal() {
        return;
    }
    let started = Instant::now();
    while let Err(channel::RecvTimeoutError::Timeout) =
        stopped.recv_timeout(Duration::from_millis(100))
    {
        eprint!("\r\x1b[K{:6.1} s | {counts}", started.elapsed().as_secs_f64());
        let _ = io::stderr().flush();
    }
    eprint!("\r\x1b[K");
}

fn summarise(arguments: &Arguments, counts: &Counts) {
    let peaks = [(&counts.connections, "clients"), (&counts.io, "sleep"), (&counts.cpu, "compute")]
        .map(|(gauge, name)| format!("{} {name}", gauge.peak()))
        .join(", ");
    println!("{counts}");
    println!("at most at once: {peaks}");
    if arguments.fleet.is_some() {
        println!("computed {} CPU tasks of the fleet", counts.computed.load(Relaxed));
    }
    println!("slept {:.3} s in all, at pace {}", counts.slept().as_secs_f64(), arguments.pace);
}

fn say(sum: u64, took: Duration) {
    println!("sum {sum}, elapsed {:.6} s", took.as_secs_f64());
}

/// Raises the limit on open files to the system's maximum. A client takes two descriptors in this
/// process.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
