//! The protocol.
//!
//! The rules that keep acknowledged entries:
//! - A node stores its term, its vote and its entries before it answers.
//! - It votes once in a term, and only for a candidate whose log is at least as new as its own.
//! - It accepts entries only where its log agrees with the leader's up to there.
//! - An entry is committed when a majority has stored it and the leader's term is that of the
//!   entry. A new leader therefore begins with an entry of its own.

use crate::journal::{Journal, Record};
use crate::message::{self, Answer, CALL, Connection, Entry, Request};
use ecru::net::{TcpListener, TcpStream};
use ecru::sleep;
use ecru::sync::{Condvar, Mutex, MutexGuard};
use ecru::time::now;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

/// A leader sends something to each node at least this often.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// A node that has not heard from a leader for this long, or up to twice as long, is a candidate.
const PATIENCE: Duration = Duration::from_millis(300);

/// A connection that sends no request for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// The entries sent at a time.
const BATCH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follower,
    Candidate,
    Leader,
}

struct State {
    journal: Journal,
    term: u64,
    vote: Option<usize>,
    log: Vec<Entry>,
    /// The number of committed entries. It is not stored: the leader tells it.
    committed: usize,
    role: Role,
    leader: Option<usize>,
    /// When the leader, or a candidate with the node's vote, was last heard.
    heard: Instant,
    /// On a leader: the length of its log that each node has on disk.
    stored: Vec<usize>,
    /// On a leader: the length from which on each node gets the entries.
    next: Vec<usize>,
}

struct Node<'a> {
    me: usize,
    addresses: &'a [String],
    state: Mutex<State>,
    /// Notified when the role, the log or its committed part has changed.
    changed: Condvar,
}

/// Runs the node with number `me`, until it is cancelled. `addresses` are those of all nodes, as
/// `host:port`. The node listens at `listen` and keeps its journal at `path`.
///
/// # Errors
/// Returns the errors of the listener and of the journal. The node can be run again then.
pub fn run(me: usize, listen: &str, addresses: &[String], path: &Path) -> io::Result<()> {
    let (journal, records) = Journal::open(path)?;
    let node = Node {
        me,
        addresses,
        state: Mutex::new(State::new(journal, records)),
        changed: Condvar::new(),
    };
    let listener = TcpListener::bind(listen)?;
    ecru::try_scope(|s| {
        let node = &node;
        s.builder().name(format!("elections of {me}")).spawn(|| node.stand_for_election());
        for peer in node.peers() {
            s.builder().name(format!("{me} to {peer}")).spawn(move || node.replicate_to(peer));
        }
        loop {
            let (stream, _) = listener.accept()?;
            s.spawn(move || node.serve(&stream));
        }
    })
}

