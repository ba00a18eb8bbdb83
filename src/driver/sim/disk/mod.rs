//! The disk of a simulated host: a file system in memory. It makes no system call, and knows
//! neither tasks nor descriptors. Its results and errors are those of Linux.
//!
//! # Words
//! - An *inode* is a file, a directory, a symbolic link, or the name of a socket. Its number
//!   ([`Ino`]) is never used again.
//! - An *open file* ([`OpenFile`]) is what open(2) makes: an inode, the flags, and a cursor.
//! - The *cache* is what programs see, and the *disk* in the narrow sense is what a power failure
//!   leaves. A *change* alters the content of one file, an *edit* the entries of one directory.
//!   Both are kept until the disk has them.
//!
//! # What a power failure leaves
//! What POSIX promises, and no more, because programs that rely on more fail on some file system
//! (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014):
//! - A sync of a file writes its content and length, and with `fsync` its attributes. It does not
//!   write the file's name.
//! - A sync of a directory writes its entries. A file that was created, renamed or removed is so
//!   for certain only after the sync of its directory, and only if that directory itself is there.
//! - Without a sync, each sector of each write is there or not, independently of the others. But a
//!   sector never has a later write without the earlier ones. Lengths reach the disk in order, and
//!   not together with the bytes, so a file may end with zeros that were never written.
//! - Without a sync, the edits of one directory reach the disk in order. A rename is there as a
//!   whole or not at all, also between two directories.
//! - A failed sync loses some of the changes, and a later sync does not write them, although the
//!   cache still shows them. (Rebello et al., "Can Applications Recover from fsync Failures?", ATC
//!   2020.)
//!
//! Journaling file systems promise more of names. [`DiskFaults::journals_names`] says so.

mod content;
mod durable;
mod faults;
mod inode;
mod loss;
mod names;
mod open;
mod stored;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;
mod whole;

use super::{Draws, HostId, Journal};
use inode::{Directory, Inode, Name, Node};
use open::{Open, Pending};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub(crate) use faults::DiskFaults;
pub(crate) use inode::{Attributes, Facts, Ino, Kind};
pub(crate) use names::{Entry, Owner};
pub(crate) use open::{Lock, OpenFile};

/// What a call on a disk uses of the world.
pub(crate) struct Context<'a> {
    /// The time on the host's wall clock.
    pub(crate) now: SystemTime,
    /// The host of the disk.
    pub(crate) host: HostId,
    pub(crate) draws: &'a mut Draws,
    pub(crate) journal: &'a mut Journal,
    pub(crate) faults: &'a DiskFaults,
    /// The number of descriptors of the host that are none of files.
    pub(crate) sockets: usize,
    /// The syncs that the call has begun: after how long [`Disk::finish_sync`] has to be called,
    /// and with which number.
    pub(crate) begun: &'a mut Vec<(Duration, u64)>,
}

/// How a host begins.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    /// The current directory, an absolute path. Relative paths begin there.
    pub(crate) current: PathBuf,
    /// The other directories that a host has from its beginning.
    pub(crate) others: Vec<PathBuf>,
    /// The user and the group of all processes. User 0 may do everything.
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The permissions that new files and directories do not get.
    pub(crate) umask: u32,
}

/// A file system in memory.
#[derive(Debug)]
pub(crate) struct Disk {
    home: Home,
    root: Ino,
    /// The current directory, which is kept open.
    current: Ino,
    inodes: BTreeMap<Ino, Inode>,
    opens: BTreeMap<u64, Open>,
    /// The syncs under way, by the numbers of their ops.
    pending: BTreeMap<u64, Pending>,
    /// The last number of an inode or an open file.
    numbers: u64,
    /// The last number of an edit.
    edits: u64,
    /// The pages of all files that programs can reach.
    pages: u64,
}

/// Returns an error of the kernel.
fn fail<T>(code: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(code))
}

/// A right that a user needs: the bits of a permission for one class of users.
#[derive(Clone, Copy)]
struct Right(u32);

impl Right {
    const READ: Right = Right(4);
    const WRITE: Right = Right(2);
    /// Of a directory: to use its entries.
    const SEARCH: Right = Right(1);
    /// To create and remove entries.
    const EDIT: Right = Right(3);
}

