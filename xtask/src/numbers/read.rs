//! Result files of both editions.

use serde_json::Value;
use std::collections::BTreeMap;

/// The number of rounds that a result needs.
const ROUNDS: u64 = 9;

/// One result file.
#[derive(Debug)]
pub(super) struct Run {
    /// The path below `bench/results`.
    pub(super) file: String,
    pub(super) processor: String,
    pub(super) kernel: String,
    pub(super) first_edition: bool,
    /// The sort key for the age of a processor's runs.
    age: (String, String),
    /// Whether its numbers may be published.
    counts: bool,
    rows: Vec<Row>,
}

/// One metric of one row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// ecru's median.
    pub(super) own: f64,
    /// The peers' costs as multiples of ecru's, the lowest first.
    pub(super) peers: Vec<Peer>,
    pub(super) goals: Vec<Goal>,
}

/// One peer's cost as a multiple of ecru's.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    /// The range from `low` to `high` contains the median.
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

/// The outcome of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Met,
    Missed,
    Undecided,
}

/// The newest result of each row on one processor.
pub(super) struct Processor<'a> {
    /// The newest run among those of the rows.
    pub(super) newest: &'a Run,
    pub(super) rows: Vec<(&'a Row, &'a Run)>,
}

/// Reads all files. Files that cannot be read, or that come from a dirty tree, are problems.
pub(super) fn runs(files: &[(String, String)]) -> (Vec<Run>, Vec<String>) {
    let (mut runs, mut problems) = (vec![], vec![]);
    for (file, text) in files {
        match serde_json::from_str(text) {
            Ok(value) => {
                let run = run(file, &value);
                if !run.first_edition && value["header"]["clean"] != true {
                    problems.push(format!(
                        "bench/results/{file} was measured from a tree with changes; such a \
                         result is not kept"
                    ));
                }
                runs.push(run);
            }
            Err(error) => problems.push(format!("bench/results/{file}: {error}")),
        }
    }
    (runs, problems)
}

fn run(file: &str, value: &Value) -> Run {
    let first_edition = value["format"].is_null();
    let header = if first_edition { &value["machine"] } else { &value["header"] };
    let text = |key: &str| header[key].as_str().unwrap_or_default().to_owned();
    let stem = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".json").to_owned();
    let counts = if first_edition {
        !text("commit").ends_with("-dirty")
    } else {
        header["clean"] == true
            && header["profile"] == "release"
            && header["rounds"].as_u64().is_some_and(|rounds| rounds >= ROUNDS)
    };
    let rows = value["rows"].as_array().into_iter().flatten();
    Run {
        file: file.to_owned(),
        processor: text("processor"),
        kernel: text("kernel"),
        first_edition,
        // A run that began later is newer. A file of the first edition without a starting time is
        // older than all others.
        age: (text("began"), stem),
        counts,
        rows: rows.flat_map(|row| metrics_of(row, first_edition)).collect(),
    }
}

/// Returns the metrics of a row that have goals, or otherwise its first one.
fn metrics_of(row: &Value, first_edition: bool) -> Vec<Row> {
    let name = row[if first_edition { "row" } else { "name" }].as_str().unwrap_or_default();
    let goals: Vec<(&str, Goal)> =
        row["goals"].as_array().into_iter().flatten().filter_map(goal).collect();
    let metrics = row["metrics"].as_array().cloned().unwrap_or_default();
    let wanted = metrics.iter().enumerate().filter(|(place, metric)| {
        let has_goal = goals.iter().any(|(about, _)| metric["name"] == *about);
        has_goal || (goals.is_empty() && *place == 0)
    });
    wanted
        .filter_map(|(place, metric)| {
            let (own, peers) = ratios(row, place)?;
            let about = metric["name"].as_str()?;
            let goals = goals.iter().filter(|(metric, _)| *metric == about);
            Some(Row {
                name: name.into(),
                metric: about.into(),
                unit: metric["unit"].as_str()?.into(),
                own,
                peers,
                goals: goals.map(|(_, goal)| *goal).collect(),
            })
        })
        .collect()
}

