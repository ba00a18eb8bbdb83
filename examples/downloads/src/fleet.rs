//! One list of files, downloaded by many processes.
//!
//! The *coordinator* (`--run`) sends the files of its list and collects a report for each.
//! *Workers* download them, one file by the same code as the local mode. Between the two is one
//! function of ecru-fleet, whose argument is an [`Order`] and whose result is a [`Report`]. The NATS
//! server stores both, so any process may be killed and started again:
//!
//! - The files of a killed worker are handed out again after the lease. The workers share their
//!   folder, so the next one continues `NAME.part`.
//! - The reports are stored by run and index. A coordinator that starts again with the same list
//!   gets those that are there, and sends the rest.

mod coordinator;
mod list;
mod progress;
mod worker;

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use ecru_fleet::{Fleet, Function, JobError, Run};
use serde::{Deserialize, Serialize};

use crate::fetch::Record;
use crate::runtime::Scope;
pub(crate) use coordinator::coordinate;
pub(crate) use worker::work;

/// How long the server keeps reports, and with them the possibility to go on with a run.
const KEEP: Duration = Duration::from_hours(30 * 24);

/// One file of a list, as it is sent to the workers. There are no credentials in it, because the
/// server stores it.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    url: String,
    /// The path below the workers' folder. The coordinator chooses it, because it knows the whole
    /// list.
    name: String,
}

/// What has become of an order.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// The name of the worker that has ended it.
    worker: String,
    /// The bytes that this worker has received for it.
    received: u64,
    record: Record,
}

/// Joins the fleet. `@FILE` names a file with the URL, which may have a password.
fn join<'s>(s: &'s Scope<'s, '_>, url: &str) -> anyhow::Result<Fleet<'s>> {
    let url = match url.strip_prefix('@') {
        None => url.to_owned(),
        Some(file) => std::fs::read_to_string(file)
            .with_context(|| format!("--fleet: cannot read {file}"))?
            .trim()
            .to_owned(),
    };
    Fleet::connect(s, &url).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "; start `nats-server -js` there, or correct the address"
            }
            _ => "",
        };
        anyhow::anyhow!("--fleet: {error}{advice}")
    })
}

/// Opens the function that downloads a file. Its settings are those of the process that opens it
/// last. The other processes adopt them, and warn.
fn open<'s>(
    fleet: &Fleet<'s>,
    lease: Duration,
    download: impl Fn(Order) -> Result<Report, JobError> + Send + Sync + 's,
) -> anyhow::Result<Function<'s, Order, Report>> {
    fleet
        .function("downloads", move |order: Order, _: &Run| download(order))
        .lease(lease)
        .keep_results(KEEP)
        .open()
        .map_err(|error| anyhow::anyhow!("--fleet: {error}"))
}

/// Downloads a list by two workers in this process, over an engine in memory.
#[cfg(test)]
pub(crate) fn rehearse(
    jobs: &[crate::fetch::Job],
    folder: &std::path::Path,
    manner: &crate::fetch::Manner,
) -> crate::report::Tally {
    use crate::progress::Show;
    use crate::runtime;

    let lease = Duration::from_secs(30);
    let workers = ["one", "other"].map(|name| worker::Worker { name: name.into(), folder, manner });
    let sent = coordinator::Sent { jobs, run: "night", lease, json: false };
    runtime::scope(|s| {
        let fleet = Fleet::local(s);
        for worker in &workers {
            let fleet = fleet.clone();
            s.spawn_daemon(move || worker.serve(&fleet, lease, 8, || ()).expect("it serves"));
        }
        list::claim(&fleet, sent.run, jobs).expect("the list is the first one");
        list::claim(&fleet, sent.run, &jobs[1..]).expect_err("another list is refused");
        let collected = sent.collect(&fleet, Show::Nothing).expect("the fleet has begun");
        // A second coordinator gets the same reports.
        let again = sent.collect(&fleet, Show::Nothing).expect("the fleet has not ended");
        assert_eq!(again.received(), collected.received());
        collected.tally()
    })
}
