//! A lease without fencing: its holder looks at its lease, stands still for a while, and writes when
//! another one has the lease.

use super::{Form, is_found, passes};
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::Mutex;
use ecru::{sim, sleep, time};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);

/// The storage: the number of the last lease, when it ends, and the last writer.
#[derive(Default)]
struct Store {
    lease: u8,
    ends: Option<Instant>,
    written_by: u8,
}

/// Grants leases, and takes writes with the number of a lease.
fn store(form: Form) -> io::Result<()> {
    let store = Mutex::new(Store::default());
    TcpListener::bind("0.0.0.0:7000")?.serve(16, |mut stream, _| {
        let mut request = [0; 2];
        stream.read_exact(&mut request)?;
        let mut store = store.lock_cancellable()?;
        let answer = match request {
            [b'l', _] if store.ends.is_some_and(|ends| time::now() < ends) => 0,
            [b'l', _] => {
                store.ends = Some(time::now() + LEASE);
                store.lease += 1;
                store.lease
            }
            [_, lease] if form == Form::Repaired && lease < store.lease => 0,
            [_, lease] => {
                assert!(lease >= store.written_by, "lease {lease} has written after its end");
                store.written_by = lease;
                1
            }
        };
        stream.write_all(&[answer])
    })
}

fn call(request: [u8; 2]) -> io::Result<u8> {
    let mut stream = TcpStream::connect("store:7000")?;
    stream.write_all(&request)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

/// Writes for as long as it has a lease.
fn hold() -> io::Result<()> {
    loop {
        let asked = time::now();
        let lease = call([b'l', 0])?;
        while lease > 0 && time::now() < asked + LEASE {
            call([b'w', lease])?;
            sleep(Duration::from_millis(100))?;
        }
        sleep(Duration::from_millis(100))?;
    }
}

fn program(form: Form) {
    sim::host("store", move || store(form));
    sim::settle();
    let holder = sim::host("holder", hold);
    sim::host("other", hold);
    sleep(Duration::from_micros(sim::random_u64() % 3_000_000)).unwrap();
    holder.pause();
    sleep(3 * LEASE).unwrap();
    holder.resume();
    sleep(LEASE).unwrap();
}

#[test]
fn lease_without_fencing_is_found() {
    is_found(program, &["has written after its end", "'store'", "holder  resumes"]);
}

#[test]
fn lease_without_fencing_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("lease without fencing", program);
