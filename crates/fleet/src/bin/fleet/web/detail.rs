//! What is shown of one queue: the jobs that are running, the dead, and the processes.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::time::SystemTime;

use ecru_fleet::Progress;
use ecru_nats::jetstream::JetStream;
use serde_json::{Value, json};

use crate::names;
use crate::queue::Queue;
use crate::top::collect::Row;
use crate::utc;

/// The most jobs of a list, and the most bytes that are read for it.
const MOST: usize = 50;
const MOST_BYTES: usize = 4 << 20;

/// The most jobs that are read for a list: queued ones lie between those that run.
const MOST_READ: usize = 200;

/// The most characters of a text that a job or a server has chosen.
const LONGEST: usize = 4000;

/// Returns the time in milliseconds since 1970.
pub(super) fn now() -> u64 {
    milliseconds(SystemTime::now())
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time of a server in milliseconds since 1970.
fn moment(text: &str) -> Option<u64> {
    utc::parse(text).map(milliseconds)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns what is shown of a queue, with the dead from a number on.
pub(super) fn of(js: &JetStream, row: &Row, from: u64) -> io::Result<Value> {
    let (running, has_more_running) = running(js, row)?;
    let (dead, has_more_dead) = dead(js, row, from)?;
    let processes = row.workers.as_ref().map(|all| {
        let process = |one: &crate::servers::Connection| {
            json!({
                "name": short(&one.name),
                "address": format!("{}:{}", one.ip, one.port),
                "since": moment(&one.start),
            })
        };
        all.iter().take(MOST).map(process).collect::<Vec<_>>()
    });
    Ok(json!({
        "queue": row.queue,
        "running": running,
        "more_running": has_more_running,
        "dead": dead,
        "more_dead": has_more_dead,
        "from": from,
        "processes": processes,
    }))
}

/// Returns the oldest of the jobs that were handed out, and whether there are more.
fn running(js: &JetStream, row: &Row) -> io::Result<(Vec<Value>, bool)> {
    let Some(numbers) = row.numbers.filter(|numbers| numbers.running > 0) else {
        return Ok((Vec::new(), false));
    };
    let (queue, stream) = (&row.queue, names::jobs(&row.queue));
    let pages = pages(js, queue)?;
    let ranks = &numbers.ranks[..numbers.priorities.max(1)];
    let floor = ranks.iter().map(|rank| rank.floor).min().unwrap_or(0);
    let last = ranks.iter().map(|rank| rank.handed_out).max().unwrap_or(0);
    let (mut jobs, mut from, mut bytes) = (Vec::new(), floor + 1, 0);
    let mut left = MOST_READ;
    while let Some(job) = js.next_message(&stream, from, ">")?.filter(|job| job.sequence <= last) {
        if left == 0 {
            return Ok((jobs, true));
        }
        left -= 1;
        let priority = names::priority(&job.subject);
        if ranks.get(priority).is_none_or(|rank| job.sequence > rank.handed_out) {
            // It is queued behind more urgent ones.
            from = job.sequence + 1;
            continue;
        }
        if jobs.len() == MOST || bytes > MOST_BYTES {
            return Ok((jobs, true));
        }
        from = job.sequence + 1;
        bytes += job.payload.len();
        let token = names::token_of_job(&job.subject);
        let mut shown = json!({
            "id": short(&names::id(&token)),
            "number": job.sequence,
            "priority": priority,
        });
        let report = js.last_message(&names::attempts(queue), &names::progress(queue, &token))?;
        // A job that is not held any more has an empty message for a moment.
        let report = report.and_then(|it| serde_json::from_slice::<Progress>(&it.payload).ok());
        if let Some(report) = report {
            shown["percent"] = json!(report.percent());
            shown["text"] = json!(short(report.text()));
        }
        let record = format!("fleet.attempts.{queue}.{token}.{}", job.sequence);
        if let Some(stored) = js.last_message(&names::attempts(queue), &record)? {
            // Another program may publish anything here.
            let record: Value = serde_json::from_slice(&stored.payload).unwrap_or_default();
            if record["settled"] == true {
                continue;
            }
            shown["attempt"] = json!(record["begun"].as_u64());
            shown["since"] = json!(moment(&stored.time));
            shown["process"] = json!(record["process"].as_str().map(process));
            // It cannot be seen from outside which of the two it is.
            shown["state"] = json!("running or waiting");
        } else if let Some((page, since)) = pages.get(&job.sequence) {
            shown["attempt"] = json!(1);
            shown["since"] = json!(since);
            shown["process"] = json!(process(page));
            shown["state"] = json!("running");
        } else {
            shown["since"] = Value::Null;
            shown["state"] = json!("handed out, not begun");
        }
        jobs.push(shown);
    }
    Ok((jobs, false))
}

/// Returns the jobs that processes work on for the first time: by their numbers, the process and
/// since when.
fn pages(js: &JetStream, queue: &str) -> io::Result<HashMap<u64, (String, Option<u64>)>> {
    let pattern = format!("fleet.attempts.{queue}.=pages.*");
    let (stream, mut from, mut seen) = (names::attempts(queue), 1, BTreeSet::new());
    let mut found = HashMap::new();
    while let Some(page) = js.next_message(&stream, from, &pattern)? {
        from = page.sequence + 1;
        let name = page.subject.rsplit('.').next().unwrap_or_default().to_owned();
        let text = String::from_utf8_lossy(&page.payload).into_owned();
        for word in text.split(' ').skip(1) {
            let mut parts = word.split('-');
            let Some(Ok(number)) = parts.next().map(str::parse) else { continue };
            let seconds = parts.nth(2).and_then(|part| u64::from_str_radix(part, 16).ok());
            let since = seconds.map(|seconds| seconds.saturating_mul(1000));
            found.insert(number, (name.clone(), since));
        }
        // It is written again and again.
        if !seen.insert(page.subject) {
            break;
        }
    }
    Ok(found)
}

/// Returns the name of a process without what makes it unique: `HOST-NUMBER` of
/// `HOST-NUMBER-RANDOM` or `HOST-NUMBER-RANDOM-PAGE`. A process of an older release has no name,
/// and is called by what is random.
fn process(name: &str) -> String {
    let is_random =
        |part: &str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = name.split('-').collect();
    let kept = match parts.iter().rposition(|part| is_random(part)) {
        Some(0) | None => short(name),
        Some(random) => parts[..random].join("-"),
    };
    short(&kept)
}

/// Returns some of the dead from a number on, and whether there are more.
fn dead(js: &JetStream, row: &Row, from: u64) -> io::Result<(Vec<Value>, bool)> {
    if row.numbers.is_none_or(|numbers| numbers.dead == 0) {
        return Ok((Vec::new(), false));
    }
    let queue = Queue::open(js.clone(), &row.queue, true)?;
    let (mut jobs, mut next, mut bytes) = (Vec::new(), from, 0);
    while let Some(dead) = queue.next(next)? {
        if jobs.len() == MOST || bytes > MOST_BYTES {
            return Ok((jobs, true));
        }
        next = dead.number + 1;
        bytes += dead.stored.payload.len();
        jobs.push(json!({
            "number": dead.number,
            "id": short(&dead.id),
            "attempts": dead.attempts,
            "priority": dead.priority,
            "reason": short(&dead.reason),
            "since": moment(&dead.stored.time),
            "payload": short(&String::from_utf8_lossy(&dead.stored.payload)),
        }));
    }
    Ok((jobs, false))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn processes_have_short_names() {
        for (name, shown) in [
            ("mill-3-4711-0123456789abcdef-0", "mill-3-4711"),
            ("mill-3-4711-0123456789abcdef", "mill-3-4711"),
            ("0123456789abcdef-0", "0123456789abcdef-0"),
            ("other", "other"),
        ] {
            assert_eq!(process(name), shown);
        }
        assert_eq!(short(&"\u{e4}".repeat(LONGEST + 1)).chars().count(), LONGEST + 1);
        assert_eq!(milliseconds(SystemTime::UNIX_EPOCH + Duration::from_millis(7)), 7);
    }
}
