//! Three nodes in one process. The leader is stopped, and the others elect another one.

use ecru::schedule::Delay;
use ecru::{JoinHandle, Retry, fs};
use replicated_log::Client;
use std::io;
use std::time::{Duration, Instant};

const ENTRIES: u64 = 100;

fn main() -> io::Result<()> {
    ecru::run(|| {
        let directory = std::env::temp_dir().join(format!("replicated-log-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let addresses = free_addresses()?;
        let outcome = ecru::scope(|s| {
            let (addresses, directory) = (&addresses, &directory);
            let nodes: Vec<_> = (0..addresses.len())
                .map(|me| {
                    let path = directory.join(me.to_string());
                    s.spawn(move || replicated_log::run(me, &addresses[me], addresses, &path))
                })
                .collect();
            let outcome = use_log(&mut Client::new(addresses), &nodes);
            nodes.iter().for_each(JoinHandle::cancel);
            outcome
        });
        fs::remove_dir_all(&directory)?;
        outcome
    })
}

/// Returns three addresses that nothing listens at.
fn free_addresses() -> io::Result<Vec<String>> {
    let listeners: io::Result<Vec<_>> =
        (0..3).map(|_| ecru::net::TcpListener::bind("127.0.0.1:0")).collect();
    listeners?.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}

fn use_log(client: &mut Client, nodes: &[JoinHandle<'_, io::Result<()>>]) -> io::Result<()> {
    add(client, 1..ENTRIES + 1)?;
    let leader = client.leader();
    println!("node {leader} is stopped");
    nodes[leader].cancel();
    add(client, ENTRIES + 1..2 * ENTRIES + 1)?;
    let entries = client.read(client.leader())?;
    let added = entries.iter().filter(|entry| entry.id != 0).count() as u64;
    println!("node {} has {added} entries", client.leader());
    assert_eq!(added, 2 * ENTRIES);
    Ok(())
}

fn add(client: &mut Client, ids: std::ops::Range<u64>) -> io::Result<()> {
    let again = Retry::new().max_failures(100).delay(Delay::Constant(Duration::from_millis(50)));
    let began = Instant::now();
    for id in ids.clone() {
        again.until_ok(|| client.add(id, "something"))?;
    }
    let took = began.elapsed().as_millis();
    println!("entries {} to {} were added in {took} ms", ids.start, ids.end - 1);
    Ok(())
}
