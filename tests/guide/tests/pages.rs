//! What a page of the guide must be, beside having programs that run: none is missing, no program
//! is too long, and each link leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LONGEST: usize = 40;
const COLUMNS: usize = 100;

fn doc() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages that `src/lib.rs` makes doctests of, by their paths below `doc`.
fn tested() -> BTreeSet<String> {
    let lib = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let quoted = lib.split(" = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    quoted.filter(|path| path.ends_with(".md") || path.ends_with(".txt")).collect()
}

/// All pages of the guide, and the front page, by their paths below `doc`.
fn pages() -> BTreeSet<String> {
    let folder = fs::read_dir(doc().join("guide/src")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md"));
    pages.map(|name| format!("guide/src/{name}")).chain(tested()).collect()
}

/// The lines of a page, each with the words after the fence of the code block that it belongs to, or
/// `None` for text.
fn lines(page: &str) -> Vec<(Option<String>, String)> {
    let mut fence: Option<String> = None;
    let mut lines = Vec::new();
    for line in read(&doc().join(page)).lines() {
        match (&fence, line.strip_prefix("```")) {
            (None, Some(words)) => fence = Some(words.to_owned()),
            (Some(_), Some(_)) => {
                lines.push((fence.take(), "```".to_owned()));
            }
            _ => lines.push((fence.clone(), line.to_owned())),
        }
    }
    assert_eq!(fence, None, "{page}: the last code block has no end");
    lines
}

#[test]
fn no_chapter_is_left_out() {
    let summary = read(&doc().join("guide/src/SUMMARY.md"));
    let listed: Vec<&str> =
        summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    for page in pages().iter().filter_map(|page| page.strip_prefix("guide/src/")) {
        assert!(page == "SUMMARY.md" || listed.contains(&page), "SUMMARY.md lacks {page}");
    }
    for chapter in listed.iter().filter(|page| **page != "README.md") {
        assert!(tested().contains(&format!("guide/src/{chapter}")), "src/lib.rs lacks {chapter}");
    }
}

#[test]
fn programs_are_short_and_all_are_compiled() {
    let mut programs = 0;
    for page in pages() {
        let mut length = 0;
        for (number, (fence, line)) in lines(&page).into_iter().enumerate() {
            let is_program = |words: &String| {
                ["rust", "go", "java"].iter().any(|language| words.starts_with(language))
            };
            let Some(words) = fence.filter(is_program) else { continue };
            assert!(!words.contains("ignore"), "{page}: a program is not compiled: {words}");
            length += 1;
            if line == "```" {
                assert!(
                    length <= LONGEST + 1,
                    "{page}, before line {number}: {} lines",
                    length - 1
                );
                (length, programs) = (0, programs + 1);
            }
        }
    }
    assert!(programs > 0);
}

#[test]
fn lines_fit() {
    for page in pages() {
        for (fence, line) in lines(&page).iter().filter(|(_, line)| !line.starts_with('|')) {
            // What a program prints is shown as it is.
            if fence.as_deref() == Some("text") {
                continue;
            }
            let is_link = line.starts_with('[') && line.contains("]: ");
            assert!(is_link || line.chars().count() <= COLUMNS, "{page}: a long line: {line}");
        }
    }
}

/// The name by which a link names a heading, as mdBook and the hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text: String = lines(&page)
            .into_iter()
            .filter(|(fence, _)| fence.is_none())
            .map(|(_, l)| l + "\n")
            .collect();
        let inline = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let listed = text
            .lines()
            .filter(|line| line.starts_with('['))
            .filter_map(|line| line.split("]: ").nth(1));
        for link in inline.chain(listed).filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let here = doc().join(&page);
            let target = if path.is_empty() { here } else { here.parent().unwrap().join(path) };
            assert!(target.exists(), "{page}: {link} leads nowhere");
            if !heading.is_empty() {
                let headings = read(&target);
                let mut headings = headings.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| anchor(line.trim_start_matches('#')) == heading);
                assert!(is_there, "{page}: {link} names no heading");
            }
            links += 1;
        }
    }
    assert!(links > 0);
}

/// A function as it is written at the start of a line, without its documentation.
fn function<'t>(text: &'t str, name: &str) -> &'t str {
    let begin = text.find(&format!("\nfn {name}(")).unwrap_or_else(|| panic!("there is no {name}"));
    let end = text[begin..].find("\n}\n").unwrap();
    &text[begin..begin + end]
}

/// The functions that programs take from the library are those that the chapters show.
#[test]
fn shared_functions_are_those_of_the_chapters() {
    let sources = ["lib.rs", "service.rs"].map(|file| {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file))
            .replace("\npub fn", "\nfn")
    });
    let chapters = ["guide/src/01-ten-minutes.md", "guide/src/07-a-web-service.md"];
    let [first, service] = chapters.map(|page| read(&doc().join(page)));
    // The last router is that of the whole service.
    let service = &service[service.find("## Step 3").unwrap()..];
    for name in ["check", "site"] {
        assert_eq!(function(&sources[0], name), function(&first, name));
    }
    for name in ["router", "watch", "serve"] {
        assert_eq!(function(&sources[1], name), function(service, name));
    }
}
