//! The limits of the servers and of the account.

use std::collections::BTreeMap;
use std::io;

use ecru_nats::Client;
use ecru_nats::jetstream::{AccountInfo, AccountUsage};

use super::report::{Report, Verdict};
use crate::asking::Asking;
use crate::names::{self, ALL_WAITING};
use crate::servers::{self, Connection};
use crate::text::bytes;

/// The largest job that a fleet accepts.
const LARGEST: u64 = 1 << 20;

/// What a message has beside a job.
const BESIDE: u64 = 1024;

/// Servers that accept less than this are worth a warning.
const SMALL: u64 = 64 << 10;

const CHECK: &str = "limits";

pub(super) fn check(client: &Client, account: Option<&AccountInfo>, report: &mut Report) {
    let most = client.server_info().max_payload as u64;
    let job = most.saturating_sub(BESIDE).min(LARGEST);
    let found = format!("messages of {}, so jobs of {job} bytes", bytes(most));
    let (verdict, advice) = match most {
        0..SMALL => (Verdict::Warning, "raise max_payload in nats.conf"),
        _ => (Verdict::Ok, ""),
    };
    report.add(CHECK, verdict, found, advice);
    let Some(account) = account else { return };
    if account.tiers.is_empty() {
        usage("", &account.total, report);
    }
    for (name, tier) in &account.tiers {
        usage(&format!("{name}: "), tier, report);
    }
}

/// Looks for processes with results that wait until the servers have room.
pub(super) fn results(asking: &Asking, report: &mut Report) -> io::Result<()> {
    // Without the permission to ask it is not known.
    let Some(connections) = servers::listeners(asking, ALL_WAITING)? else { return Ok(()) };
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for queue in connections.iter().flat_map(Connection::subjects).filter_map(names::waiting) {
        *waiting.entry(queue).or_default() += 1;
    }
    for (queue, processes) in waiting {
        let (_, name) = names::kind(queue);
        let found = format!(
            "results of the function {name} wait in {processes} processes: the servers have no room"
        );
        let advice = "make room on the servers' disks, or raise max_file_store or the account's \
                      max_file in nats.conf; then they are stored by themselves";
        report.warn("results", found, advice);
    }
    Ok(())
}

/// Compares what is used with the limits.
fn usage(tier: &str, used: &AccountUsage, report: &mut Report) {
    let limits = &used.limits;
    let (verdict, of) = full(used.storage, limits.max_storage);
    let found = format!("{tier}{} in files{}", bytes(used.storage), of.as_deref().unwrap_or(""));
    report.add(CHECK, verdict, found, advice(verdict, "raise the account's max_file in nats.conf"));
    if let Some(most) = limits.max_streams {
        let (verdict, _) = full(used.streams, Some(most));
        let found = format!("{tier}{} of {most} streams", used.streams);
        let to_do = "raise the account's max_streams: a queue needs three, a function four";
        report.add(CHECK, verdict, found, advice(verdict, to_do));
    }
    if limits.max_bytes_required {
        let found =
            format!("{tier}each stream must have a limit of bytes, and a fleet's have none");
        report.fail(CHECK, found, "remove max_bytes_required from the account in nats.conf");
    }
}

/// Compares what a server has in files with what it may store.
pub(super) fn store(server: &str, used: u64, most: u64, report: &mut Report) {
    let (verdict, of) = full(used, Some(most));
    let found = format!("{}{} in files of {server}", bytes(used), of.as_deref().unwrap_or(""));
    let to_do = "raise max_file_store in `jetstream {}` of its nats.conf, or make room: a server whose \
                 store or disk is full refuses jobs, and results wait in their workers";
    report.add(CHECK, verdict, found, advice(verdict, to_do));
}

/// Returns how serious it is that so much is used, and the limit in words.
fn full(used: u64, most: Option<u64>) -> (Verdict, Option<String>) {
    let Some(most) = most else { return (Verdict::Ok, None) };
    let verdict = if used >= most {
        Verdict::Failed
    } else if used as f64 >= 0.8 * most as f64 {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    (verdict, Some(format!(" of {}", bytes(most))))
}

fn advice(verdict: Verdict, advice: &str) -> &str {
    if verdict == Verdict::Ok { "" } else { advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_full_is_a_warning() {
        let verdict = |used, most| full(used, most).0;
        assert_eq!(verdict(100, None), Verdict::Ok);
        assert_eq!(verdict(79, Some(100)), Verdict::Ok);
        assert_eq!(verdict(80, Some(100)), Verdict::Warning);
        assert_eq!(verdict(100, Some(100)), Verdict::Failed);
        // No files are permitted at all.
        assert_eq!(verdict(0, Some(0)), Verdict::Failed);
    }
}
