//! Calls on names: opening, creating, renaming, removing, and questions about names.

use super::inode::{Directory, Facts, Ino, Inode, Kind, Name, Node};
use super::stored::Stored;
use super::walk::{Last, Way, bytes_of, check_zeros};
use super::{Context, Disk, OpenFile, Right, fail};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The permissions that open(2) and mkdir(2) take.
const FILE_MODE: u32 = 0o7777;
const DIRECTORY_MODE: u32 = 0o1777;

/// An entry of a directory, as it was when the directory was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
}

/// A new owner. `None` keeps what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
}

/// What an open has found.
enum Found {
    Existing(Ino),
    Created(Ino),
}

impl Disk {
    /// Opens a file by the flags of open(2).
    pub(crate) fn open(
        &mut self,
        path: &Path,
        flags: i32,
        mode: u32,
        context: &mut Context<'_>,
    ) -> io::Result<OpenFile> {
        check_zeros(&[path])?;
        let mut flags = flags;
        let has = |flags: i32, flag: i32| flags & flag == flag;
        if has(flags, libc::O_PATH) {
            flags &= libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        }
        let unnamed = has(flags, libc::O_TMPFILE);
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let creates = has(flags, libc::O_CREAT);
        if (unnamed && (!writes || creates)) || (creates && has(flags, libc::O_DIRECTORY)) {
            return fail(libc::EINVAL);
        }
        let path = bytes_of(path)?;
        self.check_room(1, context)?;
        if unnamed {
            return self.open_unnamed(path, flags, mode, context.now);
        }
        match self.find_or_create(path, flags, mode, context.now)? {
            Found::Created(ino) => {
                self.inode_mut(ino).opened_as = Some(String::from_utf8_lossy(path).into());
                Ok(self.open_inode(ino, flags))
            }
            Found::Existing(ino) => {
                self.check_open(ino, flags)?;
                if has(flags, libc::O_TRUNC) && self.inode(ino).kind() == Kind::File {
                    self.change(ino, context.now, |stored| stored.set_length(0));
                }
                self.inode_mut(ino).opened_as = Some(String::from_utf8_lossy(path).into());
                Ok(self.open_inode(ino, flags))
            }
        }
    }

    fn find_or_create(
        &mut self,
        path: &[u8],
        flags: i32,
        mode: u32,
        now: SystemTime,
    ) -> io::Result<Found> {
        let (creates, excludes) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let follows = flags & libc::O_NOFOLLOW == 0 && !(creates && excludes);
        let mut way = self.way(path)?;
        let (found, slash) = loop {
            let (name, slash) = match &way.last {
                Last::Root | Last::Dot => break (way.at, false),
                Last::DotDot => break (self.directory(way.at).parent, false),
                Last::Name { slash: true, .. } if creates => return fail(libc::EISDIR),
                Last::Name { name, slash } => (name.clone(), *slash),
            };
            match self.find(way.at, &name)? {
                None if creates => {
                    self.check_edit(way.at)?;
                    let node = Node::File(Stored::default());
                    let mode = mode & FILE_MODE & !self.home.umask;
                    return Ok(Found::Created(self.add(node, way.at, &name, mode, now)));
                }
                None => return fail(libc::ENOENT),
                Some(link) if self.inode(link).kind() == Kind::Link && (follows || slash) => {
                    way = self.follow(&way, link)?;
                }
                Some(found) => break (found, slash),
            }
        };
        let is_directory = self.inode(found).is_directory();
        if creates && excludes {
            return fail(libc::EEXIST);
        }
        if creates && is_directory {
            return fail(libc::EISDIR);
        }
        if (slash || flags & libc::O_DIRECTORY != 0) && !is_directory {
            return fail(libc::ENOTDIR);
        }
        Ok(Found::Existing(found))
    }

    /// Checks whether an inode can be opened.
    fn check_open(&self, ino: Ino, flags: i32) -> io::Result<()> {
        if flags & libc::O_PATH != 0 {
            return Ok(());
        }
        let access = flags & libc::O_ACCMODE;
        let writes = access != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        match self.inode(ino).kind() {
            Kind::Link => return fail(libc::ELOOP),
            Kind::Directory if writes => return fail(libc::EISDIR),
            _ => {}
        }
        if access != libc::O_WRONLY {
            self.check(ino, Right::READ)?;
        }
        if writes {
            self.check(ino, Right::WRITE)?;
        }
        match self.inode(ino).kind() {
            Kind::Socket => fail(libc::ENXIO),
            _ => Ok(()),
        }
    }

    /// Creates a file without a name in a directory.
    fn open_unnamed(
        &mut self,
        path: &[u8],
        flags: i32,
        mode: u32,
        now: SystemTime,
    ) -> io::Result<OpenFile> {
        let (directory, _) = self.look_up(path, flags & libc::O_NOFOLLOW == 0)?;
        if !self.inode(directory).is_directory() {
            return fail(libc::ENOTDIR);
        }
        self.check_edit(directory)?;
        let ino = Ino(self.next_number());
        let attributes = self.attributes(mode & FILE_MODE & !self.home.umask, now);
        let node = Node::File(Stored::default());
        self.inodes.insert(ino, Inode::new(node, attributes));
        Ok(self.open_inode(ino, flags))
    }

