//! The entries of directories, and what a power failure leaves of the disk.

use super::inode::{Directory, Edit, Ino, Inode, Node};
use super::loss::Losses;
use super::{Context, Disk, OpenFile, entry, owned};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

/// How many edits of one directory are kept. The older half of them reaches the disk then.
const MOST_EDITS: usize = 1024;

impl Disk {
    /// Changes entries of a directory, and counts the names.
    pub(super) fn edit(&mut self, directory: Ino, name: &[u8], ino: Option<Ino>, now: SystemTime) {
        let removed = match ino {
            Some(_) => None,
            None => entry(self.directory(directory), name),
        };
        let removes = removed.filter(|ino| self.inode(*ino).is_directory());
        self.edits += 1;
        self.record(
            directory,
            Edit {
                number: self.edits,
                changes: vec![(owned(name), ino)],
                partner: None,
                reparents: false,
                removes,
            },
            now,
        );
        self.trim(directory);
    }

    /// Moves an entry to another name, whose inode it replaces.
    pub(super) fn move_entry(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), now: SystemTime) {
        let moved = entry(self.directory(from.0), from.1).expect("the entry exists");
        let replaced = entry(self.directory(to.0), to.1);
        let removes = replaced.filter(|ino| self.inode(*ino).is_directory());
        let (away, here) = ((owned(from.1), None), (owned(to.1), Some(moved)));
        self.edits += 1;
        let number = self.edits;
        if from.0 == to.0 {
            let changes = vec![away, here];
            let edit = Edit { number, changes, partner: None, reparents: false, removes };
            self.record(from.0, edit, now);
        } else {
            let is_directory = self.inode(moved).is_directory();
            if is_directory {
                self.directory_mut(moved).parent = to.0;
            }
            let edit = |changes, partner, removes| Edit {
                number,
                changes: vec![changes],
                partner: Some(partner),
                reparents: is_directory,
                removes,
            };
            let (leaves, enters) = (edit(away, to.0, None), edit(here, from.0, removes));
            // In this order, so that the inode has a name at every moment.
            self.record(to.0, enters, now);
            self.record(from.0, leaves, now);
            self.trim(to.0);
        }
        self.trim(from.0);
    }

    /// Makes an edit in the cache, and keeps it for the disk.
    fn record(&mut self, directory: Ino, edit: Edit, now: SystemTime) {
        let mut released = Vec::new();
        for (name, ino) in &edit.changes {
            let entries = &mut self.directory_mut(directory).entries;
            let before = match ino {
                Some(ino) => entries.insert(name.clone(), *ino),
                None => entries.remove(name),
            };
            released.extend(before);
            if let Some(ino) = ino {
                let inode = self.inode_mut(*ino);
                inode.mentions += 1;
                inode.names += 1;
            }
        }
        self.directory_mut(directory).edits.push_back(edit);
        self.inode_mut(directory).attributes.modified = now;
        // An inode that only changes its name has the new one by now.
        for ino in released {
            self.release(ino, |inode| &mut inode.names);
        }
    }

    /// Writes the older half of a directory's edits to the disk if there are many.
    fn trim(&mut self, directory: Ino) {
        let Some(inode) = self.inodes.get(&directory) else { return };
        let Some(edits) = inode.directory().map(|directory| &directory.edits) else { return };
        if edits.len() > MOST_EDITS {
            let number = edits[MOST_EDITS / 2].number;
            self.commit(BTreeMap::from([(directory, number)]));
        }
    }

    /// Writes edits to the disk: those of each directory up to a number, and all others that have
    /// to be there with them.
    pub(super) fn commit(&mut self, wanted: BTreeMap<Ino, u64>) {
        let mut left = Vec::from_iter(wanted);
        let mut upto = BTreeMap::new();
        while let Some((ino, number)) = left.pop() {
            // A directory that is gone from the disk has no edits any more.
            let Some(directory) = self.inodes.get(&ino).and_then(Inode::directory) else {
                continue;
            };
            let known = upto.get(&ino).copied().unwrap_or(0);
            if known >= number {
                continue;
            }
            upto.insert(ino, number);
            let added = |edit: &&Edit| (known + 1..=number).contains(&edit.number);
            for edit in directory.edits.iter().filter(added) {
                left.extend(edit.partner.map(|partner| (partner, edit.number)));
                left.extend(edit.removes.map(|removed| (removed, u64::MAX)));
                if edit.reparents {
                    left.extend(self.directories().map(|ino| (ino, edit.number)));
                }
            }
        }
        for (ino, number) in upto {
            self.write_edits(ino, number);
        }
    }

    /// Writes all edits up to a number, of every directory.
    pub(super) fn commit_all(&mut self, number: u64) {
        self.commit(self.directories().map(|ino| (ino, number)).collect());
    }

    /// Returns the directories that have edits for the disk.
    fn directories(&self) -> impl Iterator<Item = Ino> {
        let edited = |inode: &Inode| inode.directory().is_some_and(|found| !found.edits.is_empty());
        self.inodes.iter().filter(move |(_, inode)| edited(inode)).map(|(ino, _)| *ino)
    }

    fn write_edits(&mut self, ino: Ino, number: u64) {
        let mut gone = Vec::new();
        // Another directory's edits may have ended this one.
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let Node::Directory(directory) = &mut inode.node else { return };
        while directory.edits.front().is_some_and(|edit| edit.number <= number) {
            let Some(edit) = directory.edits.pop_front() else { break };
            for (name, ino) in edit.changes {
                // The mention in the edit becomes the one on the disk.
                gone.extend(match ino {
                    Some(ino) => directory.synced.insert(name, ino),
                    None => directory.synced.remove(&name),
                });
            }
        }
        for ino in gone {
            self.inode_mut(ino).mentions -= 1;
            self.free(ino);
        }
    }

    /// Ends the open files of all processes of the host. What the cache has stays.
    pub(crate) fn crash(&mut self) {
        self.pending.clear();
        for number in Vec::from_iter(self.opens.keys().copied()) {
            self.close(OpenFile(number));
        }
    }

    /// Loses what was not synced, or a part of it, as the module says. Ends all open files.
    pub(crate) fn power_fail(&mut self, context: &mut Context<'_>) {
        self.crash();
        let mut random = context.draws.power_failure(context.host);
        if context.faults.journals_names {
            let number = random.below(self.edits as usize + 1) as u64;
            let number = [0, self.edits, number][random.below(3)];
            self.commit_all(number);
        } else {
            let mut wanted = BTreeMap::new();
            for (ino, inode) in &self.inodes {
                let Some(directory) = inode.directory() else { continue };
                let count = directory.edits.len();
                if count == 0 {
                    continue;
                }
                let place = match random.below(3) {
                    0 => 0,
                    1 => count,
                    _ => random.below(count + 1),
                };
                wanted.extend(directory.number_before(place).map(|number| (*ino, number)));
            }
            self.commit(wanted);
        }
        let mut losses = Losses::of_names(self);
        for (ino, inode) in &mut self.inodes {
            match &mut inode.node {
                Node::File(stored) => {
                    losses.note_bytes(*ino, stored.power_fail(context.faults, &mut random));
                }
                Node::Directory(directory) => {
                    directory.edits = VecDeque::new();
                    directory.entries = directory.synced.clone();
                }
                Node::Link(_) | Node::Socket => {}
            }
            if inode.attributes != inode.synced && random.below(2) == 0 {
                inode.attributes = inode.synced;
            }
            inode.synced = inode.attributes;
            (inode.names, inode.opens, inode.mentions) = (0, 0, 0);
        }
        self.count_names();
        losses.tell(self, context);
        self.move_in(context.now);
    }

    /// Counts the names that can be reached from the root, and ends all inodes that cannot.
    fn count_names(&mut self) {
        let mut left = vec![self.root];
        self.inode_mut(self.root).names = 1;
        while let Some(parent) = left.pop() {
            for ino in Vec::from_iter(self.directory(parent).entries.values().copied()) {
                let inode = self.inode_mut(ino);
                inode.names += 1;
                inode.mentions += 1;
                if let Node::Directory(directory) = &mut inode.node {
                    directory.parent = parent;
                    left.push(ino);
                }
            }
        }
        self.inodes.retain(|_, inode| inode.names > 0);
        self.pages = self.inodes.values().map(Inode::pages).sum();
    }

    /// Makes sure that the directories of the home exist, on the disk as well, and goes to the
    /// current one.
    pub(super) fn move_in(&mut self, now: SystemTime) {
        let folders = Vec::from_iter(self.home.others.iter().chain([&self.home.current]).cloned());
        for folder in &folders {
            self.current = self.ensure(folder, now);
        }
        self.inode_mut(self.current).opens += 1;
    }

    /// Creates an absolute path's directories that are missing. Something else that has the name of
    /// one of them is replaced.
    fn ensure(&mut self, path: &Path, now: SystemTime) -> Ino {
        let mut at = self.root;
        let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b".")) {
            let found = entry(self.directory(at), name);
            at = match found.filter(|ino| self.inode(*ino).is_directory()) {
                Some(ino) => ino,
                None => {
                    if found.is_some() {
                        self.edit(at, name, None, now);
                    }
                    let ino = self.add(Node::Directory(Directory::new(at)), at, name, 0o755, now);
                    self.commit(BTreeMap::from([(at, u64::MAX)]));
                    ino
                }
            };
        }
        at
    }

    /// Creates an inode with a name in a directory.
    pub(super) fn add(
        &mut self,
        node: Node,
        directory: Ino,
        name: &[u8],
        mode: u32,
        now: SystemTime,
    ) -> Ino {
        let ino = Ino(self.next_number());
        let inode = Inode::new(node, self.attributes(mode, now));
        self.inodes.insert(ino, inode);
        self.edit(directory, name, Some(ino), now);
        ino
    }
}
