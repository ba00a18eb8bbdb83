//! A client that finds the leader.

use crate::message::{Answer, Connection, Entry, Request};
use std::io;
use std::time::Duration;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(1);

/// A client of all nodes.
#[derive(Debug)]
pub struct Client {
    nodes: Vec<Connection>,
    /// The node that is asked next.
    leader: usize,
}

impl Client {
    /// Creates a client of the nodes at these addresses.
    pub fn new(addresses: &[String]) -> Client {
        Client {
            nodes: addresses.iter().map(|address| Connection::new(address)).collect(),
            leader: 0,
        }
    }

    /// Returns the number of the node that is thought to be the leader.
    pub fn leader(&self) -> usize {
        self.leader
    }

    /// Adds an entry, at the node that is thought to be the leader. Returns the entry's number.
    ///
    /// # Errors
    /// Returns an error if there was no answer, or if another node is the leader. The entry may
    /// have been added. To try again, use the same `id`: the entry is added once.
    pub fn add(&mut self, id: u64, text: &str) -> io::Result<usize> {
        let request = Request::Add { id, text: text.to_owned() };
        let answer = self.nodes[self.leader].call(&request, LIMIT);
        if let Ok(Answer::Added(number)) = answer {
            return Ok(number);
        }
        self.leader = match answer {
            Ok(Answer::NotLeader(Some(leader))) => leader,
            _ => (self.leader + 1) % self.nodes.len(),
        };
        answer.and(Err(io::Error::other("the node is not the leader")))
    }

    /// Returns the committed entries that a node knows.
    ///
    /// # Errors
    /// Returns an error if there was no answer.
    pub fn read(&mut self, node: usize) -> io::Result<Vec<Entry>> {
        match self.nodes[node].call(&Request::Read, LIMIT)? {
            Answer::Entries(entries) => Ok(entries),
            answer => Err(io::Error::other(format!("unexpected answer {answer:?}"))),
        }
    }
}
