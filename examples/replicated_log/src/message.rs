//! Requests and answers: one line of JSON each, over TCP.

use ecru::net::TcpStream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

/// The time limit of a call from one node to another.
pub(crate) const CALL: Duration = Duration::from_millis(100);

/// An entry of the log.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The term in which a leader appended the entry.
    pub term: u64,
    /// The client's number for the entry. If the client adds it again, it is still one entry.
    pub id: u64,
    /// What the client added. Empty if a leader appended the entry to begin its term.
    pub text: String,
}

/// A request to a node.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Request {
    /// A candidate asks for the node's vote. `last_term` is the term of the candidate's last entry.
    Vote { term: u64, candidate: usize, length: usize, last_term: u64 },
    /// A leader sends the entries from `length` on. The entry before them has `last_term`.
    Append {
        term: u64,
        leader: usize,
        length: usize,
        last_term: u64,
        entries: Vec<Entry>,
        committed: usize,
    },
    /// A client adds an entry.
    Add { id: u64, text: String },
    /// A client asks for the committed entries that the node knows.
    Read,
}

/// An answer of a node. `term` is the newest term that the node knows.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Answer {
    /// Whether the candidate has the node's vote.
    Vote { term: u64, granted: bool },
    /// `Ok`: the length up to which the node has the leader's log on disk. `Err`: the logs differ,
    /// and the leader has to try again from this length.
    Append { term: u64, stored: Result<usize, usize> },
    /// The entry is committed, with this number.
    Added(usize),
    /// Another node is the leader, if any is.
    NotLeader(Option<usize>),
    /// The committed entries.
    Entries(Vec<Entry>),
}

/// Writes one line.
///
/// # Errors
/// Returns the errors of the stream.
pub(crate) fn send(mut stream: &TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads one line. Returns `None` at the end of the stream.
///
/// # Errors
/// Returns the errors of the stream, and an error if the line is no message.
pub(crate) fn receive<M: DeserializeOwned>(lines: &mut impl BufRead) -> io::Result<Option<M>> {
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// A connection to a node, made anew after each failure.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    lines: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// Creates a connection that is not open yet. `address` is `host:port`.
    pub(crate) fn new(address: &str) -> Connection {
        Connection { address: address.to_owned(), lines: None }
    }

    /// Sends a request and waits for its answer, at most for `limit`.
    ///
    /// # Errors
    /// Returns an error if there is no answer in time. The request may have been carried out.
    pub(crate) fn call(&mut self, request: &Request, limit: Duration) -> io::Result<Answer> {
        // A failed call drops the connection. Otherwise the next call could receive its answer.
        let mut lines = self.lines.take();
        let answer = ecru::try_timeout(limit, || -> io::Result<Answer> {
            let lines = match &mut lines {
                Some(lines) => lines,
                None => lines.insert(BufReader::new(TcpStream::connect(&self.address)?)),
            };
            send(lines.get_ref(), request)?;
            receive(lines)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        })?;
        self.lines = lines;
        Ok(answer)
    }
}