/// Returns a goal's metric and outcome, or `None` if it was not measured.
fn goal(goal: &Value) -> Option<(&str, Goal)> {
    if let Some(says) = goal["says"].as_str() {
        // The first edition has the form "time: goal at least 4 x as fast as may [..]: 4.20 x MET".
        let outcome = if goal["met"].as_bool()? { Goal::Met } else { Goal::Missed };
        return Some((says.split(':').next()?, outcome));
    }
    let outcome = match goal["verdict"].as_str()? {
        "met" => Goal::Met,
        "missed" => Goal::Missed,
        "undecided" => Goal::Undecided,
        _ => return None,
    };
    Some((goal["metric"].as_str()?, outcome))
}

/// Returns ecru's median of one metric, and the peers' multiples of it.
fn ratios(row: &Value, metric: usize) -> Option<(f64, Vec<Peer>)> {
    let contenders = row["contenders"].as_array()?;
    let own = contenders.iter().find(|contender| contender["name"] == "ecru")?;
    let median = |contender: &Value| {
        sorted(rounds(contender, metric).into_iter().flatten()).map(|(_, median, _)| median)
    };
    let peers = contenders.iter().filter_map(|peer| {
        let name = peer["name"].as_str()?;
        if name.starts_with("ecru") {
            return None;
        }
        let stored = &peer["summary"][metric]["times_ecru"];
        let number = |key: &str| stored[key].as_f64();
        let (low, median, high) = match (number("low"), number("median"), number("high")) {
            (Some(low), Some(median), Some(high)) => (low, median, high),
            _ => sorted(
                rounds(peer, metric)
                    .into_iter()
                    .zip(rounds(own, metric))
                    .filter_map(|(peer, own)| Some(peer? / own?)),
            )?,
        };
        // A ratio to a cost of zero says nothing.
        high.is_finite().then(|| Peer { name: name.into(), low, median, high })
    });
    let mut peers: Vec<_> = peers.collect();
    peers.sort_by(|one, other| one.median.total_cmp(&other.median));
    Some((median(own)?, peers))
}

/// Returns a contender's values of one metric, round by round.
fn rounds(contender: &Value, metric: usize) -> Vec<Option<f64>> {
    let rounds = contender["rounds"].as_array().into_iter().flatten();
    rounds.map(|round| round[metric].as_f64()).collect()
}

/// Returns the minimum, the median and the maximum.
fn sorted(values: impl Iterator<Item = f64>) -> Option<(f64, f64, f64)> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let median = match values.len() {
        0 => return None,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    };
    Some((values[0], median, values[values.len() - 1]))
}