    /// Checks that entries of a directory can be created and removed.
    fn check_edit(&self, directory: Ino) -> io::Result<()> {
        if self.inode(directory).names == 0 {
            return fail(libc::ENOENT);
        }
        self.check(directory, Right::EDIT)
    }

    /// Returns the directory and the name of a new entry. `is_directory`: a slash may follow.
    fn new_entry(&self, path: &[u8], is_directory: bool) -> io::Result<(Ino, Box<[u8]>)> {
        let way = self.way(path)?;
        let Last::Name { name, slash } = way.last else { return fail(libc::EEXIST) };
        if self.find(way.at, &name)?.is_some() {
            return fail(libc::EEXIST);
        }
        if slash && !is_directory {
            return fail(libc::ENOENT);
        }
        Ok((way.at, name))
    }

    /// Returns the facts about what a path names.
    pub(crate) fn look(&self, path: &Path, follow: bool) -> io::Result<Facts> {
        Ok(self.facts(self.lookup(path, follow)?))
    }

    /// Creates a directory.
    pub(crate) fn make_directory(
        &mut self,
        path: &Path,
        mode: u32,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let (at, name) = self.new_entry(bytes_of(path)?, true)?;
        self.check_edit(at)?;
        let mode = mode & DIRECTORY_MODE & !self.home.umask;
        self.add(Node::Directory(Directory::new(at)), at, &name, mode, context.now);
        Ok(())
    }

