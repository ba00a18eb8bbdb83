//! What the servers of a cluster say about themselves.
//!
//! A user of the system account may ask each server how it is configured. Any other user may ask
//! for the connections of the own account, if it is not forbidden. Each server answers, with its
//! name, version and clock.

use std::io;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::asking::{Answer, Asking, Heard};
use crate::utc;

/// The question of a user of the system account.
pub(crate) const STATUS: &str = "$SYS.REQ.SERVER.PING.STATSZ";

/// The question of any other user.
pub(crate) const CONNECTIONS: &str = "$SYS.REQ.ACCOUNT.PING.CONNZ";

/// The most connections in one answer.
const PAGE: usize = 1024;

/// What a server says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) jetstream: bool,
    pub(crate) cluster: String,
    /// How far its clock is ahead of this machine's, in seconds, and how wrong that may be.
    pub(crate) clock: Option<(f64, f64)>,
    /// How it writes to its disk, if it says so.
    pub(crate) sync: Option<Sync>,
    /// The bytes of its files, and the most that it may store, if it says so.
    pub(crate) store: Option<(u64, u64)>,
}

/// When a server writes stored messages to its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Always,
    Each(Duration),
}

#[derive(Deserialize)]
struct Report {
    server: About,
    statsz: Option<Status>,
    data: Option<Connections>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct About {
    name: String,
    ver: String,
    jetstream: bool,
    cluster: String,
    time: String,
}

#[derive(Deserialize)]
struct Status {
    jetstream: Option<JetStream>,
}

#[derive(Deserialize)]
struct JetStream {
    config: Option<Config>,
    stats: Option<Stats>,
}

#[derive(Clone, Copy, Deserialize)]
struct Stats {
    /// Bytes in files.
    #[serde(default)]
    storage: u64,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    sync_interval: u64,
    #[serde(default)]
    sync_always: bool,
    /// What the server may store in files.
    #[serde(default)]
    max_storage: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Connections {
    total: usize,
    connections: Option<Vec<Connection>>,
}

/// A connection of the account, as its server describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only the page shows them"))]
pub(crate) struct Connection {
    /// What the client calls itself.
    pub(crate) name: String,
    /// The client's address.
    pub(crate) ip: String,
    pub(crate) port: u16,
    /// Since when the client is connected.
    pub(crate) start: String,
    #[serde(rename = "subscriptions_list")]
    subjects: Vec<String>,
}

impl Connection {
    /// Returns the subjects to which the client listens, among those that were asked for.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &str> {
        self.subjects.iter().map(String::as_str)
    }

    /// Returns whether the client listens to a subject, among those that were asked for.
    pub(crate) fn listens(&self, subject: &str) -> bool {
        self.subjects.iter().any(|own| own == subject)
    }
}

/// Asks all servers about themselves.
pub(crate) fn ask(asking: &Asking, subject: &str) -> io::Result<Result<Vec<Server>, Answer>> {
    let body = if subject == CONNECTIONS { "{\"limit\":1}" } else { "" };
    let heard = match asking.ask_all(subject, body)? {
        Ok(heard) => heard,
        Err(answer) => return Ok(Err(answer)),
    };
    let mut servers: Vec<Server> = heard.iter().filter_map(server).collect();
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Ok(servers))
}

fn server(heard: &Heard) -> Option<Server> {
    let Report { server, statsz, .. } = serde_json::from_slice(heard.message.payload()).ok()?;
    let jetstream = statsz.and_then(|status| status.jetstream);
    let stats = jetstream.as_ref().and_then(|jetstream| jetstream.stats);
    let config = jetstream.and_then(|jetstream| jetstream.config);
    let most = config.as_ref().map(|config| config.max_storage);
    Some(Server {
        clock: utc::parse(&server.time).map(|time| ahead(time, heard.asked, heard.came)),
        name: shown(server.name),
        version: server.ver,
        jetstream: server.jetstream,
        cluster: server.cluster,
        sync: config.map(|config| match config.sync_always {
            true => Sync::Always,
            false => Sync::Each(Duration::from_nanos(config.sync_interval)),
        }),
        store: stats.map(|stats| stats.storage).zip(most.filter(|most| *most > 0)),
    })
}

/// Returns the name of a server. One that has no name is called by its id, of which the beginning
/// is enough.
pub(crate) fn shown(name: String) -> String {
    if name.len() == 56 && name.starts_with('N') && name.is_ascii() {
        format!("{}..", &name[..8])
    } else {
        name
    }
}

/// Returns how far a clock is ahead that showed `time` at some moment between the two, in seconds,
/// and the error of that: half of the time between.
fn ahead(time: SystemTime, asked: SystemTime, came: SystemTime) -> (f64, f64) {
    let since = |later: SystemTime, earlier: SystemTime| match later.duration_since(earlier) {
        Ok(time) => time.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    };
    let half = since(came, asked).max(0.0) / 2.0;
    (since(time, asked) - half, half)
}

/// Returns the account's connections that listen to subjects matching `filter`, or `None` if they
/// are not known.
pub(crate) fn listeners(asking: &Asking, filter: &str) -> io::Result<Option<Vec<Connection>>> {
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let body = serde_json::json!({
            "filter_subject": filter, "subscriptions": true, "limit": PAGE, "offset": offset,
        });
        let Ok(heard) = asking.ask_all(CONNECTIONS, &body.to_string())? else { return Ok(None) };
        let mut total = 0;
        for answer in heard {
            let report: Result<Report, _> = serde_json::from_slice(answer.message.payload());
            let Some(connections) = report.ok().and_then(|report| report.data) else {
                return Ok(None);
            };
            total = total.max(connections.total);
            found.extend(connections.connections.unwrap_or_default());
        }
        offset += PAGE;
        if offset >= total {
            return Ok(Some(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_with_the_middle_of_a_round_trip() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_millis(seconds);
        assert_eq!(ahead(at(11_500), at(10_000), at(11_000)), (1.0, 0.5));
        assert_eq!(ahead(at(9_500), at(10_000), at(11_000)), (-1.0, 0.5));
        // This machine's clock was set back meanwhile.
        assert_eq!(ahead(at(10_000), at(10_000), at(9_000)), (0.0, 0.0));
    }
}
