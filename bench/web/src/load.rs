//! The load of one round, and what the server needed for it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use ecru_ecosystem::servers;

use crate::{Kind, Result, Side, pages};

/// Metrics and values.
pub(crate) type Sample = Vec<(&'static str, f64)>;

const CONNECTIONS: &str = "64";
const IDLE_CONNECTIONS: usize = 10_000;

/// A server's process, which is killed when this is dropped.
struct Server {
    process: Child,
    address: String,
    _database: Option<servers::Server>,
}

impl Server {
    fn start(side: Side, kind: Kind, workers: usize) -> Result<Server> {
        let database = (kind == Kind::Postgres).then(database).transpose()?;
        let mut command = pinned(Command::new(std::env::current_exe()?), 0..workers);
        if let Some((_, url)) = &database {
            command.env(pages::DATABASE, url);
        }
        command.args(["serve", side.name(), kind.name(), &workers.to_string()]);
        command.stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut address = String::new();
        let said = process.stdout.take().ok_or("it was piped")?;
        BufReader::new(said).read_line(&mut address)?;
        let database = database.map(|(database, _)| database);
        Ok(Server { process, address: address.trim().to_owned(), _database: database })
    }

    /// Returns the CPU time of its threads so far, in nanoseconds.
    fn cpu(&self) -> Result<f64> {
        let mut sum = 0.0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let told = fs::read_to_string(thread?.path().join("schedstat"))?;
            sum += told.split(' ').next().ok_or("schedstat is empty")?.parse::<f64>()?;
        }
        Ok(sum)
    }

    /// Returns its resident bytes.
    fn memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kibibytes.ok_or("the kernel reports no resident size")?.parse::<f64>()? * 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a PostgreSQL with the table that is read, on the core of the load, and returns its URL.
fn database() -> Result<(servers::Server, String)> {
    // What this thread starts inherits its cores, and ends with it.
    let all = sched_getaffinity(None)?;
    let mut cores = CpuSet::new();
    cores.set(1);
    sched_setaffinity(None, &cores)?;
    let server = servers::postgres().ok_or("PostgreSQL is not installed");
    sched_setaffinity(None, &all)?;
    let server = server?;
    let password = servers::PASSWORD.replace(' ', "%20");
    let url = format!("postgres://{}:{password}@{}/postgres", servers::USER, server.address());
    ecru::run(|| {
        let mut client = ecru_postgres::connect(&url)?;
        client.batch_execute(&format!(
            "CREATE TABLE goods (id int PRIMARY KEY, name text NOT NULL, price int8 NOT NULL);
             INSERT INTO goods SELECT n, 'good ' || n, n * 7 FROM generate_series(0, {} - 1) AS n;
             ANALYZE goods",
            pages::GOODS
        ))
    })?;
    Ok((server, url))
}

/// Makes the command run on these cores.
fn pinned(mut command: Command, cores: Range<usize>) -> Command {
    let mut set = CpuSet::new();
    cores.for_each(|core| set.set(core));
    let set = move || Ok(sched_setaffinity(None, &set)?);
    // SAFETY: the closure makes one system call, and allocates nothing.
    #[expect(unsafe_code, reason = "the child is pinned before it begins")]
    unsafe {
        command.pre_exec(set);
    }
    command
}

/// Runs one side for one round.
pub(crate) fn measure(side: Side, kind: Kind, workers: usize) -> Result<Sample> {
    let server = Server::start(side, kind, workers)?;
    if kind == Kind::Idle {
        return idle(&server);
    }
    let seconds = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    run(&server, kind, workers, &seconds("WARM_UP", "1"))?;
    let before = server.cpu()?;
    let said = run(&server, kind, workers, &seconds("SECONDS", "2"))?;
    let used = server.cpu()? - before;
    let requests = requests(&said).ok_or_else(|| format!("no requests: {said}"))?;
    let mut sample = vec![("cpu", used / requests)];
    sample.extend(p99(&said).map(|p99| ("p99", p99)));
    Ok(sample)
}

fn run(server: &Server, kind: Kind, workers: usize, seconds: &str) -> Result<String> {
    let address = &server.address;
    let cores = if workers == 1 { 1..2 } else { 0..workers };
    let mut command = if kind == Kind::Http2 {
        let mut command = pinned(Command::new("h2load"), cores);
        command.args(["-c", CONNECTIONS, "-m", "4", "-t", "1", "-D", seconds]);
        command.arg(format!("http://{address}/"));
        command
    } else {
        let mut command = pinned(Command::new("wrk"), cores);
        command.args(["-t1", "-c", CONNECTIONS, "-d", seconds, "--latency"]);
        if matches!(kind, Kind::Json | Kind::Close) {
            command.args(["-s", concat!(env!("CARGO_MANIFEST_DIR"), "/wrk.lua")]);
        }
        let scheme = if kind == Kind::Tls { "https" } else { "http" };
        command.arg(format!("{scheme}://{address}/")).arg("--").arg(kind.name());
        command
    };
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = said.lines().any(|line| {
        line.contains("Non-2xx")
            || line.contains("Socket errors") && kind != Kind::Close
            || line.contains("requests:") && !line.contains(" 0 failed, 0 errored, 0 timeout")
    });
    if failed || !output.status.success() {
        return Err(format!("{command:?}: {said}").into());
    }
    Ok(said)
}

/// Returns the number of requests that wrk or h2load has reported.
fn requests(said: &str) -> Option<f64> {
    let wrk = said.lines().find(|line| line.contains("requests in"));
    let line = wrk.or_else(|| said.lines().find(|line| line.starts_with("requests:")))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = if wrk.is_some() {
        words.first()
    } else {
        let at = words.iter().position(|word| word.starts_with("succeeded"))?;
        words.get(at - 1)
    };
    count?.parse().ok()
}

/// Returns the latency of 99% of the requests, in nanoseconds. h2load reports none.
fn p99(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.trim().starts_with("99%"))?;
    let text = line.split_whitespace().nth(1)?;
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

/// Opens connections, with one request on each, and measures what one of them takes.
fn idle(server: &Server) -> Result<Sample> {
    let limit = rustix::process::Rlimit { current: Some(30_000), maximum: Some(30_000) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    let mut connections = Vec::with_capacity(IDLE_CONNECTIONS);
    let mut before = 0.0;
    for index in 0..=IDLE_CONNECTIONS {
        let mut stream = TcpStream::connect(&server.address)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")?;
        let mut answer = [0; 1024];
        if stream.read(&mut answer)? == 0 {
            return Err("the server has closed a connection".into());
        }
        connections.push(stream);
        if index == 0 {
            // What is created once exists.
            before = server.memory()?;
        }
    }
    Ok(vec![("memory", (server.memory()? - before) / IDLE_CONNECTIONS as f64)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_reports() {
        let said = "  Latency Distribution\n     50%  1.00ms\n     99%    1.25ms\n  \
                    4000 requests in 2.00s, 1.00MB read\n";
        assert_eq!(requests(said), Some(4000.0));
        assert_eq!(p99(said), Some(1.25e6));
    }

    #[test]
    fn what_h2load_reports() {
        let said = "requests: 300 total, 310 started, 300 done, 299 succeeded, 0 failed, \
                    0 errored, 0 timeout\n";
        assert_eq!(requests(said), Some(299.0));
    }
}