    /// Creates the name of a socket.
    pub(crate) fn make_socket(&mut self, path: &Path, context: &mut Context<'_>) -> io::Result<()> {
        let (at, name) = match self.new_entry(bytes_of(path)?, false) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                return fail(libc::EADDRINUSE);
            }
            found => found?,
        };
        self.check_edit(at)?;
        self.add(Node::Socket, at, &name, 0o777 & !self.home.umask, context.now);
        Ok(())
    }

    /// Creates a symbolic link.
    pub(crate) fn symbolic_link(
        &mut self,
        target: &Path,
        link: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        check_zeros(&[target, link])?;
        let target = bytes_of(target)?;
        let (at, name) = self.new_entry(bytes_of(link)?, false)?;
        self.check_edit(at)?;
        self.add(Node::Link(target.into()), at, &name, 0o777, context.now);
        Ok(())
    }

    /// Gives a file another name. Does not follow a link.
    pub(crate) fn hard_link(
        &mut self,
        original: &Path,
        link: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        check_zeros(&[original, link])?;
        let (ino, _) = self.look_up(bytes_of(original)?, false)?;
        let (at, name) = self.new_entry(bytes_of(link)?, false)?;
        self.check_edit(at)?;
        if self.inode(ino).is_directory() {
            return fail(libc::EPERM);
        }
        self.edit(at, &name, Some(ino), context.now);
        Ok(())
    }

    /// Returns where a symbolic link leads.
    pub(crate) fn target_of(&self, path: &Path) -> io::Result<PathBuf> {
        match &self.inode(self.lookup(path, false)?).node {
            Node::Link(target) => Ok(OsString::from_vec(target.to_vec()).into()),
            _ => fail(libc::EINVAL),
        }
    }

    /// Returns the absolute path without links.
    pub(crate) fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        let (ino, way) = self.look_up(bytes_of(path)?, true)?;
        let mut names = Vec::new();
        let mut at = ino;
        if !self.inode(ino).is_directory()
            && let Last::Name { name, .. } = way.last
        {
            names.push(name);
            at = way.at;
        }
        while at != self.root {
            let parent = self.directory(at).parent;
            let entries = &self.directory(parent).entries;
            let Some((name, _)) = entries.iter().find(|(_, ino)| **ino == at) else {
                return fail(libc::ENOENT);
            };
            names.push(name.clone());
            at = parent;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(OsString::from_vec(path).into())
    }

    /// Removes the name of a file that is not a directory.
    pub(crate) fn remove_file(&mut self, path: &Path, context: &mut Context<'_>) -> io::Result<()> {
        let way = self.way(bytes_of(path)?)?;
        let Last::Name { name, slash } = &way.last else { return fail(libc::EISDIR) };
        let Some(found) = self.find(way.at, name)? else { return fail(libc::ENOENT) };
        let is_directory = self.inode(found).is_directory();
        if *slash {
            return fail(if is_directory { libc::EISDIR } else { libc::ENOTDIR });
        }
        self.check(way.at, Right::EDIT)?;
        if is_directory {
            return fail(libc::EISDIR);
        }
        self.edit(way.at, name, None, context.now);
        Ok(())
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(
        &mut self,
        path: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let way = self.way(bytes_of(path)?)?;
        let name = match &way.last {
            Last::Name { name, .. } => name,
            Last::DotDot => return fail(libc::ENOTEMPTY),
            Last::Dot => return fail(libc::EINVAL),
            Last::Root => return fail(libc::EBUSY),
        };
        let Some(found) = self.find(way.at, name)? else { return fail(libc::ENOENT) };
        self.check(way.at, Right::EDIT)?;
        self.check_removal(found, true)?;
        self.edit(way.at, name, None, context.now);
        Ok(())
    }

    /// Checks that an inode is a directory, and that it is empty, or else that it is none.
    fn check_removal(&self, ino: Ino, directory: bool) -> io::Result<()> {
        match (self.inode(ino).directory(), directory) {
            (Some(_), false) => fail(libc::EISDIR),
            (None, true) => fail(libc::ENOTDIR),
            (Some(found), true) if !found.entries.is_empty() => fail(libc::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    /// Renames a file or a directory. Replaces what has the new name.
    pub(crate) fn rename(
        &mut self,
        from: &Path,
        to: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        check_zeros(&[from, to])?;
        let (from, to) = (self.way(bytes_of(from)?)?, self.way(bytes_of(to)?)?);
        let (old, old_slash) = last_name(&from)?;
        let (new, new_slash) = last_name(&to)?;
        let Some(moved) = self.find(from.at, old)? else { return fail(libc::ENOENT) };
        let replaced = self.find(to.at, new)?;
        let is_directory = self.inode(moved).is_directory();
        if !is_directory && (old_slash || new_slash) {
            return fail(libc::ENOTDIR);
        }
        if self.contains(moved, to.at) {
            return fail(libc::EINVAL);
        }
        if replaced.is_some_and(|ino| self.contains(ino, from.at)) {
            return fail(libc::ENOTEMPTY);
        }
        if replaced == Some(moved) {
            return Ok(());
        }
        self.check(from.at, Right::EDIT)?;
        match replaced {
            None => self.check_edit(to.at)?,
            Some(ino) => {
                self.check(to.at, Right::EDIT)?;
                if self.inode(ino).is_directory() != is_directory {
                    return fail(if is_directory { libc::ENOTDIR } else { libc::EISDIR });
                }
            }
        }
        if is_directory && from.at != to.at {
            self.check(moved, Right::WRITE)?;
        }
        if let Some(ino) = replaced {
            self.check_removal(ino, is_directory)?;
        }
        self.move_entry((from.at, old), (to.at, new), context.now);
        Ok(())
    }

    /// Returns whether `inner` is the directory `outer` or lies in it.
    fn contains(&self, outer: Ino, inner: Ino) -> bool {
        let mut at = inner;
        while at != outer {
            if at == self.root {
                return false;
            }
            at = self.directory(at).parent;
        }
        true
    }

    /// Lists a directory, in the order of the names' bytes. Returns the directory as well.
    pub(crate) fn list(
        &mut self,
        path: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<(Ino, Vec<Entry>)> {
        let file = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0, context)?;
        let ino = self.ino_of(file)?;
        self.close(file);
        let listed = |(name, ino): (&Name, &Ino)| Entry {
            name: OsString::from_vec(name.to_vec()),
            ino: *ino,
            kind: self.inode(*ino).kind(),
        };
        Ok((ino, self.directory(ino).entries.iter().map(listed).collect()))
    }

    /// Sets the permissions of what a path names.
    pub(crate) fn set_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let ino = self.lookup(path, true)?;
        self.set_mode_of(ino, mode)
    }

    /// Sets the permissions of an open file.
    pub(crate) fn set_open_mode(&mut self, file: OpenFile, mode: u32) -> io::Result<()> {
        let ino = self.ino_of(file)?;
        self.set_mode_of(ino, mode)
    }

    fn set_mode_of(&mut self, ino: Ino, mode: u32) -> io::Result<()> {
        self.check_owner(ino)?;
        self.inode_mut(ino).attributes.mode = mode & FILE_MODE;
        Ok(())
    }

    /// Sets the owner of what a path names.
    pub(crate) fn set_owner(&mut self, path: &Path, follow: bool, owner: Owner) -> io::Result<()> {
        let ino = self.lookup(path, follow)?;
        self.set_owner_of(ino, owner)
    }

    /// Sets the owner of an open file.
    pub(crate) fn set_open_owner(&mut self, file: OpenFile, owner: Owner) -> io::Result<()> {
        let ino = self.ino_of(file)?;
        self.set_owner_of(ino, owner)
    }

    fn set_owner_of(&mut self, ino: Ino, owner: Owner) -> io::Result<()> {
        let attributes = self.inode(ino).attributes;
        let user = owner.user.unwrap_or(attributes.user);
        let group = owner.group.unwrap_or(attributes.group);
        let is_own = attributes.user == self.home.user;
        let keeps_user = owner.user.is_none() || (is_own && user == attributes.user);
        let own_group = is_own && (group == self.home.group || group == attributes.group);
        let keeps_group = owner.group.is_none() || own_group;
        if self.home.user != 0 && !(keeps_user && keeps_group) {
            return fail(libc::EPERM);
        }
        let attributes = &mut self.inode_mut(ino).attributes;
        (attributes.user, attributes.group) = (user, group);
        Ok(())
    }
}

fn last_name(way: &Way) -> io::Result<(&[u8], bool)> {
    match &way.last {
        Last::Name { name, slash } => Ok((name, *slash)),
        _ => fail(libc::EBUSY),
    }
}
