//! Calls on whole files and whole trees, made of the others as std makes them.

use super::inode::{Ino, Kind};
use super::{Context, Disk, OpenFile, Right, fail};
use std::io;
use std::path::Path;

/// The number of bytes that are copied at once.
const PORTION: usize = 64 << 10;

impl Disk {
    /// Creates a directory and its missing parents.
    pub(crate) fn make_directories(
        &mut self,
        path: &Path,
        mode: u32,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let is_there =
            |disk: &Disk| disk.look(path, true).is_ok_and(|it| it.kind == Kind::Directory);
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        match self.make_directory(path, mode, context) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) if is_there(self) => return Ok(()),
            outcome => return outcome,
        }
        match path.parent() {
            Some(parent) => self.make_directories(parent, mode, context)?,
            None => return Err(io::Error::other("failed to create whole tree")),
        }
        match self.make_directory(path, mode, context) {
            Err(_) if is_there(self) => Ok(()),
            outcome => outcome,
        }
    }

    /// Removes a directory with everything in it. Does not follow links.
    pub(crate) fn remove_tree(&mut self, path: &Path, context: &mut Context<'_>) -> io::Result<()> {
        let found = self.look(path, false)?;
        match found.kind {
            Kind::Link => self.remove_file(path, context),
            Kind::File | Kind::Socket => fail(libc::ENOTDIR),
            Kind::Directory => {
                self.empty(found.ino, context)?;
                match self.remove_directory(path, context) {
                    // The path led through the directory itself.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    outcome => outcome,
                }
            }
        }
    }

    fn empty(&mut self, directory: Ino, context: &mut Context<'_>) -> io::Result<()> {
        self.check(directory, Right::READ)?;
        for name in Vec::from_iter(self.directory(directory).entries.keys().cloned()) {
            let Some(ino) = self.find(directory, &name)? else { continue };
            if self.inode(ino).is_directory() {
                self.empty(ino, context)?;
            }
            self.check(directory, Right::EDIT)?;
            self.edit(directory, &name, None, context.now);
        }
        Ok(())
    }

    /// Reads a whole file.
    pub(crate) fn read_file(
        &mut self,
        path: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<Vec<u8>> {
        let file = self.open(path, libc::O_RDONLY, 0, context)?;
        let mut bytes = Vec::new();
        let outcome = self.read_rest(file, &mut bytes, context);
        self.close(file);
        outcome.map(|()| bytes)
    }

    fn read_rest(
        &mut self,
        file: OpenFile,
        bytes: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let mut portion = vec![0; PORTION];
        loop {
            match self.read(file, &mut portion, None, context)? {
                0 => return Ok(()),
                count => bytes.extend_from_slice(&portion[..count]),
            }
        }
    }

    /// Writes a whole file.
    pub(crate) fn write_file(
        &mut self,
        path: &Path,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let file = self.open(path, flags, 0o666, context)?;
        let outcome = self.write_all(file, bytes, context);
        self.close(file);
        outcome
    }

    fn write_all(
        &mut self,
        file: OpenFile,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let count = self.write(file, left, None, context)?;
            left = &left[count..];
        }
        Ok(())
    }

    /// Opens both files of a copy. The target gets the permissions of the source.
    pub(crate) fn begin_copy(
        &mut self,
        from: &Path,
        to: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<(OpenFile, OpenFile)> {
        let source = self.open(from, libc::O_RDONLY, 0, context)?;
        let target = self.open_target(source, to, context);
        if target.is_err() {
            self.close(source);
        }
        target.map(|target| (source, target))
    }

    fn open_target(
        &mut self,
        source: OpenFile,
        to: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<OpenFile> {
        let (facts, _) = self.facts_of(source)?;
        if facts.kind != Kind::File {
            let text = "the source path is neither a regular file nor a symlink to a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let target = self.open(to, flags, facts.attributes.mode, context)?;
        match self.set_open_mode(target, facts.attributes.mode) {
            Ok(()) => Ok(target),
            Err(error) => {
                self.close(target);
                Err(error)
            }
        }
    }

    /// Copies the next bytes, at most `most`, from one open file to another. Returns their number.
    pub(crate) fn copy_portion(
        &mut self,
        source: OpenFile,
        target: OpenFile,
        most: u64,
        context: &mut Context<'_>,
    ) -> io::Result<u64> {
        let mut portion = vec![0; PORTION];
        let mut copied = 0;
        while copied < most {
            let length = usize::try_from(most - copied).unwrap_or(PORTION).min(PORTION);
            match self.read(source, &mut portion[..length], None, context)? {
                0 => break,
                count => {
                    self.write_all(target, &portion[..count], context)?;
                    copied += count as u64;
                }
            }
        }
        Ok(copied)
    }

    /// Copies a file's contents and permissions. Returns the number of bytes.
    pub(crate) fn copy_file(
        &mut self,
        from: &Path,
        to: &Path,
        context: &mut Context<'_>,
    ) -> io::Result<u64> {
        let (source, target) = self.begin_copy(from, to, context)?;
        let outcome = self.copy_portion(source, target, u64::MAX, context);
        self.close(source);
        self.close(target);
        outcome
    }
}
