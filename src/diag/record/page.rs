//! A story as a page for a browser, which loads nothing from anywhere.
//!
//! `page.html` has the program of the page, with a place for the story as JSON. Its lists are flat
//! lists of numbers, because a story may have a million stretches:
//!
//! | list | for each entry |
//! |---|---|
//! | `texts` | a text. Other lists name it by its index, or have -1 |
//! | `tasks` | number, name, place of the spawn, parent (an index in this list, or -1), host |
//! | `stretches` | worker, task (an index), begin, end, kind of stop, its text, its place, since when ready or -1, kind of cause, causing task or -1, causing worker |
//! | `notes` | time, worker, task or -1, kind, text |
//! | `hosts` | time, host, other host or -1, sort, number of bytes or -1, text |
//!
//! Times are in nanoseconds since the story's beginning.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use super::chrome::{note_text, then};
use super::story::{Cause, Place, Stop, Story, What};
use crate::base::hash::HashMap;
use crate::base::record::shown;
use crate::diag::json::text;

const PAGE: &str = include_str!("page.html");
/// The place of the story in the page.
const STORY: &str = "@STORY@";

/// Writes the page.
pub(super) fn write(story: &Story, out: &mut impl Write) -> io::Result<()> {
    let (head, foot) = PAGE.split_once(STORY).expect("the page has a place for the story");
    out.write_all(head.as_bytes())?;
    // In JSON, this character appears in strings only. Escaped, it cannot end the element.
    out.write_all(to_json(story).replace('<', "\\u003c").as_bytes())?;
    out.write_all(foot.as_bytes())
}

fn to_json(story: &Story) -> String {
    let mut texts = Texts::default();
    let indices: HashMap<u64, usize> =
        story.tasks.keys().enumerate().map(|(index, &task)| (task, index)).collect();
    let index = |task: u64| Index(indices.get(&task).copied());
    let place = |texts: &mut Texts, place: Option<Place>| match place {
        Some(place) => texts.index(place.to_string()),
        None => Index(None),
    };
    let mut out = format!(
        "{{\"version\":1,\"workers\":{},\"virtual\":{},\"span\":{}",
        story.workers,
        story.is_virtual,
        story.since_begin(story.end),
    );
    out.push_str(",\"tasks\":[");
    let mut list = List::begin(&mut out);
    for (&number, task) in &story.tasks {
        list.add(shown(number));
        list.add(task.name.as_ref().map_or(Index(None), |name| texts.index(name.clone())));
        list.add(place(&mut texts, task.spawned_at));
        list.add(task.parent.map_or(Index(None), index));
        list.add(task.host.as_ref().map_or(Index(None), |host| texts.index(host.clone())));
    }
    out.push_str("],\"stretches\":[");
    let mut list = List::begin(&mut out);
    for stretch in &story.stretches {
        let (kind, at) = match stretch.stop {
            Stop::Waits { at, .. } => (0, at),
            Stop::Yields => (1, None),
            Stop::Lends => (2, None),
            Stop::Ends => (3, None),
            Stop::Runs => (4, None),
        };
        list.add(stretch.worker);
        list.add(index(stretch.task));
        list.add(story.since_begin(stretch.begin));
        list.add(story.since_begin(stretch.end));
        list.add(kind);
        list.add(texts.index(then(story, &stretch.stop)));
        list.add(place(&mut texts, at));
        let Some(ready) = &stretch.ready else {
            ["-1", "0", "-1", "-1"].into_iter().for_each(|none| list.add(none));
            continue;
        };
        list.add(story.since_begin(ready.at));
        let (kind, by, worker) = match ready.cause {
            Cause::Spawn { by, worker } => (1, index(by), Index(Some(worker))),
            Cause::Wake { by, worker } => (2, index(by), Index(Some(worker))),
            Cause::Worker => (3, Index(None), Index(Some(stretch.worker))),
            Cause::Outside => (4, Index(None), Index(None)),
            Cause::Own => (5, Index(None), Index(Some(stretch.worker))),
        };
        list.add(kind);
        list.add(by);
        list.add(worker);
    }
    out.push_str("],\"notes\":[");
    let mut list = List::begin(&mut out);
    for note in &story.notes {
        let kind = match note.what {
            What::Mark(_) => 0,
            What::Io { .. } => 1,
            What::Cancel { .. } => 2,
            What::Steal { .. } => 3,
        };
        list.add(story.since_begin(note.at));
        list.add(note.worker);
        list.add(index(note.task));
        list.add(kind);
        list.add(texts.index(note_text(story, &note.what)));
    }
    out.push_str("],\"hosts\":[");
    #[cfg(feature = "sim")]
    {
        let mut list = List::begin(&mut out);
        let events = story.hosts.as_deref().unwrap_or_default();
        let index = |said: &str| texts.index(said.to_owned());
        super::hosts::list(events, story.begin, index, |value| list.add(value));
    }
    out.push_str("],\"texts\":[");
    for (number, said) in texts.all.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        text(&mut out, said);
    }
    out.push_str("]}");
    out
}

/// An index, or -1.
#[derive(Clone, Copy)]
struct Index(Option<usize>);

impl Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(index) => index.fmt(f),
            None => f.write_str("-1"),
        }
    }
}

/// A list that is being written.
struct List<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> List<'o> {
    fn begin(out: &'o mut String) -> List<'o> {
        List { out, is_empty: true }
    }

    fn add(&mut self, value: impl Display) {
        let comma = if std::mem::replace(&mut self.is_empty, false) { "" } else { "," };
        let _ = write!(self.out, "{comma}{value}");
    }
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    indices: std::collections::BTreeMap<String, usize>,
}

impl Texts {
    fn index(&mut self, text: String) -> Index {
        if let Some(&index) = self.indices.get(&text) {
            return Index(Some(index));
        }
        let index = self.all.len();
        self.all.push(text.clone());
        self.indices.insert(text, index);
        Index(Some(index))
    }
}
