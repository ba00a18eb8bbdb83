//! The list of URLs: from the command line and from files, each checked before anything starts.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::address::{Address, without_credentials};
use crate::progress::write_line;
use crate::{json, report};

/// The number of wrong arguments that are named. The others are only counted.
const NAMED_MAX: usize = 10;

/// Everything to download.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// All URLs in order, each once.
    pub(crate) addresses: Vec<Address>,
    /// The lines of lists that are not URLs.
    pub(crate) bad: Vec<BadLine>,
}

/// A line of a list that is not a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// `FILE:LINE`.
    pub(crate) place: String,
    pub(crate) why: String,
}

/// Reads all URLs.
///
/// # Errors
/// Returns an error for a wrong URL on the command line, for a list that cannot be read, and if the
/// lists have no lines. A wrong line of a list is no error: it is returned beside the URLs.
pub(crate) fn gather(given: &[String], files: &[impl AsRef<Path>]) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for text in given {
        if let Err(why) = sources.add(text, &mut seen) {
            wrong.push(format!("command line: {why}"));
        }
    }
    refuse(wrong)?;
    for file in files {
        let file = file.as_ref();
        let text =
            read(file).with_context(|| format!("cannot read the list {}", file.display()))?;
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let added = match std::str::from_utf8(line).map(str::trim) {
                Ok(line) if line.is_empty() || line.starts_with('#') => Ok(()),
                Ok(line) => sources.add(line, &mut seen),
                Err(_) => Err("the line is not UTF-8".to_string()),
            };
            if let Err(why) = added {
                let place = format!("{}:{}", file.display(), number + 1);
                sources.bad.push(BadLine { place, why });
            }
        }
    }
    if sources.addresses.is_empty() && sources.bad.is_empty() {
        bail!("the list contains no URL; write one per line");
    }
    Ok(sources)
}

impl Sources {
    fn add(&mut self, text: &str, seen: &mut HashSet<String>) -> Result<(), String> {
        let address = Address::parse(text)
            .map_err(|why| format!("`{}` is not a URL: {why}", without_credentials(text)))?;
        if seen.insert(address.uri.to_string()) {
            self.addresses.push(address);
        }
        Ok(())
    }
}

/// Reports the lines that are not URLs.
pub(crate) fn tell(bad: &[BadLine], as_json: bool) {
    for line in bad {
        write_line(&report::bad_line(line));
        if as_json {
            json::print(&json::bad_line(line));
        }
    }
}

fn refuse(mut wrong: Vec<String>) -> anyhow::Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    let more = wrong.len().saturating_sub(NAMED_MAX);
    wrong.truncate(NAMED_MAX);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    bail!(
        "{}\nnothing was started; write URLs such as https://example.org/file.bin",
        wrong.join("\n")
    );
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Duplicates count once. All wrong arguments are named together.
    #[test]
    fn arguments() {
        let none: &[&Path] = &[];
        let twice = ["http://h/x".to_string(), "http://h/x".to_string(), "http://h/y".to_string()];
        assert_eq!(gather(&twice, none).unwrap().addresses.len(), 2);
        let error = gather(&["a".into(), "b".into()], none).unwrap_err().to_string();
        assert!(
            error.contains("`a`") && error.contains("`b`") && error.contains("nothing was started"),
            "{error}"
        );
        assert!(
            gather(&[], &[Path::new("/nowhere/list")])
                .unwrap_err()
                .to_string()
                .contains("/nowhere/list")
        );
    }
}
