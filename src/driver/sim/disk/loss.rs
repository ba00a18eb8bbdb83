//! What a power failure has destroyed, for the timeline.

use super::inode::{Directory, Ino, Name};
use super::{Context, Disk};
use crate::base::clock;
use crate::driver::sim::Incident;
use std::sync::Arc;

/// The most names in one text, and the most texts about directories and about files.
const MOST: usize = 3;

/// What a disk loses.
pub(super) struct Losses {
    /// Complete texts about names.
    names: Vec<String>,
    /// The directories that lose names beside those.
    more_directories: usize,
    /// The files that lose bytes, and how many.
    bytes: Vec<(Ino, u64)>,
}

impl Losses {
    /// Compares the names that programs see with those that the disk has.
    pub(super) fn of_names(disk: &Disk) -> Losses {
        let mut losses = Losses { names: Vec::new(), more_directories: 0, bytes: Vec::new() };
        for (ino, inode) in &disk.inodes {
            let Some(directory) = inode.directory().filter(|it| !it.edits.is_empty()) else {
                continue;
            };
            if losses.names.len() >= MOST {
                losses.more_directories += usize::from(directory.entries != directory.synced);
            } else if let Some(path) = disk.path_of(*ino) {
                losses.names.extend(differences(directory, &path));
            }
        }
        losses
    }

    /// Notes that a file has lost this many bytes.
    pub(super) fn note_bytes(&mut self, file: Ino, count: u64) {
        if count > 0 {
            self.bytes.push((file, count));
        }
    }

    /// Adds what is lost to the journal. The disk is as the power failure has left it.
    pub(super) fn tell(self, disk: &Disk, context: &mut Context<'_>) {
        let mut texts = self.names;
        if self.more_directories > 0 {
            texts.push(format!("names in {} more directories", self.more_directories));
        }
        // A file whose name is lost is gone by now.
        let mut files = self.bytes.iter().filter(|(ino, _)| disk.inodes.contains_key(ino));
        for (ino, count) in files.by_ref().take(MOST) {
            if let Some(path) = disk.path_of(*ino) {
                let bytes = if *count == 1 { "byte" } else { "bytes" };
                texts.push(format!("{count} {bytes} of '{path}' (not synced)"));
            }
        }
        if let more @ 1.. = files.count() {
            texts.push(format!("bytes of {more} more files (not synced)"));
        }
        for text in texts {
            let (now, host) = (clock::common_now(), context.host);
            context.journal.note_text(now, host, Incident::Loses, Arc::from(text));
        }
    }
}

/// Says how the names of a directory on the disk differ from those that programs see.
fn differences(directory: &Directory, path: &str) -> Vec<String> {
    let (seen, kept) = (&directory.entries, &directory.synced);
    let lost: Vec<&Name> = seen.keys().filter(|name| !kept.contains_key(*name)).collect();
    let back: Vec<&Name> = kept.keys().filter(|name| !seen.contains_key(*name)).collect();
    let is_other = |name: &&Name| kept.get(*name).is_some_and(|ino| seen[*name] != *ino);
    let other: Vec<&Name> = seen.keys().filter(is_other).collect();
    let kinds = [
        (lost, "the name", "the names"),
        (back, "the removal of", "the removal of"),
        (other, "the new file of the name", "the new files of the names"),
    ];
    let mut texts = Vec::new();
    for (names, one, many) in kinds {
        if names.is_empty() {
            continue;
        }
        let what = if names.len() == 1 { one } else { many };
        let list = listed(&names, path);
        texts.push(format!("{what} {list} (the directory '{path}' was not synced)"));
    }
    texts
}

/// Lists the first names.
fn listed(names: &[&Name], path: &str) -> String {
    let folder = path.trim_end_matches('/');
    let shown = names.iter().take(MOST);
    let shown = shown.map(|name| format!("'{folder}/{}'", String::from_utf8_lossy(name)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl Disk {
    /// Returns the path of an inode that programs can reach.
    fn path_of(&self, ino: Ino) -> Option<String> {
        let mut path = String::new();
        let mut at = ino;
        while at != self.root {
            let (parent, name) = self.inodes.iter().find_map(|(parent, inode)| {
                let entries = &inode.directory()?.entries;
                let name = entries.iter().find(|(_, child)| **child == at)?.0;
                Some((*parent, name))
            })?;
            path = format!("/{}{path}", String::from_utf8_lossy(name));
            at = parent;
        }
        Some(if path.is_empty() { String::from("/") } else { path })
    }
}