impl State {
    fn new(journal: Journal, records: Vec<Record>) -> State {
        let (mut last, mut log) = ((0, None), Vec::new());
        for record in records {
            match record {
                Record::Term { term, vote } => last = (term, vote),
                Record::Entry { number, entry } => {
                    log.truncate(number);
                    log.push(entry);
                }
            }
        }
        State {
            journal,
            term: last.0,
            vote: last.1,
            log,
            committed: 0,
            role: Role::Follower,
            leader: None,
            heard: now(),
            stored: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Returns the term of the last of the first `length` entries, if there are so many.
    fn term_at(&self, length: usize) -> Option<u64> {
        if length == 0 { Some(0) } else { self.log.get(length - 1).map(|entry| entry.term) }
    }

    fn last_term(&self) -> u64 {
        self.log.last().map_or(0, |entry| entry.term)
    }

    fn set_term(&mut self, term: u64, vote: Option<usize>) -> io::Result<()> {
        self.journal.store(&[Record::Term { term, vote }])?;
        (self.term, self.vote) = (term, vote);
        Ok(())
    }

    /// Takes note of a term. If it is a new one, the node is a follower in it.
    fn see(&mut self, term: u64) -> io::Result<()> {
        if term > self.term {
            self.set_term(term, None)?;
            self.role = Role::Follower;
            self.leader = None;
        }
        Ok(())
    }

    /// Replaces what follows the first `length` entries, where it is not the same.
    fn replace(&mut self, length: usize, entries: Vec<Entry>) -> io::Result<()> {
        let mut records = Vec::new();
        for (number, entry) in (length..).zip(entries) {
            if self.log.get(number) != Some(&entry) {
                self.log.truncate(number);
                self.log.push(entry.clone());
                records.push(Record::Entry { number, entry });
            }
        }
        if records.is_empty() { Ok(()) } else { self.journal.store(&records) }
    }

    /// As the leader, appends an entry.
    fn append(&mut self, me: usize, id: u64, text: String) -> io::Result<()> {
        let entry = Entry { term: self.term, id, text };
        self.replace(self.log.len(), vec![entry])?;
        self.stored[me] = self.log.len();
        self.commit();
        Ok(())
    }

    /// As the leader, finds out what a majority has stored.
    fn commit(&mut self) {
        let mut lengths = self.stored.clone();
        lengths.sort_unstable();
        let of_majority = lengths[(lengths.len() - 1) / 2];
        if of_majority > self.committed && self.term_at(of_majority) == Some(self.term) {
            self.committed = of_majority;
        }
    }
}

impl Node<'_> {
    fn peers(&self) -> impl Iterator<Item = usize> + Send + use<> {
        let me = self.me;
        (0..self.addresses.len()).filter(move |peer| *peer != me)
    }

    /// Answers the requests of one connection. A connection that fails ends. An error is one of the
    /// journal, and ends the node.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let _ = stream.set_read_timeout(Some(IDLE));
        let mut lines = BufReader::new(stream);
        while let Ok(Some(request)) = message::receive(&mut lines) {
            let answer = match request {
                Request::Vote { term, candidate, length, last_term } => {
                    self.vote(term, candidate, (last_term, length))?
                }
                Request::Append { term, leader, length, last_term, entries, committed } => {
                    self.accept(term, leader, (last_term, length), entries, committed)?
                }
                Request::Add { id, text } => self.add(id, text)?,
                Request::Read => {
                    let state = self.state.lock();
                    Answer::Entries(state.log[..state.committed].to_vec())
                }
            };
            if message::send(stream, &answer).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn vote(&self, term: u64, candidate: usize, log: (u64, usize)) -> io::Result<Answer> {
        let mut state = self.state.lock();
        state.see(term)?;
        let is_free = state.vote.is_none_or(|vote| vote == candidate);
        let is_new_enough = log >= (state.last_term(), state.log.len());
        let granted = term == state.term && is_free && is_new_enough;
        if granted {
            state.set_term(term, Some(candidate))?;
            state.heard = now();
        }
        Ok(Answer::Vote { term: state.term, granted })
    }

    fn accept(
        &self,
        term: u64,
        leader: usize,
        (last_term, length): (u64, usize),
        entries: Vec<Entry>,
        committed: usize,
    ) -> io::Result<Answer> {
        let mut state = self.state.lock();
        state.see(term)?;
        if term < state.term {
            return Ok(Answer::Append { term: state.term, stored: Err(0) });
        }
        state.role = Role::Follower;
        state.leader = Some(leader);
        state.heard = now();
        if state.term_at(length) != Some(last_term) {
            let from = state.log.len().min(length.saturating_sub(1));
            return Ok(Answer::Append { term, stored: Err(from) });
        }
        let stored = length + entries.len();
        state.replace(length, entries)?;
        state.committed = state.committed.max(committed.min(stored));
        self.changed.notify_all();
        Ok(Answer::Append { term, stored: Ok(stored) })
    }

    /// Adds an entry, and waits until it is committed.
    fn add(&self, id: u64, text: String) -> io::Result<Answer> {
        let mut state = self.state.lock();
        let term = state.term;
        if state.role == Role::Leader && !state.log.iter().any(|entry| entry.id == id) {
            state.append(self.me, id, text)?;
            self.changed.notify_all();
        }
        loop {
            let number = state.log.iter().position(|entry| entry.id == id);
            match number {
                Some(number) if number < state.committed => return Ok(Answer::Added(number)),
                Some(_) if state.role == Role::Leader && state.term == term => {
                    self.changed.wait(&mut state)?;
                }
                _ => return Ok(Answer::NotLeader(state.leader)),
            }
        }
    }

    /// Becomes a candidate whenever no leader has been heard for a while.
    fn stand_for_election(&self) -> io::Result<()> {
        loop {
            let patience = PATIENCE + Duration::from_millis(any_number() % 300);
            sleep(patience)?;
            let mut state = self.state.lock();
            if state.role == Role::Leader || now().duration_since(state.heard) < patience {
                continue;
            }
            let term = state.term + 1;
            state.set_term(term, Some(self.me))?;
            state.role = Role::Candidate;
            state.leader = None;
            let (length, last_term) = (state.log.len(), state.last_term());
            drop(state);

            let answers = ecru::par::map(self.peers(), |peer| {
                let request = Request::Vote { term, candidate: self.me, length, last_term };
                Connection::new(&self.addresses[peer]).call(&request, CALL)
            });
            let mut state = self.state.lock();
            let mut votes = 1;
            for answer in answers {
                if let Ok(Answer::Vote { term, granted }) = answer {
                    state.see(term)?;
                    votes += usize::from(granted);
                }
            }
            let has_won = votes > self.addresses.len() / 2;
            if has_won && state.term == term && state.role == Role::Candidate {
                self.lead(&mut state)?;
            }
        }
    }

    fn lead(&self, state: &mut MutexGuard<'_, State>) -> io::Result<()> {
        state.role = Role::Leader;
        state.leader = Some(self.me);
        state.stored = vec![0; self.addresses.len()];
        state.next = vec![state.log.len(); self.addresses.len()];
        state.append(self.me, 0, String::new())?;
        self.changed.notify_all();
        Ok(())
    }

    /// While this node is the leader, keeps the log of `peer` like its own.
    fn replicate_to(&self, peer: usize) -> io::Result<()> {
        let mut connection = Connection::new(&self.addresses[peer]);
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.role != Role::Leader)?;
            let (term, length) = (state.term, state.next[peer]);
            let last_term = state.term_at(length).expect("a leader's log does not get shorter");
            let entries = state.log[length..].iter().take(BATCH).cloned().collect();
            let committed = state.committed;
            drop(state);

            let leader = self.me;
            let request = Request::Append { term, leader, length, last_term, entries, committed };
            let Ok(Answer::Append { term: newest, stored }) = connection.call(&request, CALL)
            else {
                sleep(HEARTBEAT)?;
                continue;
            };
            let mut state = self.state.lock();
            state.see(newest)?;
            if state.role != Role::Leader || state.term != term {
                continue;
            }
            state.next[peer] = stored.unwrap_or_else(|length| length);
            if let Ok(length) = stored {
                state.stored[peer] = state.stored[peer].max(length);
                state.commit();
                self.changed.notify_all();
            }
            // If the peer has everything, it is time for the next heartbeat, or for new entries.
            let has_all = |state: &mut State| {
                state.role == Role::Leader && state.next[peer] == state.log.len()
            };
            self.changed.wait_timeout_while(&mut state, HEARTBEAT, has_all)?;
        }
    }
}

/// Returns any number. In a simulation its seed decides.
fn any_number() -> u64 {
    #[cfg(feature = "sim")]
    return ecru::sim::random_u64();
    #[cfg(not(feature = "sim"))]
    fastrand::u64(..)
}
