//! The numbers in the text form of OpenMetrics.

use std::fmt::Write;

use super::collect::Row;
use crate::names::kind;

/// Returns the numbers of all queues and functions.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, values: &dyn Fn(&Row) -> Vec<(&str, f64)>| {
        let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} {help}");
        for row in rows {
            let (kind, queue) = kind(&row.queue);
            let queue = escaped(queue);
            for (state, value) in values(row) {
                let state = match state {
                    "" => String::new(),
                    state => format!(",state=\"{state}\""),
                };
                let _ = writeln!(text, "{name}{{kind=\"{kind}\",name=\"{queue}\"{state}}} {value}");
            }
        }
    };
    family("fleet_jobs", "Jobs by state. Those that run again are among the running.", &|row| {
        let Some(numbers) = row.numbers else { return Vec::new() };
        vec![
            ("queued", numbers.queued as f64),
            ("running", numbers.running as f64),
            ("redelivered", numbers.redelivered as f64),
            ("dead", numbers.dead as f64),
        ]
    });
    family("fleet_workers", "Processes that take jobs.", &|row| {
        row.workers.map(|count| ("", count as f64)).into_iter().collect()
    });
    family("fleet_answers", "Whether the servers answer, 1 or 0.", &|row| {
        vec![("", f64::from(u8::from(row.numbers.is_some())))]
    });
    family("fleet_paused_seconds", "How long no job is handed out.", &|row| {
        let paused = row.numbers.and_then(|numbers| numbers.paused).unwrap_or_default();
        vec![("", paused.as_secs_f64())]
    });
    text.push_str("# EOF\n");
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::collect::Numbers;
    use super::*;

    #[test]
    fn numbers_have_labels() {
        let numbers = Numbers { queued: 12, ..Numbers::default() };
        let rows = [
            Row { queue: "f_grind".into(), numbers: Some(numbers), workers: Some(2) },
            Row { queue: "q_m\"\\\n".into(), numbers: None, workers: None },
        ];
        let text = text(&rows);
        for line in [
            "fleet_jobs{kind=\"function\",name=\"grind\",state=\"queued\"} 12",
            "fleet_workers{kind=\"function\",name=\"grind\"} 2",
            "fleet_answers{kind=\"queue\",name=\"m\\\"\\\\\\n\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }
}
