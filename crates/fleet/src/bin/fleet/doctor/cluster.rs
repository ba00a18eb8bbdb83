//! The servers: versions, their number, their disks and their clocks.

use std::collections::BTreeMap;
use std::io;

use ecru_nats::ServerInfo;

use super::limits;
use super::report::{Report, Verdict};
use crate::asking::{Answer, Asking};
use crate::servers::{self, CONNECTIONS, STATUS, Server, Sync};
use crate::text::time;

/// The first version that a fleet can use.
const OLDEST: (u32, u32) = (2, 12);

/// From how much difference on clocks are worth a warning, and are wrong, in seconds.
const CLOCKS: (f64, f64) = (1.0, 30.0);

/// Checks the servers. Returns how many with JetStream there are in the largest cluster, as far as
/// it is known.
pub(super) fn check(
    asking: &Asking,
    system: Option<&Asking>,
    report: &mut Report,
) -> io::Result<usize> {
    let info = asking.client.server_info();
    // The own user may be one of the system account, or there may be another one.
    let status = servers::ask(system.unwrap_or(asking), STATUS)?;
    let known = match &status {
        Ok(servers) => Ok(servers.clone()),
        Err(_) => servers::ask(asking, CONNECTIONS)?,
    };
    let servers = match known {
        Ok(servers) if !servers.is_empty() => servers,
        answer => {
            let why = match answer {
                Err(Answer::Forbidden(words) | Answer::Silence(words)) => words,
                _ => format!("nothing answers {CONNECTIONS}"),
            };
            vec![itself(&info, &why, report)]
        }
    };
    versions(&servers, report);
    let count = replicas(&servers, &info, report);
    disks(status, system.is_some(), report);
    clocks(&servers, report);
    Ok(count)
}

/// Returns what is known of the server of the connection, when the others cannot be asked.
fn itself(info: &ServerInfo, why: &str, report: &mut Report) -> Server {
    let others = info.connect_urls.len().saturating_sub(1);
    if !info.cluster.is_empty() {
        let found = format!("the other servers ({others} are known) were not asked: {why}");
        let advice = format!("permit the user to publish to {CONNECTIONS}, or pass --system URLS");
        report.warn("cluster", found, &advice);
    }
    Server {
        name: servers::shown(info.server_name.clone()),
        version: info.version.clone(),
        jetstream: info.jetstream,
        cluster: info.cluster.clone(),
        clock: None,
        sync: None,
        store: None,
    }
}

fn versions(servers: &[Server], report: &mut Report) {
    for server in servers {
        let Server { name, version, .. } = server;
        let found = format!("{version} on {name}");
        if numbers(version) < OLDEST {
            let (major, minor) = OLDEST;
            let advice =
                format!("a fleet needs {major}.{minor} or later, so update this nats-server");
            report.fail("version", found, &advice);
        } else {
            report.ok("version", found);
        }
    }
}

fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Checks how many replicas a queue can have.
fn replicas(servers: &[Server], info: &ServerInfo, report: &mut Report) -> usize {
    const CHECK: &str = "replicas";
    const THREE: &str = "run three servers as in the folder deploy of ecru-fleet, to survive the \
                         loss of one";
    let mut clusters: BTreeMap<&str, usize> = BTreeMap::new();
    for server in servers.iter().filter(|server| server.jetstream) {
        *clusters.entry(&server.cluster).or_default() += 1;
    }
    let count = clusters.values().max().copied().unwrap_or(0);
    let missing = info.connect_urls.len().saturating_sub(servers.len());
    if missing > 0 && servers.len() > 1 {
        let found = format!("{missing} servers of the cluster have not answered");
        report.warn("cluster", found, "start them, or pass a longer --timeout");
    }
    match count {
        0 => report.fail(CHECK, "no server has JetStream", "enable it in nats.conf"),
        1 => report.warn(CHECK, "1 server with JetStream, so queues have one replica", THREE),
        2 => {
            let found = "2 servers with JetStream: when one stops, the other one stores nothing";
            report.warn(CHECK, found, THREE);
        }
        _ => report.ok(CHECK, format!("{count} servers with JetStream, so .replicas(3) works")),
    }
    count
}

/// Checks whether what is stored is written to disks.
fn disks(status: Result<Vec<Server>, Answer>, is_system: bool, report: &mut Report) {
    const CHECK: &str = "sync";
    const ALWAYS: &str = "set `sync_interval: always` in `jetstream {}` of nats.conf, or a power \
                          failure of most servers at once loses jobs that were acknowledged";
    let servers = match status {
        Ok(servers) => servers,
        Err(answer) => {
            let (found, advice) = match (answer, is_system) {
                (Answer::Silence(words), true) => (words, "pass a longer --timeout".to_owned()),
                (_, true) => (
                    "the user of --system is not of the system account".to_owned(),
                    "take a user of the account that nats.conf calls system_account".to_owned(),
                ),
                (_, false) => (
                    "not known: only users of the system account may ask".to_owned(),
                    format!("pass --system URLS, or look into nats.conf: {ALWAYS}"),
                ),
            };
            report.warn(CHECK, found, &advice);
            return;
        }
    };
    for server in servers.iter().filter(|server| server.jetstream) {
        if let Some((used, most)) = server.store {
            limits::store(&server.name, used, most, report);
        }
        match server.sync {
            Some(Sync::Always) => report.ok(CHECK, format!("always on {}", server.name)),
            Some(Sync::Each(pause)) => {
                let found = format!("each {} on {}", time(pause), server.name);
                report.warn(CHECK, found, ALWAYS);
            }
            None => {
                let found = format!("not known of {}", server.name);
                report.warn(CHECK, found, "look for `sync_interval` in its nats.conf");
            }
        }
    }
}

/// Compares the servers' clocks with this machine's.
fn clocks(servers: &[Server], report: &mut Report) {
    for server in servers {
        let Some((ahead, error)) = server.clock else {
            let found = format!("not known of {}", server.name);
            report.warn("clock", found, "compare the clocks by hand");
            continue;
        };
        let direction = if ahead < 0.0 { "behind" } else { "ahead" };
        let found = format!(
            "{} is {:.3} s {direction}, give or take {error:.3} s",
            server.name,
            ahead.abs()
        );
        let (verdict, advice) = match ahead.abs() - error {
            wrong if wrong > CLOCKS.1 => (
                Verdict::Failed,
                "set the clocks by NTP: pauses, message ids and results last too short or too long \
                 when another server takes over",
            ),
            wrong if wrong > CLOCKS.0 => (Verdict::Warning, "check that NTP runs on both machines"),
            _ => (Verdict::Ok, ""),
        };
        report.add("clock", verdict, found, advice);
    }
}
