//! The table of results, as Markdown.

use super::read::{Goal, Peer, Processor, Row, Run};
use std::collections::BTreeMap;
use std::fmt::Write;

/// ecru's standing among the peers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Every peer is behind over the whole range.
    Ahead,
    /// A peer is ahead over the whole range.
    Behind,
    Undecided,
}

/// One metric of one row, on every processor.
#[derive(Clone)]
pub(super) struct Line<'a> {
    pub(super) name: String,
    pub(super) in_readme: bool,
    /// In the order of the processors.
    pub(super) results: Vec<Option<(&'a Row, &'a Run)>>,
}

impl Line<'_> {
    /// Returns the best peer's ratio on the processor where it is least.
    fn worst(&self) -> f64 {
        let peers = self.results.iter().flatten().filter_map(|(row, _)| best(row));
        peers.map(|peer| peer.median).fold(f64::INFINITY, f64::min)
    }
}

/// Returns the lines, those in which ecru is furthest behind first. `names` has lines of the form
/// `row = name` or `row metric = name`, with a `*` before the `=` if the README has the line, too.
pub(super) fn lines<'a>(
    processors: &[Processor<'a>],
    names: &str,
) -> Result<Vec<Line<'a>>, String> {
    let names: BTreeMap<&str, (&str, bool)> = names
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(row, name)| (row.trim_end_matches(" *"), (name, row.ends_with('*'))))
        .collect();
    let mut lines: Vec<Line<'_>> = vec![];
    for (place, processor) in processors.iter().enumerate() {
        for &(row, run) in &processor.rows {
            let whole = names.get(&*format!("{} {}", row.name, row.metric));
            let (name, in_readme) = *whole.or_else(|| names.get(&*row.name)).ok_or_else(|| {
                format!("bench/row-names.txt: there is no name for `{}`", row.name)
            })?;
            let name = match &*row.metric {
                "time" => name.to_owned(),
                _ if whole.is_some() => name.to_owned(),
                metric => format!("{name}, {metric}"),
            };
            let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
                lines.push(Line { name, in_readme, results: vec![None; processors.len()] });
                lines.len() - 1
            });
            lines[at].results[place] = Some((row, run));
        }
    }
    lines.sort_by(|a, b| a.worst().total_cmp(&b.worst()).then_with(|| a.name.cmp(&b.name)));
    Ok(lines)
}

/// Returns the table. With `links`, ecru's numbers are links to the results.
pub(super) fn table(processors: &[Processor<'_>], lines: &[Line<'_>], links: bool) -> String {
    let heads = processors.iter().map(|one| format!(" {}: ecru | best peer |", name(one)));
    let dashes = "---:|---|".repeat(processors.len());
    let mut text = format!("| row |{}\n|---|{dashes}\n", heads.collect::<String>());
    for line in lines {
        let cells = line.results.iter().map(|result| match result {
            Some((row, run)) => format!(" {} | {} |", own(row, run, links), ratio(row)),
            None => " | |".to_owned(),
        });
        writeln!(text, "| {} |{}", line.name, cells.collect::<String>()).expect("it fits");
    }
    text
}

/// Returns a processor's short name.
pub(super) fn name(processor: &Processor<'_>) -> String {
    processor.newest.processor.replace("(R)", "").replace(" Processor", "")
}

/// Compares ecru with the best peer. Returns `None` if there is no peer.
pub(super) fn standing(row: &Row) -> Option<Standing> {
    let least = |end: fn(&Peer) -> f64| row.peers.iter().map(end).reduce(f64::min);
    Some(if least(|peer| peer.high)? < 1.0 {
        Standing::Behind
    } else if least(|peer| peer.low)? > 1.0 {
        Standing::Ahead
    } else {
        Standing::Undecided
    })
}

/// Returns the peer with the lowest cost. If a peer is ahead over the whole range, only such peers
/// count.
pub(super) fn best(row: &Row) -> Option<&Peer> {
    row.peers.iter().find(|peer| peer.high < 1.0).or(row.peers.first())
}

/// Returns a line for each processor that says in how many rows ecru is ahead.
pub(super) fn counts(processors: &[Processor<'_>]) -> String {
    let line = |processor: &Processor<'_>| {
        let rows = || processor.rows.iter().map(|(row, _)| row);
        let with = |wanted| rows().filter(|row| standing(row) == Some(wanted)).count();
        let goals = rows().flat_map(|row| row.goals.iter().copied());
        let goals = |wanted| goals.clone().filter(|goal| *goal == wanted).count();
        format!(
            "- {}, {}: ahead of every peer in {} rows, behind a peer in {}, undecided in {}. \
             Goals: {} met, {} missed, {} undecided.\n",
            name(processor),
            processor.newest.kernel,
            with(Standing::Ahead),
            with(Standing::Behind),
            with(Standing::Undecided),
            goals(Goal::Met),
            goals(Goal::Missed),
            goals(Goal::Undecided),
        )
    };
    processors.iter().map(line).collect()
}

