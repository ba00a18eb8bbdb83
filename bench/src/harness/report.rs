//! The printed report: verdicts first, then ratios, then absolute values.

use std::fmt::{self, Write};

use super::header::Header;
use super::range::Range;
use super::result::{ContenderResult, Results, RowResult};

/// Returns the whole report as a page of Markdown.
pub(crate) fn page(results: &Results) -> String {
    let mut page = head(&results.header);
    if !results.complete {
        page.push_str("\nThis run is not complete.\n");
    }
    for row in &results.rows {
        page.push('\n');
        page.push_str(&section(row));
    }
    page
}

/// Returns the part above the rows.
pub(crate) fn head(header: &Header) -> String {
    let mut head = String::from("# ecru-bench\n\n");
    for (name, value) in header.fields() {
        writeln!(head, "- {name}: {value}").expect("a string takes it");
    }
    head.push_str(
        "\nEvery metric is a cost: less is better. A ratio is the median over the rounds of this run, \
         with the range in parentheses that holds it with a probability of 96% (the second to the \
         eighth of nine). A goal is met or missed if that whole range is, and undecided otherwise.\n",
    );
    head
}

/// Returns one row as a section.
pub(crate) fn section(row: &RowResult) -> String {
    let mut section = String::new();
    write_section(&mut section, row).expect("a string takes it");
    section
}

fn write_section(page: &mut String, row: &RowResult) -> fmt::Result {
    writeln!(page, "## {}: {}\n", row.name, row.title)?;
    for goal in &row.goals {
        writeln!(page, "- {goal}")?;
    }
    writeln!(page, "- {}", row.note)?;
    let signs = row.disturbances.iter().map(|(sign, count)| format!("{sign} {count}"));
    let signs = signs.collect::<Vec<_>>().join(", ");
    let signs = if signs.is_empty() { signs } else { format!(" ({signs})") };
    writeln!(
        page,
        "- rounds repeated: {}; disturbed rounds that count: {}{signs}; rounds on slower cores: {}\n",
        row.repeated, row.kept_disturbed, row.slow
    )?;
    write!(page, "| contender |")?;
    for metric in &row.metrics {
        let name = &metric.name;
        write!(page, " {name} x ecru | min, max | {name}: min | median | max |")?;
    }
    writeln!(page, " note |")?;
    writeln!(page, "|---|{}---|", "---:|---:|---:|---:|---:|".repeat(row.metrics.len()))?;
    for contender in &row.contenders {
        write!(page, "| {} |", contender.name)?;
        for (metric, described) in row.metrics.iter().enumerate() {
            cells(page, contender, metric, &described.unit)?;
        }
        let failure = contender.failure.as_deref().map(|reason| format!("**{reason}** "));
        let note = contender.note.as_deref().unwrap_or_default();
        writeln!(page, " {}{note} |", failure.unwrap_or_default())?;
    }
    Ok(())
}

/// Writes the cells of one metric: the ratio with its range and its ends, then the values.
fn cells(page: &mut String, contender: &ContenderResult, metric: usize, unit: &str) -> fmt::Result {
    let Some(summary) = contender.summary.get(metric).copied().flatten() else {
        return write!(page, " - | - | - | - | - |");
    };
    match summary.times_ecru {
        Some(Range { min, low, median, high, max, .. }) => {
            let [min, low, median, high, max] = [min, low, median, high, max].map(short);
            write!(page, " {median} ({low} to {high}) | {min}, {max} |")?;
        }
        None => write!(page, " - | - |")?,
    }
    let Range { min, median, max, .. } = summary.value;
    for value in [min, median, max] {
        write!(page, " {} |", with_unit(value, unit))?;
    }
    Ok(())
}

/// Returns a number with three significant digits.
pub(crate) fn short(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 100.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else if magnitude >= 0.01 {
        3
    } else {
        6
    };
    format!("{value:.decimals$}")
}

/// Returns a number with its unit. Large numbers of nanoseconds get a larger unit.
fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value.abs() >= 1e7 => format!("{} ms", short(value / 1e6)),
        "ns" if value.abs() >= 1e5 => format!("{} us", short(value / 1e3)),
        _ => format!("{} {unit}", short(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Metric;
    use crate::harness::row::{Contender, Row};

    #[test]
    fn long_times_are_in_larger_units() {
        let shown = [84.2, 15_377.0, 129_052.0, 23_755_652.0].map(|n| with_unit(n, "ns"));
        assert_eq!(shown, ["84.2 ns", "15377 ns", "129 us", "23.8 ms"]);
        assert_eq!(with_unit(5e7, "bytes"), "50000000 bytes");
    }

    #[test]
    fn a_section_shows_ratio_range_and_what_was_repeated() {
        let contenders = ["ecru", "peer"].map(|name| Contender::timed(name, || 0.0)).into();
        let mut row = RowResult::new(&Row {
            family: "test",
            number: Some(2),
            title: "a title".into(),
            cores: 1,
            metrics: &[Metric::TIME],
            contenders,
            note: "a note",
        });
        row.repeated = 3;
        row.disturbances.insert("steal".into(), 3);
        for round in 1..=9 {
            row.contenders[0].rounds.push(Some(vec![10.0]));
            row.contenders[1].rounds.push(Some(vec![10.0 * f64::from(round)]));
        }
        row.summarise("ecru");
        let section = section(&row);
        assert!(section.starts_with("## test-2: a title\n"), "{section}");
        assert!(section.contains("rounds repeated: 3;"), "{section}");
        assert!(section.contains("(steal 3)"), "{section}");
        let cells = "| peer | 5.00 (2.00 to 8.00) | 1.00, 9.00 | 10.0 ns | 50.0 ns | 90.0 ns |";
        assert!(section.contains(cells), "{section}");
    }
}
