//! Paths: which inode, or which entry of which directory, a path names.

use super::inode::{Ino, Node};
use super::{Disk, Right, entry, fail};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest path, without its terminating zero, and the longest name.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// How many links are followed on the way.
const MOST_LINKS: u32 = 40;

/// A way through the directories that has come to the path's last name.
#[derive(Debug)]
pub(super) struct Way {
    /// The directory that the last name is looked up in.
    pub(super) at: Ino,
    pub(super) last: Last,
    links: u32,
}

/// The last name of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Name {
        name: Box<[u8]>,
        /// A slash follows, so only a directory is meant.
        slash: bool,
    },
    /// The path has no name: it is `/`.
    Root,
    Dot,
    DotDot,
}

/// Checks that no path has a zero byte. That is std's error, which comes before all of the
/// kernel's.
pub(super) fn check_zeros(paths: &[&Path]) -> io::Result<()> {
    if paths.iter().any(|path| path.as_os_str().as_bytes().contains(&0)) {
        let text = "file name contained an unexpected NUL byte";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Checks what is checked of a path before it is used.
pub(super) fn bytes_of(path: &Path) -> io::Result<&[u8]> {
    check_zeros(&[path])?;
    let bytes = path.as_os_str().as_bytes();
    match bytes.len() {
        0 => fail(libc::ENOENT),
        1..=LONGEST_PATH => Ok(bytes),
        _ => fail(libc::ENAMETOOLONG),
    }
}

impl Disk {
    /// Walks to the directory of the path's last name.
    pub(super) fn way(&self, path: &[u8]) -> io::Result<Way> {
        self.walk(self.current, path.to_vec(), 0)
    }

    /// Walks on to where the link, which the way's last name names, leads.
    pub(super) fn follow(&self, way: &Way, link: Ino) -> io::Result<Way> {
        let slash: &[u8] = match way.last {
            Last::Name { slash: true, .. } => b"/",
            _ => b"",
        };
        self.walk(way.at, self.continued(link, slash), way.links + 1)
    }

    /// Returns a link's target with what follows the link in the path.
    fn continued(&self, link: Ino, rest: &[u8]) -> Vec<u8> {
        let Node::Link(target) = &self.inode(link).node else { unreachable!("it is a link") };
        [target, rest].concat()
    }

    fn walk(&self, mut at: Ino, mut path: Vec<u8>, mut links: u32) -> io::Result<Way> {
        if links > MOST_LINKS {
            return fail(libc::ELOOP);
        }
        if path[0] == b'/' {
            at = self.root;
        }
        let mut place = 0;
        loop {
            place += path[place..].iter().take_while(|byte| **byte == b'/').count();
            if place == path.len() {
                // Only a path of slashes ends here, because others end with their last name.
                return Ok(Way { at: self.root, last: Last::Root, links });
            }
            self.check(at, Right::SEARCH)?;
            let length = path[place..].iter().take_while(|byte| **byte != b'/').count();
            let (name, rest) = path[place..].split_at(length);
            if rest.iter().all(|byte| *byte == b'/') {
                let last = match name {
                    b"." => Last::Dot,
                    b".." => Last::DotDot,
                    name => Last::Name { name: name.into(), slash: !rest.is_empty() },
                };
                return Ok(Way { at, last, links });
            }
            let next = match name {
                b"." => at,
                b".." => self.directory(at).parent,
                name => match self.find(at, name)? {
                    Some(found) => found,
                    None => return fail(libc::ENOENT),
                },
            };
            match &self.inode(next).node {
                Node::Directory(_) => (at, place) = (next, place + length),
                Node::Link(_) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return fail(libc::ELOOP);
                    }
                    path = self.continued(next, rest);
                    place = 0;
                    if path[0] == b'/' {
                        at = self.root;
                    }
                }
                Node::File(_) | Node::Socket => return fail(libc::ENOTDIR),
            }
        }
    }

    /// Returns a directory's entry.
    pub(super) fn find(&self, directory: Ino, name: &[u8]) -> io::Result<Option<Ino>> {
        if name.len() > LONGEST_NAME {
            return fail(libc::ENAMETOOLONG);
        }
        Ok(entry(self.directory(directory), name))
    }

    /// Returns the inode that a path names, and the way to its name. If the name is that of a link,
    /// `follow` says whether the inode is that of the link or the one that it leads to.
    pub(super) fn look_up(&self, path: &[u8], follow: bool) -> io::Result<(Ino, Way)> {
        let mut way = self.way(path)?;
        loop {
            let (name, slash) = match &way.last {
                Last::Root | Last::Dot => return Ok((way.at, way)),
                Last::DotDot => return Ok((self.directory(way.at).parent, way)),
                Last::Name { name, slash } => (name, *slash),
            };
            let Some(found) = self.find(way.at, name)? else { return fail(libc::ENOENT) };
            let inode = self.inode(found);
            if matches!(inode.node, Node::Link(_)) && (follow || slash) {
                way = self.follow(&way, found)?;
                continue;
            }
            if slash && !inode.is_directory() {
                return fail(libc::ENOTDIR);
            }
            return Ok((found, way));
        }
    }

    /// Returns the inode that a path names; see [`look_up`](Disk::look_up).
    pub(super) fn lookup(&self, path: &Path, follow: bool) -> io::Result<Ino> {
        Ok(self.look_up(bytes_of(path)?, follow)?.0)
    }
}
