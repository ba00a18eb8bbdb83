//! The measurement: one file's time is the unit, and each way of fetching many is compared with it.

use crate::{fetch, nginx, own};
use ecru::net::TcpListener;
use ecru::par;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The size of the measurement. One file takes `size / rate` seconds.
pub(crate) struct Scale {
    size: u64,
    rate: u64,
    few: usize,
    many: usize,
    /// The number of files fetched one by one. The time for all files is extrapolated from them.
    one_by_one: usize,
}

impl Scale {
    /// Three seconds for each file (two from nginx, which sends the first second's bytes at once),
    /// and five files one by one.
    pub(crate) const QUICK: Scale =
        Scale { size: 300_000, rate: 100_000, few: 100, many: 2000, one_by_one: 5 };
    /// The scale of Virtuoso's page.
    pub(crate) const FULL: Scale =
        Scale { size: 6_000_000, rate: 500_000, few: 100, many: 2000, one_by_one: 100 };
}

/// Measures against nginx, or against this program's own server if there is no nginx.
pub(crate) fn all(scale: &Scale) -> io::Result<()> {
    raise_limit();
    let Some(program) = nginx::find() else {
        println!("there is no nginx here: a server in this process instead");
        return ecru::run(|| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            ecru::scope(|s| {
                s.spawn_daemon(|| own::serve(&listener, scale.size, scale.rate));
                table(scale, address)
            })
        });
    };
    let server = nginx::Nginx::start(&program, scale.size, scale.rate)?;
    println!("against nginx with limit_rate {}", scale.rate);
    ecru::run(|| table(scale, server.address))
}

fn table(scale: &Scale, address: SocketAddr) -> io::Result<()> {
    let Scale { few, many, one_by_one, .. } = *scale;
    let download = |_| fetch::download(address);
    let unit = timed(1, || vec![download(0)])?;
    println!("files of {} bytes; one alone takes {:.2} s\n", scale.size, unit.as_secs_f64());
    println!("| | files | seconds | in units of one file |\n|---|---:|---:|---:|");
    let row = |name: &str, files: usize, took: Duration| {
        let (seconds, units) = (took.as_secs_f64(), took.as_secs_f64() / unit.as_secs_f64());
        println!("| {name} | {files} | {seconds:.2} | {units:.2} |");
        took
    };
    let took = timed(one_by_one, || (0..one_by_one).map(download).collect())?;
    let name = format!("one by one ({one_by_one} measured)");
    row(&name, few, took * u32::try_from(few / one_by_one).unwrap_or(1));
    let took = timed(few, || par::map_buffered(32, 0..few, download))?;
    row("32 at a time, as core pmap turns out to be", few, took);
    let at_once = row("all at once: par::map", few, timed(few, || par::map(0..few, download))?);
    row("a window of 512", few, timed(few, || par::map_buffered(512, 0..few, download))?);
    let took = timed(many, || par::map_buffered(512, 0..many, download))?;
    let windowed = row("a window of 512", many, took);
    row("all at once: par::map", many, timed(many, || par::map(0..many, download))?);

    // The page's claim, with a margin for a machine that does other work too: the time of one file,
    // and that of four rounds.
    let nominal = Duration::from_secs(scale.size / scale.rate);
    if at_once > 2 * nominal || windowed > 8 * nominal {
        return Err(io::Error::other("these took longer than they should"));
    }
    Ok(())
}

fn timed(files: usize, fetch_all: impl FnOnce() -> Vec<io::Result<u64>>) -> io::Result<Duration> {
    let began = Instant::now();
    let lengths = fetch_all().into_iter().collect::<io::Result<Vec<u64>>>()?;
    assert_eq!(lengths.len(), files, "every file is fetched once");
    Ok(began.elapsed())
}

/// Raises the limit on open files to the system's maximum. Child processes inherit it.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