impl Disk {
    /// Creates a disk with the directories of the home, which are on the disk already.
    pub(crate) fn new(home: Home, now: SystemTime) -> Disk {
        let root = Ino(1);
        let mut disk = Disk {
            root,
            current: root,
            inodes: BTreeMap::new(),
            opens: BTreeMap::new(),
            pending: BTreeMap::new(),
            numbers: 1,
            edits: 0,
            pages: 0,
            home,
        };
        let attributes = disk.attributes(0o755, now);
        let mut inode = Inode::new(Node::Directory(Directory::new(root)), attributes);
        inode.names = 1;
        disk.inodes.insert(root, inode);
        disk.move_in(now);
        disk
    }

    /// Returns the attributes of something new.
    fn attributes(&self, mode: u32, now: SystemTime) -> Attributes {
        let Home { user, group, .. } = self.home;
        Attributes { mode, user, group, accessed: now, modified: now }
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn inode(&self, ino: Ino) -> &Inode {
        self.inodes.get(&ino).expect("an inode is kept for as long as it is mentioned or open")
    }

    fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        self.inodes.get_mut(&ino).expect("an inode is kept for as long as it is mentioned or open")
    }

    fn directory(&self, ino: Ino) -> &Directory {
        self.inode(ino).directory().expect("the number is that of a directory")
    }

    fn directory_mut(&mut self, ino: Ino) -> &mut Directory {
        match &mut self.inode_mut(ino).node {
            Node::Directory(directory) => directory,
            _ => panic!("the number is that of a directory"),
        }
    }

    fn facts(&self, ino: Ino) -> Facts {
        let inode = self.inode(ino);
        Facts {
            ino,
            kind: inode.kind(),
            size: inode.size(),
            names: inode.names,
            attributes: inode.attributes,
        }
    }

    /// Checks that the user has a right.
    fn check(&self, ino: Ino, right: Right) -> io::Result<()> {
        let Attributes { mode, user, group, .. } = self.inode(ino).attributes;
        let class = if user == self.home.user {
            mode >> 6
        } else if group == self.home.group {
            mode >> 3
        } else {
            mode
        };
        if self.home.user == 0 || class & right.0 == right.0 { Ok(()) } else { fail(libc::EACCES) }
    }

    /// Checks that the user may change the attributes of an inode.
    fn check_owner(&self, ino: Ino) -> io::Result<()> {
        let owner = self.inode(ino).attributes.user;
        if self.home.user == 0 || owner == self.home.user { Ok(()) } else { fail(libc::EPERM) }
    }

    /// Removes a name or an open file from the count of an inode, which may end it.
    fn release(&mut self, ino: Ino, count: impl FnOnce(&mut Inode) -> &mut u32) {
        let inode = self.inode_mut(ino);
        *count(inode) -= 1;
        if !inode.is_alive() {
            let pages = inode.pages();
            self.pages -= pages;
            self.free(ino);
        }
    }

    /// Frees an inode that is neither mentioned nor alive.
    fn free(&mut self, ino: Ino) {
        let mut left = vec![ino];
        while let Some(ino) = left.pop() {
            let unused = |inode: &Inode| inode.mentions == 0 && !inode.is_alive();
            if !self.inodes.get(&ino).is_some_and(unused) {
                continue;
            }
            let inode = self.inodes.remove(&ino).expect("it was there in the line above");
            let Node::Directory(directory) = inode.node else { continue };
            for mentioned in directory.mentioned() {
                self.inode_mut(mentioned).mentions -= 1;
                left.push(mentioned);
            }
        }
    }
}

impl Directory {
    /// Returns the inodes that the directory mentions on the disk and in its edits, each as often
    /// as it is mentioned.
    fn mentioned(&self) -> Vec<Ino> {
        let edited = self.edits.iter().flat_map(|edit| &edit.changes);
        self.synced.values().copied().chain(edited.filter_map(|(_, ino)| *ino)).collect()
    }
}

/// Returns the entry of a directory with this name.
fn entry(directory: &Directory, name: &[u8]) -> Option<Ino> {
    directory.entries.get(name).copied()
}

/// Copies a name.
fn owned(name: &[u8]) -> Name {
    name.into()
}
