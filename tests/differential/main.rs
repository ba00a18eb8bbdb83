//! Programs of random operations, each run with the kernel and in a simulation.
//!
//! Both must return the same results. A program that differs is made shorter until no operation can
//! be left out. What may differ is what [`Model::excuse`] allows, and `doc/simulation.md` lists it.

mod datagrams;
mod files;
mod known;
mod pipes;
mod program;
mod streams;

use datagrams::{Udp, UnixDatagrams};
use files::Files;
use pipes::Pipes;
use program::{Model, random_programs};
use streams::Streams;

/// The programs that are run for each model, unless the environment says otherwise.
const PROGRAMS: u64 = 250;
const LONGEST: usize = 10;
/// Those of files are longer, because there are many operations.
const LONGEST_OF_FILES: usize = 30;

fn search<M: Model>(model: M, longest: usize) {
    let programs = std::env::var("ECRU_DIFFERENTIAL").ok().and_then(|text| text.parse().ok());
    random_programs(model, programs.unwrap_or(PROGRAMS), longest);
}

#[test]
fn tcp_within_a_host_slow() {
    search(Streams::Tcp, LONGEST);
}

#[test]
fn tcp_between_hosts_slow() {
    search(Streams::TcpBetweenHosts, LONGEST);
}

#[test]
fn unix_streams_slow() {
    search(Streams::Unix, LONGEST);
}

#[test]
fn unix_pairs_slow() {
    search(Streams::UnixPair, LONGEST);
}

#[test]
fn udp_slow() {
    search(Udp, LONGEST);
}

#[test]
fn unix_datagrams_slow() {
    search(UnixDatagrams::Bound, LONGEST);
}

#[test]
fn pairs_of_unix_datagrams_slow() {
    search(UnixDatagrams::Pair, LONGEST);
}

#[test]
fn pipes_slow() {
    search(Pipes, LONGEST);
}

#[test]
fn open_files_slow() {
    search(Files::Open, LONGEST_OF_FILES);
}

#[test]
fn names_of_files_slow() {
    search(Files::Names, LONGEST_OF_FILES);
}
