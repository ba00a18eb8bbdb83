//! The server and its clients, unchanged, in a simulation: partitions, resets, and a server that
//! crashes and starts again.

use ecru::channel;
use ecru::net::TcpListener;
use ecru::schedule::Delay;
use ecru::sim::{self, Host, Simulation};
use ecru::{Cancelled, Retry, sleep};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use task_server::load::{self, stream_of};
use task_server::server::Server;
use task_server::stage::Stage;
use task_server::work;

const PORT: u16 = 7000;

/// The number of requests of a client.
const MESSAGES: u64 = 10;

/// Without an answer for this long, a client starts again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    Server::new(Stage::Pipelined, 1.0).serve(&listener)
}

/// Runs a client until it has all its answers, and returns the last one.
fn answers(server: SocketAddr, seed: u64) -> u64 {
    let again = Retry::new().delay(Delay::Constant(Duration::from_millis(100)));
    let run = || ecru::try_timeout(ANSWER_TIMEOUT, || load::run(server, seed, 1, MESSAGES));
    again.until_ok(run).expect("only a success ends the retries")
}

/// Computes what a client with this seed gets, without a server.
fn expected(seed: u64, known: &mut HashMap<(usize, u64), u8>) -> u64 {
    let (mut current, kinds) = stream_of(seed);
    for kind in kinds.take(MESSAGES as usize) {
        let request = (kind, u64::from(current));
        current = *known.entry(request).or_insert_with(|| match request {
            (0, seed) => work::compute(seed),
            (_, seed) => work::sleep_of(seed).1,
        });
    }
    u64::from(current)
}

/// Runs clients on two hosts, half of them on each, and checks their answers. The network and the
/// server fail meanwhile as `trouble` says.
fn check(count: u64, trouble: fn(&Host, &[Host; 2]) -> Result<(), Cancelled>) {
    let server = sim::host("server", serve);
    let address = SocketAddr::new(server.addr(), PORT);
    let (done, results) = channel::unbounded::<(Range<u64>, Vec<u64>)>();
    let clients = [("one", 0..count / 2), ("other", count / 2..count)].map(|(name, seeds)| {
        let done = done.clone();
        sim::host(name, move || {
            let all = ecru::par::map(seeds.clone(), |seed| answers(address, seed));
            done.send((seeds.clone(), all)).expect("the channel outlives the hosts");
            Ok(())
        })
    });
    let mut known = HashMap::new();
    ecru::scope(|s| {
        s.builder().name("trouble").spawn(|| trouble(&server, &clients));
        for _ in &clients {
            let (seeds, all) = results.recv().expect("the hosts end after this");
            let right: Vec<u64> = seeds.map(|seed| expected(seed, &mut known)).collect();
            assert_eq!(all, right);
        }
    });
}

fn no_trouble(_: &Host, _: &[Host; 2]) -> Result<(), Cancelled> {
    Ok(())
}

/// Ends all connections of the server, six times: it crashes, or loses its power.
fn crashes(server: &Host, _: &[Host; 2]) -> Result<(), Cancelled> {
    for fault in 0..6 {
        sleep(Duration::from_millis(500 + sim::random_u64() % 2000))?;
        if fault % 2 == 0 {
            server.crash()
        } else {
            server.power_fail()
        }
        sleep(Duration::from_millis(sim::random_u64() % 500))?;
        server.restart();
    }
    Ok(())
}

/// Crashes, and between them the network fails for some of the clients: it is cut, in one direction
/// or both, for up to three seconds, or all connections are reset.
fn everything(server: &Host, clients: &[Host; 2]) -> Result<(), Cancelled> {
    for fault in 0..12 {
        sleep(Duration::from_millis(200 + sim::random_u64() % 800))?;
        let some = &clients[(sim::random_u64() % 2) as usize];
        match fault % 6 {
            0 => sim::partition(&[server], &[some]),
            1 => sim::partition_one_way(server, some),
            2 => sim::partition_one_way(some, server),
            3 => _ = sim::link(server, some).reset(),
            4 => server.crash(),
            _ => server.power_fail(),
        }
        sleep(Duration::from_millis(sim::random_u64() % 3000))?;
        sim::heal();
        if fault % 6 >= 4 {
            server.restart();
        }
    }
    Ok(())
}

#[test]
fn all_answers_are_right() {
    sim::test(|| check(20, no_trouble));
}

#[test]
fn nothing_is_lost_when_the_server_crashes_slow() {
    sim::test(|| check(100, crashes));
}

#[test]
fn nothing_is_lost_when_everything_fails_slow() {
    sim::test(|| check(40, everything));
}

#[test]
fn ten_thousand_clients_slow() {
    let report = Simulation::new(1).max_steps(u64::MAX).run(|| check(10_000, everything));
    println!("{:?} virtual, {} steps", report.elapsed, report.steps);
    report.unwrap();
}
