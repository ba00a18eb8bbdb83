//! The table, for people and for programs.

use serde_json::{Value, json};

use super::collect::{Numbers, Rank, Row};
use crate::names::kind;
use crate::text::{plain, time};

const HEAD: [&str; 11] = [
    "NAME",
    "KIND",
    "QUEUED",
    "BY PRIORITY",
    "RUNNING",
    "PROGRESS",
    "REDELIVERED",
    "DEAD",
    "WORKERS",
    "WAITING",
    "STATE",
];

/// The columns that are aligned to the left.
const WORDS: [usize; 3] = [0, 1, 10];

/// Returns the table, with a line for each queue.
pub(super) fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "there are no queues and functions\n".into();
    }
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(line));
    let width =
        |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for cells in &lines {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let padded = match WORDS.contains(&column) {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
            line.push_str(&padded);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn line(row: &Row) -> [String; 11] {
    let (kind, name) = kind(&row.queue);
    let workers = row.workers().map_or("?".into(), |count| count.to_string());
    let (name, kind) = (plain(name), kind.to_owned());
    let Some(numbers) = row.numbers else {
        let unknown = || "?".to_owned();
        let state = "does not answer".to_owned();
        let (q, r, d, w) = (unknown(), unknown(), unknown(), unknown());
        let (ranks, progress) = (String::new(), String::new());
        return [name, kind, q, ranks, r, progress, unknown(), d, workers, w, state];
    };
    let state = match numbers.paused {
        Some(left) => format!("paused, {} left", time(left)),
        None if numbers.queued > 0 && row.workers() == Some(0) => "has no workers".into(),
        None => String::new(),
    };
    let [queued, running, redelivered, dead, waiting] =
        [numbers.queued, numbers.running, numbers.redelivered, numbers.dead, numbers.waiting]
            .map(|number| number.to_string());
    let progress = numbers
        .percent
        .map_or_else(String::new, |percent| format!("{} at {percent} %", numbers.reporting));
    let ranks = numbers.ranked().map_or_else(String::new, |ranks| {
        ranks.iter().map(|rank| rank.queued.to_string()).collect::<Vec<_>>().join("+")
    });
    [name, kind, queued, ranks, running, progress, redelivered, dead, workers, waiting, state]
}

/// Returns the numbers of each priority, if jobs have priorities.
pub(crate) fn ranks(numbers: &Numbers) -> Option<Value> {
    let rank = |rank: &Rank| json!({ "queued": rank.queued, "running": rank.running });
    Some(numbers.ranked()?.iter().map(rank).collect())
}

/// Returns one line of JSON.
pub(super) fn json(rows: &[Row]) -> String {
    let queues: Vec<Value> = rows
        .iter()
        .map(|row| {
            let (kind, name) = kind(&row.queue);
            let number = |field: fn(&Numbers) -> u64| row.numbers.as_ref().map(field);
            json!({
                "name": name,
                "kind": kind,
                "answers": row.numbers.is_some(),
                "queued": number(|numbers| numbers.queued),
                "running": number(|numbers| numbers.running),
                "priorities": row.numbers.as_ref().and_then(ranks),
                "reporting": number(|numbers| numbers.reporting),
                "percent": row.numbers.as_ref().and_then(|numbers| numbers.percent),
                "redelivered": number(|numbers| numbers.redelivered),
                "dead": number(|numbers| numbers.dead),
                "waiting": number(|numbers| numbers.waiting),
                "workers": row.workers(),
                "paused_seconds": row.numbers.and_then(|numbers| Some(numbers.paused?.as_secs_f64())),
            })
        })
        .collect();
    format!("{}\n", json!({ "queues": queues }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::collect::Rank;
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let numbers =
            Numbers { queued: 12, paused: Some(Duration::from_secs(61)), ..Numbers::default() };
        let ranks = [3, 0, 9, 1].map(|queued| Rank { queued, ..Rank::default() });
        let ranked = Numbers { queued: 13, priorities: 4, ranks, ..Numbers::default() };
        let rows = [
            Row { queue: "f_grind".into(), numbers: Some(numbers), workers: Some(Vec::new()) },
            Row { queue: "q_m".into(), numbers: None, workers: None },
            Row { queue: "q_urgent".into(), numbers: Some(ranked), workers: None },
        ];
        let text = text(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME    KIND      QUEUED  BY PRIORITY  RUNNING"), "{text}");
        assert!(lines[1].starts_with("grind   function      12                     0"), "{text}");
        assert!(lines[1].ends_with("paused, 1 min 1 s left"), "{text}");
        assert!(lines[2].starts_with("m       queue          ?"), "{text}");
        assert!(lines[3].starts_with("urgent  queue         13      3+0+9+1        0"), "{text}");
        let json: Value = serde_json::from_str(&json(&rows)).unwrap();
        assert_eq!(json["queues"][0]["paused_seconds"], 61.0);
        assert_eq!(json["queues"][1]["queued"], Value::Null);
        assert_eq!(json["queues"][0]["priorities"], Value::Null);
        assert_eq!(json["queues"][2]["priorities"][2]["queued"], 9);
    }
}
