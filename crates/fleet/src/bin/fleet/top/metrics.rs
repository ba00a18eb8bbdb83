//! The numbers in the text form of OpenMetrics.

use std::fmt::Write;

use super::collect::{Numbers, Row};
use crate::names::{PRIORITIES, kind};

/// The media type of the text.
#[cfg(feature = "web")]
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The states of the jobs of each priority.
const QUEUED: [&str; PRIORITIES] = ["0 queued", "1 queued", "2 queued", "3 queued"];
const RUNNING: [&str; PRIORITIES] = ["0 running", "1 running", "2 running", "3 running"];

/// What a family of numbers is.
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    /// A number of seconds, whose family is named so.
    Seconds,
    Counter,
}

/// Returns the numbers of all queues and functions.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut family = |family: Family, values: &dyn Fn(&Row) -> Vec<(&'static str, f64)>| {
        let Family { name, kind: what, help } = family;
        let (type_name, suffix) = match what {
            Kind::Gauge | Kind::Seconds => ("gauge", ""),
            Kind::Counter => ("counter", "_total"),
        };
        let _ = writeln!(text, "# TYPE {name} {type_name}");
        if what == Kind::Seconds {
            let _ = writeln!(text, "# UNIT {name} seconds");
        }
        let _ = writeln!(text, "# HELP {name} {}", escaped(help));
        for row in rows {
            let (kind, queue) = kind(&row.queue);
            let queue = escaped(queue);
            for (state, value) in values(row) {
                // A priority has its number before the state.
                let state = match state.split_once(' ') {
                    Some((priority, state)) => {
                        format!(",priority=\"{priority}\",state=\"{state}\"")
                    }
                    None if state.is_empty() => String::new(),
                    None => format!(",state=\"{state}\""),
                };
                let labels = format!("kind=\"{kind}\",name=\"{queue}\"{state}");
                let _ = writeln!(text, "{name}{suffix}{{{labels}}} {value}");
            }
        }
    };
    let one = |value: fn(&Numbers) -> f64| {
        move |row: &Row| {
            row.numbers.as_ref().map(|it| ("", value(it))).into_iter().collect::<Vec<_>>()
        }
    };
    let jobs = "Jobs by state. Those that run again are among the running.";
    family(Family { name: "fleet_jobs", kind: Kind::Gauge, help: jobs }, &|row| {
        let Some(numbers) = row.numbers else { return Vec::new() };
        vec![
            ("queued", numbers.queued as f64),
            ("running", numbers.running as f64),
            ("redelivered", numbers.redelivered as f64),
            ("dead", numbers.dead as f64),
        ]
    });
    let ranked = "Jobs by priority, 0 being the most urgent, of queues with priorities.";
    let ranked = Family { name: "fleet_priority_jobs", kind: Kind::Gauge, help: ranked };
    family(ranked, &|row| {
        let ranks = row.numbers.iter().filter_map(Numbers::ranked).flatten();
        let pairs = QUEUED.iter().zip(&RUNNING).zip(ranks);
        pairs
            .flat_map(|((queued, running), rank)| {
                [(*queued, rank.queued as f64), (*running, rank.running as f64)]
            })
            .collect()
    });
    let sent = "Jobs that were sent since the queue was created.";
    let sent = Family { name: "fleet_jobs_sent", kind: Kind::Counter, help: sent };
    family(sent, &one(|numbers| numbers.sent as f64));
    let settled = "Jobs that are done or dead since the queue was created.";
    let settled = Family { name: "fleet_jobs_settled", kind: Kind::Counter, help: settled };
    family(settled, &one(|numbers| numbers.settled as f64));
    let age = "For how long the oldest queued job has been queued, 0 if none is.";
    let age = Family { name: "fleet_queued_age_seconds", kind: Kind::Seconds, help: age };
    family(age, &one(|numbers| numbers.age.unwrap_or_default().as_secs_f64()));
    let workers = "Processes that take jobs.";
    family(Family { name: "fleet_workers", kind: Kind::Gauge, help: workers }, &|row| {
        row.workers().map(|count| ("", count as f64)).into_iter().collect()
    });
    let answers = "Whether the servers answer, 1 or 0.";
    family(Family { name: "fleet_answers", kind: Kind::Gauge, help: answers }, &|row| {
        vec![("", f64::from(u8::from(row.numbers.is_some())))]
    });
    let paused = "For how long no job is handed out, 0 if the queue is not paused.";
    let paused = Family { name: "fleet_paused_seconds", kind: Kind::Seconds, help: paused };
    family(paused, &one(|numbers| numbers.paused.unwrap_or_default().as_secs_f64()));
    text.push_str("# EOF\n");
    text
}

/// Escapes a label's value or a help text.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::super::collect::Rank;
    use super::*;

    fn rows() -> [Row; 2] {
        let (sent, age) = (20, Some(Duration::from_millis(1500)));
        let ranks = [2, 10, 0, 0].map(|queued| Rank { queued, ..Rank::default() });
        let numbers = Numbers { queued: 12, sent, age, priorities: 4, ranks, ..Numbers::default() };
        let workers = Some(vec![Default::default(), Default::default()]);
        [
            Row { queue: "f_grind".into(), numbers: Some(numbers), workers },
            Row { queue: "q_m\"\\\n".into(), numbers: None, workers: None },
        ]
    }

    #[test]
    fn numbers_have_labels() {
        let text = text(&rows());
        for line in [
            "fleet_jobs{kind=\"function\",name=\"grind\",state=\"queued\"} 12",
            "fleet_priority_jobs{kind=\"function\",name=\"grind\",priority=\"1\",state=\"queued\"} 10",
            "fleet_jobs_sent_total{kind=\"function\",name=\"grind\"} 20",
            "fleet_queued_age_seconds{kind=\"function\",name=\"grind\"} 1.5",
            "fleet_workers{kind=\"function\",name=\"grind\"} 2",
            "fleet_answers{kind=\"queue\",name=\"m\\\"\\\\\\n\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        }
    }

    /// Each family has its type and help before its numbers, once. Only counters end with `_total`,
    /// and a family with a unit ends with it.
    #[test]
    fn families_have_the_form_of_openmetrics() {
        let text = text(&rows());
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        let (mut seen, mut now, mut is_counter, mut helped) = (BTreeSet::new(), "", false, false);
        for line in text.lines().take_while(|line| *line != "# EOF") {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    assert!(now.is_empty() || helped, "{now} has no help");
                    assert!(seen.insert(name), "{name} comes twice");
                    (now, is_counter, helped) = (name, kind == "counter", false);
                }
                ["#", "UNIT", name, unit] => assert!(name == now && name.ends_with(unit), "{line}"),
                ["#", "HELP", name, _] => {
                    assert_eq!(name, now);
                    helped = true;
                }
                _ => {
                    let name = line.split('{').next().unwrap();
                    let family = if is_counter { name.strip_suffix("_total") } else { Some(name) };
                    assert!(helped && family == Some(now), "{line}");
                }
            }
        }
        assert_eq!(seen.len(), 8);
    }
}
