//! Files' names, from URLs: the last segment of the path, made harmless, and told apart where two are the same.

use std::collections::HashSet;

use ureq::http::Uri;

/// File systems take 255 bytes; `.part.about` and a number need some of them.
const NAME_MAX: usize = 200;

/// The name for a URL that ends in `/`.
const NAMELESS: &str = "index.html";

/// A name for each URL. The first of several with one name keeps it, the others are numbered in the order of the list, so the
/// same list gives the same names again and parts are found.
pub(crate) fn assign<'a>(urls: impl IntoIterator<Item = &'a Uri>) -> Vec<String> {
    let wanted: Vec<String> = urls.into_iter().map(wanted).collect();
    let mut taken: HashSet<String> = HashSet::new();
    // A name that somebody has of his own is not given to a namesake's second.
    let own: HashSet<&String> = wanted.iter().collect();
    let mut names = Vec::with_capacity(wanted.len());
    for name in &wanted {
        let mut chosen = name.clone();
        let mut number = 2;
        while taken.contains(&chosen) || (number > 2 && own.contains(&chosen)) {
            chosen = numbered(name, number);
            number += 1;
        }
        taken.insert(chosen.clone());
        names.push(chosen);
    }
    names
}

fn numbered(name: &str, number: usize) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem}-{number}.{extension}"),
        _ => format!("{name}-{number}"),
    }
}

fn wanted(url: &Uri) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let plain = unescape(last);
    let mut name: String = plain
        .chars()
        .map(|c| if c.is_control() || matches!(c, '/' | '\\' | '\u{fffd}') { '_' } else { c })
        .collect();
    while name.len() > NAME_MAX {
        name.pop();
    }
    // Neither the folder itself, nor one above, nor hidden, nor one of our own beside another file.
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    if name.ends_with(".part") || name.ends_with(".part.about") {
        name.push('_');
    }
    if name.trim().is_empty() { NAMELESS.to_string() } else { name }
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(urls: &[&str]) -> Vec<String> {
        let urls: Vec<Uri> = urls.iter().map(|url| url.parse().unwrap()).collect();
        assign(&urls)
    }

    /// The last segment, unescaped, without the query.
    #[test]
    fn plain_names() {
        assert_eq!(names(&["http://h/a/b.tar.gz?x=1"]), ["b.tar.gz"]);
        assert_eq!(names(&["http://h/a%20b.txt"]), ["a b.txt"]);
        assert_eq!(names(&["http://h/a/"]), [NAMELESS]);
        assert_eq!(names(&["http://h"]), [NAMELESS]);
    }

    /// No name leaves the folder, hides, or passes for one of our own files.
    #[test]
    fn harmless_names() {
        assert_eq!(names(&["http://h/..%2F..%2Fetc%2Fpasswd"]), ["_._.._etc_passwd"]);
        assert_eq!(names(&["http://h/.."]), ["_."]);
        assert_eq!(names(&["http://h/%00%0a"]), ["__"]);
        assert_eq!(names(&["http://h/x.part"]), ["x.part_"]);
        assert_eq!(names(&[&format!("http://h/{}", "n".repeat(300))])[0].len(), NAME_MAX);
    }

    /// Namesakes are numbered, and never onto a name that another URL has of its own.
    #[test]
    fn namesakes() {
        assert_eq!(
            names(&["http://a/x.bin", "http://b/x.bin", "http://c/x.bin"]),
            ["x.bin", "x-2.bin", "x-3.bin"]
        );
        assert_eq!(
            names(&["http://a/x.bin", "http://b/x.bin", "http://c/x-2.bin"]),
            ["x.bin", "x-3.bin", "x-2.bin"]
        );
        assert_eq!(names(&["http://a/x", "http://b/x"]), ["x", "x-2"]);
    }
}
