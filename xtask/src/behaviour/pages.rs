//! The pages under doc/behaviour/: what is written by hand, and the table after the mark.

use super::rows::Row;

/// The table follows this line, and ends with its last row. `cargo xtask behaviour --write` writes
/// it.
pub(super) const MARK: &str =
    "<!-- rows: written by `cargo xtask behaviour --write` from the doc comments of the tests -->";

const HEADING: &str = "| id | given | when | then |\n|---|---|---|---|\n";

/// Returns the page with a table of these rows, or `None` if it has no mark.
pub(super) fn with_table<'a>(page: &str, rows: impl Iterator<Item = &'a Row>) -> Option<String> {
    let (before, rest) = page.split_once(MARK)?;
    let rest = rest.trim_start_matches('\n');
    let old: usize =
        rest.split_inclusive('\n').take_while(|l| l.starts_with('|')).map(str::len).sum();
    let mut text = format!("{before}{MARK}\n\n{HEADING}");
    for Row { id, cells } in rows {
        text.push_str(&format!("| `{id}` |"));
        for cell in cells {
            text.push_str(&format!(" {} |", cell.replace('|', "\\|")));
        }
        text.push('\n');
    }
    text.push_str(&rest[old..]);
    Some(text)
}
