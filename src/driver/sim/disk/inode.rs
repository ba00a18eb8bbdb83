//! Inodes: files, directories, symbolic links and the names of sockets.

use super::stored::Stored;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

/// The number of an inode, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ino(pub(crate) u64);

/// A name in a directory.
pub(super) type Name = Box<[u8]>;

/// Something that has names in directories.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) node: Node,
    pub(super) attributes: Attributes,
    /// The attributes that the disk has.
    pub(super) synced: Attributes,
    /// The number of names that programs see.
    pub(super) names: u32,
    /// The number of open files.
    pub(super) opens: u32,
    /// How often directories mention the inode on the disk, or in edits that the disk does not
    /// have. Until this is 0, a power failure may bring a name back.
    pub(super) mentions: u32,
    /// The open files that have a lock on this file, and whether it is exclusive.
    pub(super) locks: Vec<(u64, bool)>,
    /// The path by which it was opened the last time.
    pub(super) opened_as: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) enum Node {
    File(Stored),
    Directory(Directory),
    /// A symbolic link: where it leads.
    Link(Box<[u8]>),
    Socket,
}

/// What kind of inode it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    Socket,
}

/// A directory's entries on two levels: as programs see them, and as the disk has them.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: Ino,
    pub(super) entries: BTreeMap<Name, Ino>,
    pub(super) synced: BTreeMap<Name, Ino>,
    /// The edits that the disk does not have, in order.
    pub(super) edits: VecDeque<Edit>,
}

/// A change of a directory's entries, which reaches the disk as a whole.
#[derive(Debug)]
pub(super) struct Edit {
    /// Edits are counted over all directories of a disk. Both sides of a move have one number.
    pub(super) number: u64,
    /// Each name's new inode, or `None` if the name is removed.
    pub(super) changes: Vec<(Name, Option<Ino>)>,
    /// The other directory of a move.
    pub(super) partner: Option<Ino>,
    /// A directory has got another parent. All earlier edits reach the disk before this one, so
    /// that no directory on the disk is its own ancestor.
    pub(super) reparents: bool,
    /// The directory that is removed. Its own edits reach the disk before this one.
    pub(super) removes: Option<Ino>,
}

/// What is known of an inode beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The permissions, with the bits for other users and groups, and the sticky bit.
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) accessed: SystemTime,
    pub(crate) modified: SystemTime,
}

/// Everything that is known of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// The number of names. Of a directory, 1.
    pub(crate) names: u32,
    pub(crate) attributes: Attributes,
}

impl Inode {
    pub(super) fn new(node: Node, attributes: Attributes) -> Inode {
        Inode {
            node,
            attributes,
            synced: attributes,
            names: 0,
            opens: 0,
            mentions: 0,
            locks: Vec::new(),
            opened_as: None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.node {
            Node::File(_) => Kind::File,
            Node::Directory(_) => Kind::Directory,
            Node::Link(_) => Kind::Link,
            Node::Socket => Kind::Socket,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.node, Node::Directory(_))
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        match &self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match &self.node {
            Node::File(stored) => stored.cache().length(),
            Node::Link(target) => target.len() as u64,
            // What the files of ext4 take for a small directory.
            Node::Directory(_) => super::content::PAGE,
            Node::Socket => 0,
        }
    }

    /// Returns the number of pages that the content takes.
    pub(super) fn pages(&self) -> u64 {
        match &self.node {
            Node::File(stored) => stored.cache().pages(),
            _ => 0,
        }
    }

    /// Returns whether programs can reach the inode.
    pub(super) fn is_alive(&self) -> bool {
        self.names > 0 || self.opens > 0
    }
}

impl Directory {
    pub(super) fn new(parent: Ino) -> Directory {
        Directory {
            parent,
            entries: BTreeMap::new(),
            synced: BTreeMap::new(),
            edits: VecDeque::new(),
        }
    }

    /// Returns the number of the edit at this place, or of the last one before it.
    pub(super) fn number_before(&self, place: usize) -> Option<u64> {
        Some(self.edits.get(place.checked_sub(1)?)?.number)
    }
}