/// Returns the newest valid result of each row, by processor.
pub(super) fn newest(runs: &[Run]) -> Vec<Processor<'_>> {
    let mut folders: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.counts) {
        folders.entry(run.file.split('/').next().unwrap_or_default()).or_default().push(run);
    }
    let processors = folders.into_values().filter_map(|mut runs| {
        runs.sort_by(|one, other| other.age.cmp(&one.age));
        let mut rows: Vec<(&Row, &Run)> = vec![];
        for run in &runs {
            let known: Vec<_> = rows.iter().map(|(row, _)| row.name.clone()).collect();
            let new = run.rows.iter().filter(|row| !known.contains(&row.name));
            rows.extend(new.map(|row| (row, *run)));
        }
        Some(Processor { newest: runs.first()?, rows })
    });
    processors.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Returns a file of the second edition with one row, in which the peer has these multiples.
    pub(crate) fn second(
        name: &str,
        began: &str,
        change: impl FnOnce(&mut Value),
    ) -> (String, String) {
        let mut value = json!({
            "format": 2,
            "header": { "processor": "AMD EPYC", "kernel": "Linux 7", "clean": true,
                        "profile": "release", "rounds": 9, "began": began },
            "rows": [{
                "name": "yield", "title": "yield between two tasks",
                "metrics": [{ "name": "time", "unit": "ns" }],
                "goals": [{ "metric": "time", "verdict": "met" }],
                "contenders": [
                    { "name": "ecru", "rounds": vec![[10.0]; 9] },
                    { "name": "may", "rounds": vec![[40.0]; 9],
                      "summary": [{ "times_ecru": { "low": 3.5, "median": 4.0, "high": 4.5 } }] },
                    { "name": "ecru-poll", "rounds": vec![[5.0]; 9] },
                ],
            }],
        });
        change(&mut value);
        (name.into(), value.to_string())
    }

    /// Returns a file of the first edition.
    fn first(name: &str, commit: &str, may: f64) -> (String, String) {
        let value = json!({
            "machine": { "processor": "AMD EPYC", "kernel": "Linux 6", "commit": commit },
            "rows": [{
                "row": "yield", "title": "yield",
                "metrics": [{ "name": "time", "unit": "ns" }],
                "goals": [{ "says": "time: goal ..: 4 x MET", "met": true }],
                "contenders": [
                    { "name": "ecru", "rounds": [[10.0], null, [20.0], [10.0]] },
                    { "name": "may", "rounds": [[may], [may], [2.0 * may], [may / 2.0]] },
                ],
            }],
        });
        (name.into(), value.to_string())
    }

    #[test]
    fn both_editions_are_read_and_ecru_is_no_peer_of_itself() {
        let (runs, problems) = runs(&[
            first("a/first-edition/2026-11-22.json", "c0ffee", 30.0),
            second("a/x.json", "2", |_| {}),
        ]);
        assert!(problems.is_empty(), "{problems:?}");
        let (old, new) = (&runs[0].rows[0], &runs[1].rows[0]);
        assert_eq!((old.own, new.own), (10.0, 10.0));
        let ends = |row: &Row| (row.peers[0].low, row.peers[0].median, row.peers[0].high);
        assert_eq!(ends(old), (1.5, 3.0, 3.0));
        assert_eq!(ends(new), (3.5, 4.0, 4.5));
        assert_eq!((old.peers.len(), new.peers.len()), (1, 1));
        assert_eq!((&old.goals[..], &new.goals[..]), (&[Goal::Met][..], &[Goal::Met][..]));
    }

    /// Returns the file that the only row is quoted from.
    fn quoted(files: &[(String, String)]) -> Option<String> {
        let (runs, _) = runs(files);
        Some(newest(&runs).first()?.rows[0].1.file.clone())
    }

    #[test]
    fn the_newest_run_counts() {
        let older = second("a/2026-11-23-all.json", "2026-11-23T10:00:00Z", |_| {});
        let newer = second("a/2026-11-23-all-2.json", "2026-11-23T12:00:00Z", |_| {});
        let old = first("a/first-edition/2026-11-24.json", "c0ffee", 30.0);
        let files = [newer.clone(), older, old.clone()];
        assert_eq!(quoted(&files).as_deref(), Some("a/2026-11-23-all-2.json"));
        let channels = first("a/first-edition/2026-11-24-channels.json", "c0ffee", 30.0);
        let files = [channels, old];
        assert_eq!(quoted(&files).as_deref(), Some("a/first-edition/2026-11-24-channels.json"));
    }

    #[test]
    fn what_is_dirty_short_or_of_another_profile_does_not_count() {
        let changes: [fn(&mut Value); 3] = [
            |value| value["header"]["clean"] = false.into(),
            |value| value["header"]["rounds"] = 5.into(),
            |value| value["header"]["profile"] = "fat".into(),
        ];
        for change in changes {
            assert_eq!(quoted(&[second("a/x.json", "1", change)]), None);
        }
        assert_eq!(quoted(&[first("a/first-edition/x.json", "c0ffee-dirty", 1.0)]), None);
        let (_, problems) = runs(&[second("a/x.json", "1", changes[0])]);
        assert!(problems[0].contains("a/x.json"), "{problems:?}");
    }
}
