//! A log that is replicated on several hosts.
//!
//! A *node* is one of the hosts. Time is divided into *terms*, and a term has at most one *leader*.
//! A node becomes leader if a majority votes for it, and each node has one vote in a term. The
//! leader appends entries to its own log and copies them to the other nodes. An entry that a
//! majority has on disk is *committed*: every later leader has it, because a node votes only for
//! candidates whose log is at least as new as its own. A committed entry is acknowledged to the
//! client.
//!
//! The entries of a log are numbered from 0. A `length` is a number of entries, so it is also the
//! number of the next one.

mod client;
mod journal;
mod message;
mod node;

pub use client::Client;
pub use message::Entry;
pub use node::run;
