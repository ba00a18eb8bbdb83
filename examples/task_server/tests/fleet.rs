//! Several servers that share their CPU tasks.

#[allow(dead_code, reason = "these tests need a part of it")]
#[path = "../../../crates/nats/tests/behaviour/server.rs"]
mod nats;

use ecru::channel;
use ecru::net::TcpListener;
use ecru_fleet::Fleet;
use nats::Server as Nats;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use task_server::counts::Counts;
use task_server::load::{self, stream_of};
use task_server::server::{CPU_TASKS, Server};
use task_server::stage::Stage;
use task_server::work;

/// No test takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The requests of the known run, and its sum.
const KNOWN: (u64, u64, u64) = (1, 40, 20);
const SUM: u64 = 3802;

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "still not: {what}");
        ecru::sleep(Duration::from_millis(1)).unwrap();
    }
}

/// Returns how many different CPU tasks the known run has.
fn cpu_tasks() -> usize {
    let (seed, clients, messages) = KNOWN;
    let mut known = HashMap::new();
    let mut tasks = HashSet::new();
    for number in 0..clients {
        let (mut current, kinds) = stream_of(seed + number);
        for kind in kinds.take(messages as usize) {
            let request = (kind, u64::from(current));
            if kind == 0 {
                tasks.insert(request.1);
            }
            current = *known.entry(request).or_insert_with(|| match request {
                (0, seed) => work::compute(seed),
                (_, seed) => work::sleep_of(seed).1,
            });
        }
    }
    tasks.len()
}

/// Two servers in one process share an engine in memory: the sum is the same, and each answer is
/// computed once.
#[test]
fn two_servers_in_memory_slow() {
    let counts = [(); 2].map(|()| Arc::<Counts>::default());
    let sum = ecru::run(|| {
        ecru::scope(|s| {
            let fleet = Fleet::local(s);
            let fronts = counts.each_ref().map(|counts| {
                let server = Server::new(Stage::Pipelined, 0.001).with_counts(counts);
                server.in_fleet(&fleet, work::compute).unwrap()
            });
            serve_both(&fronts, |addresses| {
                let (seed, clients, messages) = KNOWN;
                load::run_on(addresses, seed, clients, messages).unwrap()
            })
        })
    });
    assert_eq!(sum, SUM);
    let computed = counts.iter().map(|counts| counts.computed.load(SeqCst)).sum::<usize>();
    assert_eq!(computed, cpu_tasks());
}

/// Serves with both servers while `body` runs.
fn serve_both<T>(fronts: &[Server<'_>; 2], body: impl FnOnce(&[SocketAddr]) -> T) -> T {
    ecru::scope(|s| {
        let (started, starting) = channel::bounded(2);
        for front in fronts {
            let started = started.clone();
            s.spawn_daemon(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                started.send(listener.local_addr().unwrap()).unwrap();
                front.serve(&listener).unwrap();
            });
        }
        let addresses = [starting.recv().unwrap(), starting.recv().unwrap()];
        body(&addresses)
    })
}

