//! The order in which jobs start when each host has a limit on its connections.
//!
//! [`Turns`] is the iterator from which the window takes its jobs. It yields the first job of the
//! list whose host has room, and waits if there is none. A long queue for one host therefore does
//! not delay the other hosts, and takes no place in the window. Dropping a [`Turn`] makes room for
//! the next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;

use crate::runtime::Notify;

/// The jobs that have not started, and the room that each host has.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    hosts: Vec<Host>,
    /// The hosts that have room and a job: the first job's position in the list, and the host.
    ready: BinaryHeap<Reverse<(usize, usize)>>,
    waiting: usize,
}

#[derive(Debug)]
struct Host {
    jobs: VecDeque<usize>,
    room: usize,
}

impl Turns {
    /// Creates the turns. `hosts` names the host of each job. At most `limit(host)` jobs of one
    /// host run at a time.
    pub(crate) fn new<'a>(
        hosts: impl IntoIterator<Item = &'a str>,
        limit: impl Fn(&str) -> usize,
    ) -> Self {
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut state = State { hosts: Vec::new(), ready: BinaryHeap::new(), waiting: 0 };
        for (job, name) in hosts.into_iter().enumerate() {
            let host = *known.entry(name).or_insert_with(|| {
                state.hosts.push(Host { jobs: VecDeque::new(), room: limit(name).max(1) });
                state.hosts.len() - 1
            });
            state.hosts[host].jobs.push_back(job);
            state.waiting += 1;
        }
        for (index, host) in state.hosts.iter().enumerate() {
            state.ready.extend(host.jobs.front().map(|job| Reverse((*job, index))));
        }
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Yields the jobs one by one, each when its host has room.
    ///
    /// After a cancellation it yields the remaining jobs without waiting, because they only have to
    /// be reported.
    pub(crate) fn each(&self) -> impl Iterator<Item = Turn<'_>> {
        let mut cancelled = false;
        std::iter::from_fn(move || {
            loop {
                {
                    let mut state = self.state.lock().expect("no panic under this lock");
                    if state.waiting == 0 {
                        return None;
                    }
                    if let Some((job, host)) = state.start(cancelled) {
                        return Some(Turn { job, host, turns: self });
                    }
                }
                cancelled |= self.changed.wait().is_err();
            }
        })
    }
}

impl State {
    fn start(&mut self, cancelled: bool) -> Option<(usize, usize)> {
        let host = match self.ready.pop() {
            Some(Reverse((_, host))) => host,
            None if cancelled => self.hosts.iter().position(|host| !host.jobs.is_empty())?,
            None => return None,
        };
        self.waiting -= 1;
        let entry = &mut self.hosts[host];
        let job = entry.jobs.pop_front().expect("a host without jobs is not ready");
        entry.room = entry.room.saturating_sub(1);
        self.make_ready(host);
        Some((job, host))
    }

    fn make_ready(&mut self, host: usize) {
        let entry = &self.hosts[host];
        if let Some(next) = entry.jobs.front().filter(|_| entry.room > 0) {
            self.ready.push(Reverse((*next, host)));
        }
    }
}

/// Permission to run one job.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// The job's position in the list.
    pub(crate) job: usize,
    host: usize,
    turns: &'a Turns,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock().expect("no panic under this lock");
        let entry = &mut state.hosts[self.host];
        entry.room += 1;
        // If the host had more room than that, it is already in the heap.
        if entry.room == 1 {
            state.make_ready(self.host);
        }
        drop(state);
        self.turns.changed.notify_one();
    }
}

/// Returns whether this host is this machine, which needs no limit.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full host is skipped. Its next job starts when one of its jobs has ended.
    #[test]
    fn hosts_with_room_come_first() {
        let hosts = ["a", "a", "a", "b", "a", "b", "c"];
        let turns = Turns::new(hosts, |host| if host == "c" { usize::MAX } else { 2 });
        let mut each = turns.each();
        let mut running: Vec<_> = each.by_ref().take(5).collect();
        let order = |turns: &[Turn<'_>]| turns.iter().map(|turn| turn.job).collect::<Vec<_>>();
        assert_eq!(order(&running), [0, 1, 3, 5, 6]);
        running.remove(2);
        running.remove(0);
        assert_eq!(each.next().map(|turn| turn.job), Some(2));
        assert_eq!(each.next().map(|turn| turn.job), Some(4));
        assert!(each.next().is_none());
    }

    /// Addresses of this machine, in every spelling.
    #[test]
    fn loopback() {
        for host in
            ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.org", "10.0.0.1", "[fe80::1]", "localhost.example.org"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
