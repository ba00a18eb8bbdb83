//! Markdown tables that the checks read.

/// Returns the rows of every table in `text` with exactly this heading, each row with its line
/// number.
pub(crate) fn rows<'a>(text: &'a str, heading: &[&str]) -> Vec<(usize, Vec<&'a str>)> {
    let mut rows = vec![];
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells = cells(line);
        if cells.is_empty() {
            inside = false;
        } else if cells == heading {
            inside = true;
        } else if inside && !cells.iter().all(|c| c.chars().all(|c| c == '-' || c == ':')) {
            rows.push((index + 1, cells));
        }
    }
    rows
}

/// Returns the words of a cell that are set as code.
pub(crate) fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim().strip_prefix('|') else { return vec![] };
    inner.strip_suffix('|').unwrap_or(inner).split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::{code, rows};

    #[test]
    fn only_the_table_with_that_heading_is_read() {
        let text = "| a | b |\n|---|:-:|\n| 1 | `x`, `y z` |\n\n| c | d |\n|---|---|\n| 2 | 3 |\n";
        assert_eq!(rows(text, &["a", "b"]), [(3, vec!["1", "`x`, `y z`"])]);
        assert_eq!(code("`x`, `y z` (w)").collect::<Vec<_>>(), ["x", "y z"]);
        assert!(rows(text, &["a", "d"]).is_empty());
    }
}
