//! Wins and losses, as Markdown.

use super::read::{Goal, Peer, Processor, Row};
use std::collections::BTreeSet;
use std::fmt::Write;

/// ecru's standing against the best peer of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Every peer is behind over the whole range.
    Ahead,
    /// A peer is ahead over the whole range.
    Behind,
    /// The range includes 1.
    Even,
}

/// Returns the lists of all processors.
pub(super) fn of(processors: &[Processor<'_>], headline: &str) -> String {
    let headline: Vec<_> =
        headline.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let lists: Vec<_> = processors.iter().map(|one| of_one(one, &headline)).collect();
    lists.join("\n")
}

fn of_one(processor: &Processor<'_>, headline: &[&str]) -> String {
    let with = |wanted: Standing| {
        let rows = processor.rows.iter();
        rows.filter(move |(row, _)| standing(row) == Some(wanted))
    };
    let ahead: Vec<_> = with(Standing::Ahead).collect();
    let shown: Vec<_> = headline
        .iter()
        .flat_map(|name| ahead.iter().filter(move |(row, _)| row.name == *name))
        .collect();
    // If no usual row is among the rows of a run, all its rows are shown.
    let (shown, which) = match (shown.len(), ahead.len()) {
        (0, _) => (ahead.iter().collect(), "all of them"),
        (some, all) if some == all => (shown, "all of them"),
        _ => (shown, "of which these"),
    };
    let mut text = format!(
        "### {}\n\nFrom {}; [all results](bench/results/{}/).\n\n**Ahead of every peer** in {}, {which}:\n\n",
        processor.newest.machine,
        sources(processor),
        processor.folder,
        ahead.len()
    );
    for (row, _) in shown {
        text.push_str(&line(row, row.peers.iter().take(3)));
    }
    let behind: Vec<_> = with(Standing::Behind).collect();
    write!(text, "\n**Behind a peer** in {}, all of them:\n\n", behind.len())
        .expect("a string takes it");
    for (row, _) in behind {
        text.push_str(&line(row, row.peers.iter().filter(|peer| peer.high < 1.0)));
    }
    text.push('\n');
    text.push_str(&undecided(processor));
    text
}

/// Returns the rows that are neither, and the state of the goals.
fn undecided(processor: &Processor<'_>) -> String {
    let names = |wanted: &dyn Fn(&Row) -> bool| {
        let rows = processor.rows.iter().filter(|(row, _)| wanted(row));
        let mut names: Vec<_> = rows.map(|(row, _)| format!("`{}`", row.name)).collect();
        // A row has an entry for each metric.
        names.dedup();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let even = names(&|row| standing(row) == Some(Standing::Even));
    let missed =
        names(&|row| standing(row) == Some(Standing::Ahead) && row.goals.contains(&Goal::Missed));
    let goals = processor.rows.iter().flat_map(|(row, _)| &row.goals);
    let count = |wanted: Goal| goals.clone().filter(|goal| **goal == wanted).count();
    format!(
        "Neither, because the rounds disagree: {even}. Goals: {} met, {} missed, {} undecided. \
         Missed although ahead: {missed}.\n",
        count(Goal::Met),
        count(Goal::Missed),
        count(Goal::Undecided),
    )
}

/// Compares ecru with the best peer. Returns `None` if there is no peer.
fn standing(row: &Row) -> Option<Standing> {
    let least = |end: fn(&Peer) -> f64| row.peers.iter().map(end).reduce(f64::min);
    Some(if least(|peer| peer.high)? < 1.0 {
        Standing::Behind
    } else if least(|peer| peer.low)? > 1.0 {
        Standing::Ahead
    } else {
        Standing::Even
    })
}

/// Returns links to the pages of the results that the rows are from.
fn sources(processor: &Processor<'_>) -> String {
    let pages: BTreeSet<_> =
        processor.rows.iter().map(|(_, run)| (&*run.file, run.first_edition)).collect();
    let link = |(file, first_edition): (&str, bool)| {
        let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".json");
        let edition = if first_edition { " (first edition, five rounds)" } else { "" };
        format!("[{name}](bench/results/{}){edition}", file.replace(".json", ".md"))
    };
    pages.into_iter().map(link).collect::<Vec<_>>().join(", ")
}

/// Returns the row's title, with the metric unless it is plain time, ecru's cost, and that of these
/// peers.
fn line<'a>(row: &Row, peers: impl Iterator<Item = &'a Peer>) -> String {
    let metric = if row.metric == "time" { String::new() } else { format!(", {}", row.metric) };
    let title = row.title.split(": ").next().unwrap_or_default();
    let peers: Vec<_> =
        peers.map(|peer| format!("{} {} x", peer.name, short(peer.median))).collect();
    format!("- {title}{metric}: {}; {}\n", own(row), peers.join(", "))
}

fn own(row: &Row) -> String {
    let value = short(row.own);
    match &*row.unit {
        "ns" if row.own >= 1e6 => format!("{} ms", short(row.own / 1e6)),
        "ns" if row.own >= 1e3 => format!("{} µs", short(row.own / 1e3)),
        "" => value,
        unit => format!("{value} {unit}"),
    }
}

/// Formats with two significant digits, or with all digits before the point.
fn short(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 10.0 => 0,
        middle if middle >= 1.0 => 1,
        small if small >= 0.01 => 2,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::second;
    use super::super::read::{newest, runs};
    use super::*;

    /// Returns the lists of a file whose only peer has this range.
    fn lists(low: f64, median: f64, high: f64, verdict: &str) -> String {
        let file = second("amd-epyc/2026-11-23-all.json", "1", |value| {
            let row = &mut value["rows"][0];
            row["goals"][0]["verdict"] = verdict.into();
            let range = &mut row["contenders"][1]["summary"][0]["times_ecru"];
            *range = serde_json::json!({ "low": low, "median": median, "high": high });
        });
        let (runs, _) = runs(&[file]);
        of(&newest(&runs), "# a comment\nyield\n")
    }

    #[test]
    fn a_range_above_one_is_a_win_and_one_below_a_loss() {
        let win = lists(1.1, 4.0, 4.5, "met");
        let source = "From [2026-11-23-all](bench/results/amd-epyc/2026-11-23-all.md);";
        let line = "- yield between two tasks: 10 ns; may 4.0 x\n";
        assert!(win.contains(source), "{win}");
        assert!(win.contains("every peer** in 1, all") && win.contains(line), "{win}");
        assert!(win.contains("peer** in 0, all") && win.contains("1 met, 0 missed"), "{win}");
        let loss = lists(0.5, 0.8, 0.9, "missed");
        assert!(loss.contains("peer** in 1, all") && loss.contains("10 ns; may 0.80 x"), "{loss}");
        assert!(loss.contains("every peer** in 0, all"), "{loss}");
    }

    #[test]
    fn what_crosses_one_is_neither_and_a_missed_goal_is_named() {
        let even = lists(0.9, 1.2, 1.3, "undecided");
        assert!(even.contains("disagree: `yield`.") && even.contains("1 undecided"), "{even}");
        let missed = lists(1.1, 1.2, 1.3, "missed");
        assert!(missed.contains("although ahead: `yield`."), "{missed}");
    }
}