/// Two servers with connections of their own: of sixty CPU tasks, forty run at a time, and each
/// runs once, though both servers are asked for all of them.
#[test]
fn forty_at_a_time_slow() {
    const TASKS: usize = 60;
    let Some(nats) = Nats::start("") else { return };
    let (open, running, peak) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let runs = Mutex::new(BTreeMap::<u64, u32>::new());
    let compute = |seed: u64| {
        *runs.lock().unwrap().entry(seed).or_default() += 1;
        peak.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
        eventually("the gate is open", || open.load(SeqCst));
        running.fetch_sub(1, SeqCst);
        u8::try_from(seed).unwrap()
    };
    ecru::run(|| {
        ecru::scope(|s| {
            let fronts = [(); 2].map(|()| {
                let fleet = Fleet::connect(s, &nats.url()).unwrap();
                Server::new(Stage::Pipelined, 1.0).in_fleet(&fleet, compute).unwrap()
            });
            serve_both(&fronts, |addresses| {
                let requests: String = (0..TASKS).map(|seed| format!("0:{seed}\n")).collect();
                let clients: Vec<_> = addresses
                    .iter()
                    .map(|address| {
                        let mut client = TcpStream::connect(address).unwrap();
                        client.write_all(requests.as_bytes()).unwrap();
                        client
                    })
                    .collect();
                let queue = Fleet::connect(s, &nats.url()).unwrap();
                let queue = task_server::fleet::Shared::join(&queue, |_| 0).unwrap();
                eventually("forty run and the others wait", || {
                    let counts = queue.waiting_and_running().unwrap();
                    counts == ((TASKS - CPU_TASKS) as u64, CPU_TASKS as u64)
                        && running.load(SeqCst) == CPU_TASKS
                });
                open.store(true, SeqCst);
                for mut client in clients {
                    let mut answers = [0; TASKS];
                    ecru::unblock(|| client.read_exact(&mut answers)).unwrap();
                    answers.sort_unstable();
                    assert!(answers.iter().map(|byte| usize::from(*byte)).eq(0..TASKS));
                }
            });
        });
    });
    assert_eq!(peak.into_inner(), CPU_TASKS);
    let runs = runs.into_inner().unwrap();
    assert_eq!(runs, (0..TASKS as u64).map(|seed| (seed, 1)).collect());
}

/// A process of the program, which does not outlive its test.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_task-server"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        Running(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    fn end(&mut self) -> (Option<i32>, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code(), out + &err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two servers as processes, and the clients as a third one: the sum is the known one, each answer
/// is computed once, and SIGTERM ends the servers in order.
#[test]
fn two_processes_slow() {
    let Some(nats) = Nats::start("") else { return };
    let url = nats.url();
    let mut fronts = [(); 2].map(|()| {
        let mut front =
            Running::start(&["0", "--serve", "--pace", "0.001", "--fleet", url.as_str()]);
        // It is read byte by byte, so that the rest of the output stays in the pipe.
        let mut line = vec![];
        let mut output = BufReader::with_capacity(1, front.0.stdout.take().unwrap());
        output.read_until(b'\n', &mut line).unwrap();
        front.0.stdout = Some(output.into_inner());
        let line = String::from_utf8(line).unwrap();
        let address = line.split(',').next().unwrap().to_owned();
        (front, address)
    });
    let addresses = fronts.each_ref().map(|(_, address)| address.clone());
    let mut clients =
        Running::start(&["0", "1", "40", "20", "--load", &addresses[0], "--load", &addresses[1]]);
    let (status, said) = clients.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(&format!("sum {SUM}, ")), "{said}");
    let mut computed = 0;
    for (front, _) in &mut fronts {
        kill_process(Pid::from_child(&front.0), Signal::TERM).unwrap();
        let (status, said) = front.end();
        assert_eq!(status, Some(0), "{said}");
        let number = said.lines().find_map(|line| line.strip_prefix("computed ")).unwrap();
        computed += number.split(' ').next().unwrap().parse::<usize>().unwrap();
    }
    assert_eq!(computed, cpu_tasks());
}

/// Each error says what was wrong, and what to do.
#[test]
fn errors() {
    // Nothing listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("nats://{free}");
    for (arguments, status, words) in [
        (&["0", "--serve", "--fleet", &gone][..], 1, "start `nats-server -js` there"),
        (&["0", "--fleet", &gone], 1, "start `nats-server -js` there"),
        (&["0", "--fleet", &gone, "--stage", "task"], 2, "the stage is cache or pipelined"),
        (&["0", "--fleet", &gone, "--load", "127.0.0.1:1"], 2, "leave it out with --load"),
    ] {
        let (ended, said) = Running::start(arguments).end();
        assert_eq!(ended, Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
