//! What the user may do. Each try is harmless: it names a queue that does not exist, and where a
//! stream could store it, it demands a stream that does not exist either.

use std::io;

use ecru_nats::Message;

use super::report::Report;
use crate::asking::{Answer, Asking};
use crate::names::{self, PRIORITIES};

const CHECK: &str = "permissions";

/// The header that makes each stream refuse a message.
const STREAM: &str = "Nats-Expected-Stream";

/// Something that a fleet does.
struct Try {
    purpose: &'static str,
    subject: String,
    body: &'static str,
}

/// Tries everything that programs of a fleet do.
pub(super) fn check(asking: &Asking, report: &mut Report) -> io::Result<()> {
    let queue = format!("doctor-{:08x}", fastrand::u32(..));
    let tries = tries(&queue);
    let listens = [
        ("hear of cancellations", format!("fleet.cancel.{queue}")),
        ("hear of results", format!("$KV.fleet-results-{queue}.run.0")),
    ];
    let mut denied = 0;
    for Try { purpose, subject, body } in &tries {
        let question = Message::new(subject, *body).with_header(STREAM, &queue)?;
        match asking.ask(&question)? {
            // Nothing has the queue, so either means that the question was permitted.
            Answer::Message(_) | Answer::NoResponders => {}
            Answer::Forbidden(words) => {
                denied += 1;
                deny(purpose, "publish", subject, &queue, &words, report);
            }
            Answer::Silence(words) => {
                denied += 1;
                let advice = "repeat it, or pass a longer --timeout";
                report.warn(
                    CHECK,
                    format!("cannot tell whether it may {purpose}: {words}"),
                    advice,
                );
            }
        }
    }
    for (purpose, subject) in &listens {
        let heard = asking.client.subscribe(subject)?;
        // The server refuses before it answers this.
        asking.client.flush()?;
        if let Some(words) = asking.refused(subject)? {
            denied += 1;
            deny(purpose, "subscribe", subject, &queue, &words, report);
        }
        drop(heard);
    }
    if denied == 0 {
        let count = tries.len() + listens.len();
        report.ok(CHECK, format!("all that a fleet does is permitted ({count} tries)"));
    }
    Ok(())
}

fn deny(purpose: &str, action: &str, subject: &str, queue: &str, words: &str, report: &mut Report) {
    let advice = format!("permit it to {action} to {} in nats.conf", general(subject, queue));
    report.fail(CHECK, format!("the user may not {purpose}: {words}"), &advice);
}

/// Returns the subject with which a permission is written.
fn general(subject: &str, queue: &str) -> String {
    let mut tokens = Vec::new();
    for token in subject.split('.') {
        if token.contains(queue) {
            // What follows names the queue, too, or is part of its subjects.
            tokens.push(if tokens.len() + 1 == subject.split('.').count() { "*" } else { ">" });
            break;
        }
        tokens.push(token);
    }
    tokens.join(".")
}

/// Everything that programs of a fleet publish, and the requests of the operators' commands.
fn tries(queue: &str) -> Vec<Try> {
    let (jobs, results) = (format!("fleet-jobs-{queue}"), format!("KV_fleet-results-{queue}"));
    let (dead, attempts) = (format!("fleet-dead-{queue}"), format!("fleet-attempts-{queue}"));
    let one = |purpose, subject, body| Try { purpose, subject, body };
    // A stream with another name than the subject has is refused.
    const OTHER: &str = "{\"name\":\"doctor\"}";
    const FIRST: &str = "{\"seq\":1}";
    let mut tries = vec![
        one("send jobs", format!("fleet.jobs.{queue}.try"), ""),
        one("bury jobs", format!("fleet.dead.{queue}.try.1"), ""),
        one("begin jobs", format!("fleet.attempts.{queue}.try.1"), ""),
        one("cancel jobs that run", format!("fleet.cancel.{queue}"), "try"),
        one("store results", format!("$KV.fleet-results-{queue}.run.0"), ""),
        one("open queues", format!("$JS.API.STREAM.CREATE.{jobs}"), OTHER),
        one("open queues", format!("$JS.API.STREAM.INFO.{jobs}"), ""),
        one("open functions", format!("$JS.API.STREAM.CREATE.{results}"), OTHER),
        one("change settings", format!("$JS.API.STREAM.UPDATE.{jobs}"), OTHER),
        one("change settings", format!("fleet.attempts.{queue}.=settings.record"), ""),
        one("read results", format!("$JS.API.STREAM.MSG.GET.{results}"), FIRST),
        one("watch results", format!("$JS.API.CONSUMER.CREATE.{results}.watch-0"), "{}"),
        one("watch results", format!("$JS.API.CONSUMER.INFO.{results}.watch-0"), ""),
        one("watch results", format!("$JS.API.CONSUMER.MSG.NEXT.{results}.watch-0"), "{}"),
        one("call functions", format!("$JS.API.STREAM.PURGE.{results}"), "{}"),
        one("cancel jobs", format!("$JS.API.STREAM.MSG.DELETE.{jobs}"), FIRST),
        one("read the dead", format!("$JS.API.STREAM.MSG.GET.{dead}"), FIRST),
        one("count attempts", format!("$JS.API.STREAM.MSG.GET.{attempts}"), FIRST),
    ];
    for priority in 0..PRIORITIES {
        let workers = names::workers(priority);
        let (send, open, take, settle) = match priority {
            0 => ("send jobs", "open queues", "take jobs", "settle jobs"),
            _ => (
                "send jobs with priorities",
                "open queues with priorities",
                "take jobs with priorities",
                "settle jobs with priorities",
            ),
        };
        if priority > 0 {
            tries.push(one(send, format!("fleet.jobs-{priority}.{queue}.try"), ""));
        }
        tries.extend([
            one(open, format!("$JS.API.CONSUMER.CREATE.{jobs}.{workers}"), "{}"),
            one(take, format!("$JS.API.CONSUMER.INFO.{jobs}.{workers}"), ""),
            one(take, format!("$JS.API.CONSUMER.MSG.NEXT.{jobs}.{workers}"), "{}"),
            one(settle, format!("$JS.ACK.{jobs}.{workers}.1.1.1.1.0"), "+WPI"),
            one("pause queues", format!("$JS.API.CONSUMER.PAUSE.{jobs}.{workers}"), "{}"),
        ]);
    }
    // The places of a limit, if jobs have priorities.
    const LIMIT: &str = "keep a limit with priorities";
    tries.extend([
        one(LIMIT, format!("fleet.attempts.{queue}.=permits.0"), ""),
        one(LIMIT, format!("$JS.API.CONSUMER.CREATE.{attempts}.permits"), "{}"),
        one(LIMIT, format!("$JS.API.CONSUMER.INFO.{attempts}.permits"), ""),
        one(LIMIT, format!("$JS.API.CONSUMER.MSG.NEXT.{attempts}.permits"), "{}"),
        one(LIMIT, format!("$JS.ACK.{attempts}.permits.1.1.1.1.0"), "+WPI"),
    ]);
    tries
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn permissions_are_for_all_queues() {
        let general = |subject| general(subject, "doctor-1");
        assert_eq!(general("fleet.jobs.doctor-1.try"), "fleet.jobs.>");
        assert_eq!(general("fleet.cancel.doctor-1"), "fleet.cancel.*");
        assert_eq!(general("$JS.API.STREAM.INFO.fleet-jobs-doctor-1"), "$JS.API.STREAM.INFO.*");
        assert_eq!(general("$KV.fleet-results-doctor-1.run.0"), "$KV.>");
    }
}
