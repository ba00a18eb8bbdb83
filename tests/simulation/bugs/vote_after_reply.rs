//! Raft's vote that is saved after the reply: a voter whose power fails in between has forgotten its
//! vote, and votes for another candidate in the same term. Then there are two leaders.

use super::{Form, is_found, passes};
use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream};
use ecru::sync::Mutex;
use ecru::{sim, sleep};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 7000;

fn save(vote: u8) -> io::Result<()> {
    // The disk is slow.
    sleep(Duration::from_millis(2))?;
    let mut file = File::create("/vote.new")?;
    file.write_all(&[vote])?;
    file.sync_all()?;
    fs::rename("/vote.new", "/vote")?;
    File::open("/")?.sync_all()
}

fn saved() -> io::Result<Option<u8>> {
    match fs::read("/vote") {
        Ok(bytes) => Ok(bytes.first().copied()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn vote(form: Form, turn: &Mutex<()>, mut stream: &TcpStream) -> io::Result<()> {
    let mut candidate = [0];
    stream.read_exact(&mut candidate)?;
    let _turn = turn.lock_cancellable()?;
    let grants = saved()?.is_none_or(|vote| vote == candidate[0]);
    if grants && form == Form::Repaired {
        save(candidate[0])?;
    }
    stream.write_all(&[u8::from(grants)])?;
    if grants && form == Form::Buggy {
        save(candidate[0])?;
    }
    Ok(())
}

/// Returns whether the voter has granted its vote.
fn ask(voter: SocketAddr, candidate: u8) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&voter, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(&[candidate])?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0] == 1)
}

fn program(form: Form) {
    let voter = sim::host("voter", move || {
        let turn = Mutex::new(());
        TcpListener::bind(("0.0.0.0", PORT))?.serve(16, |stream, _| vote(form, &turn, &stream))
    });
    let address = SocketAddr::new(voter.addr(), PORT);
    sim::settle();
    let granted = ecru::scope(|s| {
        let first = s.builder().name("first candidate").spawn(|| ask(address, 1));
        let _ = sleep(Duration::from_micros(sim::random_u64() % 6_000));
        voter.power_fail();
        let first = first.join().is_ok_and(|granted| granted.unwrap_or(false));
        voter.restart();
        let _ = sleep(Duration::from_millis(100));
        [first, ask(address, 2).unwrap_or(false)]
    });
    assert_ne!(granted, [true, true], "the voter has voted twice in one term");
}

#[test]
fn vote_after_reply_is_found() {
    is_found(program, &["voted twice", "'voter'", "loses its power", "the run fails"]);
}

#[test]
fn vote_after_reply_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("Raft's vote saved after the reply", program);
