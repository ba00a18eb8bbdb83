//! The list of URLs: from the command line and from files, each checked before anything starts.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use ureq::http::Uri;

/// So many wrong URLs are named; the rest is counted.
const NAMED_MAX: usize = 10;

/// All URLs in order, each once.
pub(crate) fn gather(given: &[String], files: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Uri>> {
    let mut lines: Vec<(String, String)> =
        given.iter().map(|url| ("command line".into(), url.clone())).collect();
    for file in files {
        let file = file.as_ref();
        let text =
            read(file).with_context(|| format!("cannot read the list {}", file.display()))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                lines.push((format!("{}:{}", file.display(), number + 1), line.to_string()));
            }
        }
    }
    let mut urls = Vec::with_capacity(lines.len());
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    for (place, text) in lines {
        match check(&text) {
            Ok(url) if seen.insert(url.to_string()) => urls.push(url),
            Ok(_) => {}
            Err(why) => wrong.push(format!("{place}: `{text}` is no URL to download: {why}")),
        }
    }
    if !wrong.is_empty() {
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
    if urls.is_empty() {
        bail!("there is no URL in the list; write one a line");
    }
    Ok(urls)
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

fn check(text: &str) -> Result<Uri, String> {
    // A fragment is the reader's affair, and no part of what a server is asked.
    let asked = text.split_once('#').map_or(text, |(before, _)| before);
    // Asked first, because the parser's own words about it help nobody.
    match asked.split_once("://") {
        Some((scheme, _))
            if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {}
        Some((scheme, _)) => return Err(format!("`{scheme}` is neither http nor https")),
        None => return Err("http:// or https:// is missing at the front".into()),
    }
    let url: Uri = asked.parse().map_err(|error| format!("{error}"))?;
    let authority = url.authority().ok_or("it names no host")?;
    if authority.host().is_empty() {
        return Err("it names no host".into());
    }
    let after_host = authority.as_str().rsplit('@').next().unwrap_or_default();
    let bare = after_host.rsplit(']').next().unwrap_or_default();
    if bare.contains(':') && authority.port_u16().is_none() {
        return Err("its port is no number from 0 to 65535".into());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no URL is refused with the reason.
    #[test]
    fn no_urls() {
        for (text, why) in [
            ("example.org/x", "missing at the front"),
            ("x", "missing at the front"),
            ("ftp://h/x", "neither http nor https"),
            ("http:///x", ""),
            ("http://h:99999/x", "port"),
            ("http://h h/x", ""),
            ("", ""),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(check("https://[::1]:8080/x?y#z").is_ok());
        assert!(check("http://user@h/x").is_ok());
    }

    /// Doubles count once; all wrong ones are told together, each with its place.
    #[test]
    fn lists() {
        let none: &[&Path] = &[];
        let twice = ["http://h/x".to_string(), "http://h/x".to_string(), "http://h/y".to_string()];
        assert_eq!(gather(&twice, none).unwrap().len(), 2);
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