/// Returns ecru's cost, with a mark if it comes from the first edition.
fn own(row: &Row, run: &Run, links: bool) -> String {
    let value = match &*row.unit {
        "ns" if row.own >= 1e6 => format!("{} ms", short(row.own / 1e6)),
        "ns" if row.own >= 1e3 => format!("{} µs", short(row.own / 1e3)),
        "s" if row.own < 1.0 => format!("{} ms", short(row.own * 1e3)),
        "bytes" if row.own >= 1e6 => format!("{} MB", short(row.own / 1e6)),
        "bytes" => format!("{} kB", short(row.own / 1e3)),
        "x the least" => format!("{:.3} x", row.own),
        "" => short(row.own),
        unit => format!("{} {unit}", short(row.own)),
    };
    let mark = if run.first_edition { "°" } else { "" };
    let page = run.file.replace(".json", ".md");
    if links { format!("[{value}](results/{page}){mark}") } else { format!("{value}{mark}") }
}

/// Returns the best peer with its ratio, and whether a goal is missed.
fn ratio(row: &Row) -> String {
    let missed = if row.goals.contains(&Goal::Missed) { " ✗" } else { "" };
    let Some(peer) = best(row) else { return format!("none{missed}") };
    let bold = if standing(row) == Some(Standing::Behind) { "**" } else { "" };
    let [low, median, high] = [peer.low, peer.median, peer.high].map(short);
    format!("{bold}{} {median}{bold} ({low}–{high}){missed}", peer.name)
}

/// Formats with two significant digits, or with all digits before the point.
pub(super) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 10.0 => 0,
        middle if middle >= 1.0 => 1,
        small if small >= 0.1 => 2,
        small if small > 0.0 => 3,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::second;
    use super::super::read::{newest, runs};
    use super::*;

    /// Returns the table of a file whose only peer has this range.
    fn of(low: f64, median: f64, high: f64, verdict: &str) -> String {
        let file = second("amd-epyc/all.json", "1", |value| {
            let row = &mut value["rows"][0];
            row["goals"][0]["verdict"] = verdict.into();
            let range = &mut row["contenders"][1]["summary"][0]["times_ecru"];
            *range = serde_json::json!({ "low": low, "median": median, "high": high });
        });
        let (runs, _) = runs(&[file]);
        let processors = newest(&runs);
        assert!(lines(&processors, "x = y").is_err_and(|problem| problem.contains("`yield`")));
        let lines = lines(&processors, "# why\nyield time * = yield, 2 tasks\n").unwrap();
        counts(&processors) + "\n" + &table(&processors, &lines, true)
    }

    #[test]
    fn a_range_decides_only_if_it_excludes_one() {
        let win = of(1.1, 4.0, 4.5, "met");
        let line = "\n| yield, 2 tasks | [10 ns](results/amd-epyc/all.md) | may 4.0 (1.1–4.5) |\n";
        assert!(win.contains(line) && win.contains("in 1 rows, behind a peer in 0"), "{win}");
        let loss = of(0.5, 0.8, 0.9, "missed");
        assert!(loss.contains(" **may 0.80** (0.50–0.90) ✗ |"), "{loss}");
        assert!(loss.contains("peer in 1, undecided in 0. Goals: 0 met, 1 missed"), "{loss}");
        let even = of(0.9, 1.2, 1.3, "undecided");
        assert!(even.contains("undecided in 1. Goals: 0 met, 0 missed, 1 undecided"), "{even}");
    }

    #[test]
    fn the_furthest_behind_comes_first() {
        let slow = second("a/x.json", "1", |value| {
            value["rows"][0]["name"] = "slow".into();
            let range = &mut value["rows"][0]["contenders"][1]["summary"][0]["times_ecru"];
            *range = serde_json::json!({ "low": 0.1, "median": 0.2, "high": 0.3 });
        });
        let (runs, _) = runs(&[second("b/x.json", "1", |_| {}), slow]);
        let processors = newest(&runs);
        let lines = lines(&processors, "yield = fast row\nslow * = slow row").unwrap();
        let names: Vec<_> = lines.iter().map(|line| (&*line.name, line.in_readme)).collect();
        assert_eq!(names, [("slow row", true), ("fast row", false)]);
        assert!(lines[0].results[1].is_none() && lines[1].results[1].is_some());
    }
}
