//! An acknowledgement before fsync: a server answers that a record is stored while the record is in
//! memory only. If the power fails then, the record is lost.

use super::{Form, is_found, passes};
use ecru::fs::{File, OpenOptions};
use ecru::net::{TcpListener, TcpStream};
use ecru::schedule::Delay;
use ecru::{Retry, sim, sleep};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 7000;

const JOURNAL: &str = "/journal";

/// Asks for all records. Each other byte is a record to be stored.
const LIST: u8 = 0;

fn serve(form: Form) -> io::Result<()> {
    // The name of a new file has to be stored, too.
    let journal = OpenOptions::new().create(true).append(true).open(JOURNAL)?;
    journal.sync_all()?;
    File::open("/")?.sync_all()?;
    TcpListener::bind(("0.0.0.0", PORT))?.serve(16, |stream, _| converse(form, &journal, &stream))
}

fn converse(form: Form, mut journal: &File, mut stream: &TcpStream) -> io::Result<()> {
    let mut request = [0];
    while stream.read(&mut request)? > 0 {
        if request[0] == LIST {
            let records = ecru::fs::read(JOURNAL)?;
            return stream.write_all(&records);
        }
        journal.write_all(&request)?;
        match form {
            Form::Buggy => {
                stream.write_all(&request)?;
                // Syncing is slow, so several records share one sync.
                if request[0] % 8 == 0 {
                    journal.sync_data()?;
                }
            }
            Form::Repaired => {
                journal.sync_data()?;
                stream.write_all(&request)?;
            }
        }
    }
    Ok(())
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(stream)
}

/// Stores records until the connection fails. Returns those that were acknowledged.
fn store(server: SocketAddr) -> Vec<u8> {
    let mut acknowledged = Vec::new();
    let Ok(mut stream) = connect(server) else { return acknowledged };
    for record in 1..=20 {
        let mut answer = [0];
        if stream.write_all(&[record]).and_then(|()| stream.read_exact(&mut answer)).is_err() {
            break;
        }
        acknowledged.push(answer[0]);
    }
    acknowledged
}

fn list(server: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = connect(server)?;
    stream.write_all(&[LIST])?;
    let mut records = Vec::new();
    stream.read_to_end(&mut records)?;
    Ok(records)
}

fn program(form: Form) {
    let server = sim::host("journal", move || serve(form));
    let address = SocketAddr::new(server.addr(), PORT);
    let again = Retry::new().delay(Delay::Constant(Duration::from_millis(10)));
    let acknowledged = ecru::scope(|s| {
        let writer = s.builder().name("writer").spawn(|| store(address));
        let _ = sleep(Duration::from_millis(sim::random_u64() % 50));
        server.power_fail();
        server.restart();
        writer.join().expect("the writer ends")
    });
    let records = again.until_ok(|| list(address)).expect("the server is there again");
    for record in acknowledged {
        assert!(records.contains(&record), "record {record} was acknowledged and is lost");
    }
}

#[test]
fn ack_before_fsync_is_found() {
    is_found(program, &["was acknowledged and is lost", "(not synced)", "restarts (life 2)"]);
}

#[test]
fn ack_before_fsync_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("acknowledgement before fsync", program);
