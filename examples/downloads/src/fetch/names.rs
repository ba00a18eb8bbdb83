//! File names from URLs: the last segment of the path, made harmless, and numbered if several are
//! the same.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use ureq::http::Uri;

/// File systems allow 255 bytes; `.part.about` and a number need some of them.
const NAME_MAX: usize = 200;

/// The name for a URL that ends in `/`.
const NAMELESS: &str = "index.html";

/// Chooses a path below the folder for each URL: a name, with `directories` below the URL's host
/// and directories.
///
/// The first of several URLs with the same path keeps it, and the others are numbered in the order
/// of the list. The same list therefore gives the same paths again, and parts are found.
pub(crate) fn assign<'a>(
    urls: impl IntoIterator<Item = &'a Uri>,
    directories: bool,
) -> Vec<String> {
    let wanted: Vec<String> =
        urls.into_iter().map(|url| if directories { path(url) } else { last(url) }).collect();
    // A path that is another URL's own, or a directory of one, is not given to a numbered URL.
    let own: HashSet<&str> = wanted.iter().map(String::as_str).collect();
    let folders: HashSet<&str> = wanted.iter().flat_map(|path| folders(path)).collect();
    let mut taken: HashSet<String> = HashSet::with_capacity(wanted.len());
    // The next number for each name. Without it, thousands of equal names would each count from the
    // beginning.
    let mut next: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::with_capacity(wanted.len());
    for name in &wanted {
        let mut chosen = name.clone();
        if taken.contains(name) || folders.contains(name.as_str()) {
            let number = next.entry(name).or_insert(2);
            loop {
                chosen = numbered(name, *number);
                *number += 1;
                let free = |path: &str| {
                    !own.contains(path) && !folders.contains(path) && !taken.contains(path)
                };
                if free(&chosen) {
                    break;
                }
            }
        }
        taken.insert(chosen.clone());
        names.push(chosen);
    }
    names
}

/// Returns all proper prefixes of a path that end before a slash.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn numbered(name: &str, number: usize) -> String {
    let start = name.rfind('/').map_or(0, |at| at + 1);
    let (folder, last) = name.split_at(start);
    match last.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => {
            format!("{folder}{stem}-{number}.{extension}")
        }
        _ => format!("{name}-{number}"),
    }
}

/// `HOST/DIRECTORY/../NAME`.
fn path(url: &Uri) -> String {
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    let host = match url.port_u16() {
        Some(port) => format!("{host}_{port}"),
        None => host,
    };
    let mut path = harmless(&host);
    let (directories, _) = url.path().rsplit_once('/').unwrap_or_default();
    for segment in directories.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        path.push_str(&harmless(segment));
    }
    path.push('/');
    path.push_str(&last(url));
    path
}

fn last(url: &Uri) -> String {
    let name = harmless(url.path().rsplit('/').next().unwrap_or_default());
    if name.trim().is_empty() { NAMELESS.to_string() } else { name }
}

/// Makes one segment of a path harmless: it does not leave its folder, is not hidden, and is not
/// mistaken for a file of this program.
fn harmless(segment: &str) -> String {
    let plain = percent_decode_str(segment).decode_utf8_lossy();
    let mut name: String = plain
        .chars()
        .map(|c| if c.is_control() || matches!(c, '/' | '\\' | '\u{fffd}') { '_' } else { c })
        .collect();
    while name.len() > NAME_MAX {
        name.pop();
    }
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    if name.ends_with(".part") || name.ends_with(".part.about") {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(urls: &[&str]) -> Vec<String> {
        let urls: Vec<Uri> = urls.iter().map(|url| url.parse().unwrap()).collect();
        assign(&urls, false)
    }

    fn paths(urls: &[&str]) -> Vec<String> {
        let urls: Vec<Uri> = urls.iter().map(|url| url.parse().unwrap()).collect();
        assign(&urls, true)
    }

    /// The last segment, unescaped, without the query.
    #[test]
    fn plain_names() {
        assert_eq!(names(&["http://h/a/b.tar.gz?x=1"]), ["b.tar.gz"]);
        assert_eq!(names(&["http://h/a%20b.txt"]), ["a b.txt"]);
        assert_eq!(names(&["http://h/a/"]), [NAMELESS]);
        assert_eq!(names(&["http://h"]), [NAMELESS]);
    }

    /// No name leaves the folder, is hidden, or is mistaken for a file of this program.
    #[test]
    fn harmless_names() {
        assert_eq!(names(&["http://h/..%2F..%2Fetc%2Fpasswd"]), ["_._.._etc_passwd"]);
        assert_eq!(names(&["http://h/.."]), ["_."]);
        assert_eq!(names(&["http://h/%00%0a"]), ["__"]);
        assert_eq!(names(&["http://h/x.part"]), ["x.part_"]);
        assert_eq!(names(&[&format!("http://h/{}", "n".repeat(300))])[0].len(), NAME_MAX);
    }

    /// Equal names are numbered, and never get a name that another URL has of its own.
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

    /// Hosts and directories become folders with harmless names, and no file takes a folder's
    /// place.
    #[test]
    fn directories() {
        assert_eq!(
            paths(&[
                "http://H/a/b.bin",
                "https://h:81/a//b.bin?x",
                "http://h/",
                "http://[::1]:8/x"
            ]),
            ["h/a/b.bin", "h_81/a/b.bin", "h/index.html", "[::1]_8/x"]
        );
        assert_eq!(paths(&["http://h/%2e%2e/..%2Fx/y.part/z"]), ["h/_./_._x/y.part_/z"]);
        assert_eq!(paths(&["http://h/a", "http://h/a/b"]), ["h/a-2", "h/a/b"]);
        assert_eq!(paths(&["http://h/a/x.y", "http://h/a/x.y?1"]), ["h/a/x.y", "h/a/x-2.y"]);
    }

    /// The work grows with the number of equal names, not with its square. The last number shows
    /// that all were numbered.
    #[test]
    fn many_namesakes() {
        let urls: Vec<Uri> =
            (0..20_000).map(|n| format!("http://h/image.jpg?{n}").parse().unwrap()).collect();
        let names = assign(&urls, false);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 20_000);
        assert_eq!(names.last().unwrap(), "image-20000.jpg");
    }
}
