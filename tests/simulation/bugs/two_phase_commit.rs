//! Two-phase commit whose decision is stored late: the coordinator tells the first participant to
//! commit before it has stored that decision. If it loses its power then, it takes the transaction
//! for undecided after its restart, and tells the second participant to abort.

use super::{Form, is_found, passes};
use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream};
use ecru::schedule::Delay;
use ecru::sync::Mutex;
use ecru::{Retry, sim, sleep};
use std::io::{self, Read, Write};
use std::time::Duration;

const PREPARE: u8 = b'p';
const COMMIT: u8 = b'c';
const ABORT: u8 = b'a';

/// Takes part in one transaction, of which the first outcome counts.
fn participate() -> io::Result<()> {
    let outcome = Mutex::new(None);
    TcpListener::bind("0.0.0.0:7000")?.serve(16, |mut stream, _| {
        let mut request = [0];
        stream.read_exact(&mut request)?;
        let mut outcome = outcome.lock_cancellable()?;
        if request[0] != PREPARE && outcome.is_none() {
            *outcome = Some(request[0]);
            sim::note(if request[0] == COMMIT { "committed" } else { "aborted" });
        }
        stream.write_all(b"y")
    })
}

fn tell(participant: &str, what: u8) -> io::Result<()> {
    let again = Retry::new().delay(Delay::Constant(Duration::from_millis(50)));
    again.until_ok(|| -> io::Result<()> {
        let mut stream = TcpStream::connect(participant)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(&[what])?;
        stream.read_exact(&mut [0])
    })
}

fn store(name: &str) -> io::Result<()> {
    File::create(name)?.sync_all()?;
    File::open("/")?.sync_all()
}

fn coordinate(form: Form) -> io::Result<()> {
    let [one, other] = ["one:7000", "other:7000"];
    if fs::exists("/begun")? {
        let decision = if fs::exists("/commit")? { COMMIT } else { ABORT };
        tell(one, decision)?;
        return tell(other, decision);
    }
    store("/begun")?;
    tell(one, PREPARE)?;
    tell(other, PREPARE)?;
    match form {
        Form::Buggy => {
            tell(one, COMMIT)?;
            store("/commit")?;
        }
        Form::Repaired => {
            store("/commit")?;
            tell(one, COMMIT)?;
        }
    }
    tell(other, COMMIT)
}

fn program(form: Form) {
    sim::host("one", participate);
    sim::host("other", participate);
    sim::settle();
    let coordinator = sim::host("coordinator", move || coordinate(form));
    sleep(Duration::from_micros(sim::random_u64() % 20_000)).unwrap();
    coordinator.power_fail();
    coordinator.restart();
    sleep(Duration::from_secs(10)).unwrap();
    let outcomes: Vec<String> = sim::notes().into_iter().map(|note| note.text).collect();
    assert!(outcomes.is_sorted() && outcomes.first() == outcomes.last(), "the outcomes differ");
}

#[test]
fn two_phase_commit_is_found() {
    is_found(program, &["the outcomes differ", "note: aborted", "coordinator  restarts (life 2)"]);
}

#[test]
fn two_phase_commit_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("two-phase commit decided too late", program);
