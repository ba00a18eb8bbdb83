//! The streams of the fleet: what is stored where.

use std::io;

use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{Discard, JetStream, Retention, Storage, StreamInfo};

use super::report::Report;
use super::settings;
use crate::asking::Asking;
use crate::names::{self, Part, part};

/// JetStream's code if there is no such consumer.
const NO_CONSUMER: u32 = 10_014;

const CHECK: &str = "stream";

/// Checks each stream. `servers` is how many can have a copy.
pub(super) fn check(asking: &Asking, servers: usize, report: &mut Report) -> io::Result<()> {
    let js = asking.client.jetstream();
    let streams = match js.streams(None) {
        Ok(streams) => streams,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
        Err(error) => {
            let advice = "permit the user to publish to $JS.API.STREAM.LIST";
            report.warn(CHECK, error.to_string(), advice);
            return Ok(());
        }
    };
    let before = report.len();
    for name in streams.silent.iter().filter(|name| part(name).is_some()) {
        let advice = "start the servers that have it: it has no leader, so nothing can be stored";
        report.fail(CHECK, format!("{name} does not answer"), advice);
    }
    for stream in &streams.found {
        let Some((part, queue)) = part(&stream.config.name) else { continue };
        let what = describe(part, queue);
        let mut healthy = stored(stream, part, &what, servers, report);
        if part == Part::Jobs {
            let (kind, name) = names::kind(queue);
            let about = format!("the {kind} {name}");
            healthy &= settings::check(&js, queue, &about, report)?;
            healthy &= settings::finished(&js, queue, &about, report)?;
            for priority in 0..names::priorities(&stream.config) {
                consumer(&js, queue, priority, stream, &what, report)?;
            }
        }
        if healthy {
            let replicas = stream.config.replicas;
            let leader = stream.cluster.as_ref().map_or("the only server", |c| &c.leader);
            report.ok(CHECK, format!("{what}: {replicas} of {servers} replicas, led by {leader}"));
        }
    }
    if report.len() == before {
        report.ok(CHECK, "there are no queues and functions yet");
    }
    Ok(())
}

fn describe(part: Part, queue: &str) -> String {
    let (kind, name) = names::kind(queue);
    let what = match part {
        Part::Jobs => "jobs",
        Part::Dead => "dead jobs",
        Part::Attempts => "attempts",
        Part::Results => "results",
    };
    format!("{what} of the {kind} {name}")
}

/// Checks how a stream is stored. Returns whether all is well.
fn stored(
    stream: &StreamInfo,
    part: Part,
    what: &str,
    servers: usize,
    report: &mut Report,
) -> bool {
    let before = report.len();
    let name = &stream.config.name;
    if let Some(cluster) = &stream.cluster {
        if cluster.leader.is_empty() {
            let advice = "start the servers that have it: without a leader nothing can be stored";
            report.fail(CHECK, format!("{what}: {name} has no leader"), advice);
        }
        for replica in cluster.replicas.iter().filter(|replica| replica.offline) {
            let found = format!("{what}: the replica on {} is offline", replica.name);
            report.warn(CHECK, found, "start that server");
        }
        for replica in cluster.replicas.iter().filter(|one| !one.current && !one.offline) {
            let found =
                format!("{what}: the replica on {} lacks {} changes", replica.name, replica.lag);
            report.warn(CHECK, found, "wait until it has caught up before you stop a server");
        }
    }
    if stream.config.replicas == 1 && servers >= 3 {
        let advice = format!(
            "`nats stream edit {name} --replicas 3`, and open it with .replicas(3) from then on"
        );
        let found =
            format!("{what}: 1 of {servers} replicas, so all wait while its server is down");
        report.warn(CHECK, found, &advice);
    }
    if stream.config.storage == Storage::Memory {
        let advice = "nothing survives a restart; delete it, and let the fleet create it";
        report.warn(CHECK, format!("{what}: {name} is stored in memory"), advice);
    }
    if part == Part::Jobs && stream.config.retention != Retention::WorkQueue {
        let found = format!("{what}: {name} keeps jobs that are done");
        report.fail(
            CHECK,
            found,
            "another program made it; delete it, and let the fleet create it",
        );
    }
    edited(stream, part, what, report);
    report.len() == before
}

/// Checks whether settings were edited with which jobs are lost.
fn edited(stream: &StreamInfo, part: Part, what: &str, report: &mut Report) {
    if !matches!(part, Part::Jobs | Part::Dead) {
        return;
    }
    let (config, name) = (&stream.config, &stream.config.name);
    let mut tell = |problem: String, option: &str| {
        let advice = format!("`nats stream edit {name} {option}`");
        report.fail(CHECK, format!("{what}: {problem}"), &advice);
    };
    if let Some(age) = config.max_age {
        tell(format!("{name} drops jobs after {age:?}"), "--max-age 0");
    }
    if config.discard != Discard::New {
        tell(format!("{name} drops old jobs when it is full"), "--discard new");
    }
    if let Some(most) = config.max_bytes {
        tell(format!("{name} has a limit of {most} bytes"), "--max-bytes=-1");
    }
    if config.max_messages_per_subject != Some(1) || !config.discard_new_per_subject {
        let option = "--max-msgs-per-subject 1 --discard-per-subject";
        tell(format!("{name} takes a second job with an id, or replaces the first"), option);
    }
}

/// Checks what hands out the jobs of a queue.
fn consumer(
    js: &JetStream,
    queue: &str,
    priority: usize,
    stream: &StreamInfo,
    what: &str,
    report: &mut Report,
) -> io::Result<()> {
    let name = names::workers(priority);
    let info = js.consumer(&names::jobs(queue), &name).and_then(|consumer| consumer.info());
    match info {
        Ok(info) => {
            if let Some(most) = info.config.max_deliver.filter(|most| *most > 0) {
                let found =
                    format!("{what}: the consumer {name} hands out a job {most} times at most");
                let advice =
                    "remove its max_deliver: jobs that fail more often would stay for ever";
                report.fail(CHECK, found, advice);
            }
            let state = &stream.state;
            // The stream was asked before, so what is settled there may be more by now.
            let settled = info.ack_floor.stream;
            let all = names::all_jobs(queue, priority);
            let there = js.next_message(&stream.config.name, state.first_seq, &all);
            if there.is_ok_and(|job| job.is_some_and(|job| job.sequence <= settled)) {
                let found = format!("{what}: jobs that are done are listed as queued");
                let advice = format!("`fleet repair {}`", names::kind(queue).1);
                report.warn(CHECK, found, &advice);
            }
        }
        Err(error) if error.code() == Some(NO_CONSUMER) => {
            let found = format!("{what}: the consumer {name} is missing");
            report.warn(CHECK, found, "open the queue again, which creates it");
        }
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
        Err(error) => {
            report.warn(CHECK, format!("{what}: {error}"), "check the permissions of the user");
        }
    }
    Ok(())
}
