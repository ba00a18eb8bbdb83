//! Open files: reads, writes, cursors, locks and syncs.

use super::content::{LONGEST, PAGE};
use super::inode::{Attributes, Facts, Ino, Inode, Kind, Node};
use super::stored::{SECTOR, Stored};
use super::{Context, Disk, DiskFaults, fail};
use crate::base::clock;
use crate::driver::sim::{FaultKind, Incident};
use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::time::SystemTime;

/// The number of an open file, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpenFile(pub(crate) u64);

/// An open file; see the module above.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) ino: Ino,
    /// The flags of open(2).
    pub(super) flags: i32,
    pub(super) cursor: u64,
}

/// A sync under way.
#[derive(Debug)]
pub(super) struct Pending {
    ino: Ino,
    data_only: bool,
    /// What was there to be written when the sync began: the number of the file's changes, or of
    /// the last edit.
    upto: u64,
    done: Option<Result<(), i32>>,
}

/// What to do with the lock of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
    Unlock,
}

impl Open {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag == flag
    }

    fn reads(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }
}

impl Disk {
    /// Returns an open file, or `EBADF` if it was closed, or its host has crashed.
    fn opened(&self, file: OpenFile) -> io::Result<&Open> {
        self.opens.get(&file.0).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Returns an open file through which more can be done than to name its inode.
    fn usable(&self, file: OpenFile) -> io::Result<&Open> {
        let open = self.opened(file)?;
        if open.has(libc::O_PATH) { fail(libc::EBADF) } else { Ok(open) }
    }

    /// Checks that the host may have more descriptors.
    ///
    /// # Errors
    /// Fails with `EMFILE`.
    pub(crate) fn check_room(&self, more: usize, context: &mut Context<'_>) -> io::Result<()> {
        let count = self.opens.len() + context.sockets + more;
        let is_full = context.faults.open_files.is_some_and(|most| count > most as usize);
        let drawn = context.faults.exhaustion;
        if is_full || context.draws.strike(FaultKind::Full, context.host, None, drawn).is_some() {
            return fail(libc::EMFILE);
        }
        Ok(())
    }

    /// Opens an inode.
    pub(super) fn open_inode(&mut self, ino: Ino, flags: i32) -> OpenFile {
        self.inode_mut(ino).opens += 1;
        let number = self.next_number();
        self.opens.insert(number, Open { ino, flags, cursor: 0 });
        OpenFile(number)
    }

    /// Closes an open file. One that is closed already stays so.
    pub(crate) fn close(&mut self, OpenFile(number): OpenFile) {
        if let Some(open) = self.opens.remove(&number) {
            self.inode_mut(open.ino).locks.retain(|(owner, _)| *owner != number);
            self.release(open.ino, |inode| &mut inode.opens);
        }
    }

    /// Reads from this place, or from the cursor, which then moves.
    pub(crate) fn read(
        &mut self,
        file: OpenFile,
        buffer: &mut [u8],
        at: Option<u64>,
        context: &mut Context<'_>,
    ) -> io::Result<usize> {
        let open = self.usable(file)?;
        if !open.reads() {
            return fail(libc::EBADF);
        }
        let (ino, from) = (open.ino, at.unwrap_or(open.cursor));
        let Node::File(stored) = &self.inode(ino).node else { return fail(libc::EISDIR) };
        let faults = context.faults.of_file(self.inode(ino).opened_as.as_deref());
        let most = context.transfer(buffer.len(), faults)?;
        let count = stored.cache().read(from, &mut buffer[..most]);
        if count > 0
            && let Some(mut random) =
                context.draws.strike(FaultKind::Rot, context.host, None, faults.rot)
        {
            let (place, mask) = (random.below(count), 1 << random.below(8));
            buffer[place] ^= mask;
            if let Node::File(stored) = &mut self.inode_mut(ino).node {
                stored.flip(from + place as u64, mask);
            }
        }
        if at.is_none() {
            self.move_to(file, from + count as u64);
        }
        Ok(count)
    }

    /// Writes to this place, or at the cursor, which then moves. A file that was opened for
    /// appending is always written to at its end.
    pub(crate) fn write(
        &mut self,
        file: OpenFile,
        bytes: &[u8],
        at: Option<u64>,
        context: &mut Context<'_>,
    ) -> io::Result<usize> {
        let open = self.usable(file)?;
        if !open.writes() {
            return fail(libc::EBADF);
        }
        let (ino, appends) = (open.ino, open.has(libc::O_APPEND));
        let syncs = open.has(libc::O_DSYNC);
        let from = at.unwrap_or(open.cursor);
        let free = self.free_pages(context);
        let Node::File(stored) = &self.inode(ino).node else { return fail(libc::EBADF) };
        if bytes.is_empty() {
            return Ok(0);
        }
        let from = if appends { stored.cache().length() } else { from };
        if from >= LONGEST {
            return fail(libc::EFBIG);
        }
        let room = usize::try_from(LONGEST - from).unwrap_or(usize::MAX);
        let faults = context.faults.of_file(self.inode(ino).opened_as.as_deref());
        let most = context.transfer(bytes.len(), faults)?.min(room);
        let count = stored.cache().fitting(from, most, free);
        if count == 0 {
            return fail(libc::ENOSPC);
        }
        context.journal.note_slice(&bytes[..count]);
        let end = stored.cache().length().max(from + count as u64);
        let to = context.destination(from, count, end, faults);
        self.change(ino, context.now, |stored| {
            if to != from {
                stored.set_length(end);
            }
            stored.write(to, &bytes[..count]);
        });
        if at.is_none() {
            self.move_to(file, from + count as u64);
        }
        if syncs {
            self.sync_now(ino, false);
        }
        Ok(count)
    }

    /// Changes the content of a file, and counts its pages.
    pub(super) fn change(&mut self, ino: Ino, now: SystemTime, change: impl FnOnce(&mut Stored)) {
        let inode = self.inode_mut(ino);
        let before = inode.pages();
        if let Node::File(stored) = &mut inode.node {
            change(stored);
        }
        inode.attributes.modified = now;
        let after = inode.pages();
        self.pages = self.pages - before + after;
    }

    /// Returns how many more pages there is room for.
    fn free_pages(&self, context: &Context<'_>) -> u64 {
        match context.faults.capacity {
            Some(bytes) => (bytes / PAGE).saturating_sub(self.pages),
            None => u64::MAX,
        }
    }

    fn move_to(&mut self, OpenFile(number): OpenFile, cursor: u64) {
        if let Some(open) = self.opens.get_mut(&number) {
            open.cursor = cursor;
        }
    }

    /// Moves the cursor, and returns where it is now.
    pub(crate) fn seek(&mut self, file: OpenFile, to: SeekFrom) -> io::Result<u64> {
        let open = self.usable(file)?;
        let (base, distance) = match to {
            SeekFrom::Start(place) => (place, 0),
            SeekFrom::End(distance) => (self.inode(open.ino).size(), distance),
            SeekFrom::Current(distance) => (open.cursor, distance),
        };
        match base.checked_add_signed(distance).filter(|place| *place <= LONGEST) {
            Some(place) => {
                self.move_to(file, place);
                Ok(place)
            }
            None => fail(libc::EINVAL),
        }
    }

    /// Returns the facts about an open file, and its cursor.
    pub(crate) fn facts_of(&self, file: OpenFile) -> io::Result<(Facts, u64)> {
        let open = self.opened(file)?;
        Ok((self.facts(open.ino), open.cursor))
    }

    /// Cuts or extends a file.
    pub(crate) fn set_length(
        &mut self,
        file: OpenFile,
        length: u64,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        if length > LONGEST {
            return fail(libc::EINVAL);
        }
        let open = self.usable(file)?;
        let (ino, writes) = (open.ino, open.writes());
        if !writes || self.inode(ino).kind() != Kind::File {
            return fail(libc::EINVAL);
        }
        self.change(ino, context.now, |stored| stored.set_length(length));
        Ok(())
    }

    /// Sets the times of an open file.
    pub(crate) fn set_times(
        &mut self,
        file: OpenFile,
        accessed: SystemTime,
        modified: SystemTime,
    ) -> io::Result<()> {
        let ino = self.usable(file)?.ino;
        self.check_owner(ino)?;
        let attributes = &mut self.inode_mut(ino).attributes;
        *attributes = Attributes { accessed, modified, ..*attributes };
        Ok(())
    }

    /// Returns the inode of an open file whose attributes can be changed through it.
    pub(super) fn ino_of(&self, file: OpenFile) -> io::Result<Ino> {
        Ok(self.usable(file)?.ino)
    }

    /// Acquires, converts or releases the lock of an open file. Fails with `EAGAIN` if another open
    /// file's lock is in the way. A lock that was to be converted is released in any case.
    pub(crate) fn lock(&mut self, file: OpenFile, lock: Lock) -> io::Result<()> {
        let ino = self.usable(file)?.ino;
        let locks = &mut self.inode_mut(ino).locks;
        let exclusive = lock == Lock::Exclusive;
        if lock != Lock::Unlock && locks.contains(&(file.0, exclusive)) {
            return Ok(());
        }
        locks.retain(|(owner, _)| *owner != file.0);
        if lock == Lock::Unlock {
            return Ok(());
        }
        if locks.iter().any(|(_, other)| exclusive || *other) {
            return fail(libc::EAGAIN);
        }
        locks.push((file.0, exclusive));
        Ok(())
    }

    /// Writes an open file's changes to the disk. If that takes time, fails with `EAGAIN`. If `op`
    /// is a number, the sync has then begun under that number, which identifies it when it is
    /// attempted again.
    pub(crate) fn sync(
        &mut self,
        file: OpenFile,
        data_only: bool,
        op: Option<u64>,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        if let Some(op) = op
            && let Some(pending) = self.pending.get(&op)
        {
            let Some(done) = pending.done else { return fail(libc::EAGAIN) };
            self.pending.remove(&op);
            return done.map_err(io::Error::from_raw_os_error);
        }
        let ino = self.usable(file)?.ino;
        let upto = match &self.inode(ino).node {
            Node::File(stored) => stored.changes(),
            _ => self.edits,
        };
        let pending = Pending { ino, data_only, upto, done: None };
        let faults = context.faults.of_file(self.inode(ino).opened_as.as_deref());
        if faults.sync_latency.end().is_zero() {
            return self.write_out(&pending, context).map_err(io::Error::from_raw_os_error);
        }
        if let Some(op) = op {
            let latency = context.draws.sync_latency(context.host, &faults.sync_latency);
            context.begun.push((latency, op));
            self.pending.insert(op, pending);
        }
        fail(libc::EAGAIN)
    }

    /// Ends a sync whose time has come. Returns whether its op is still waiting.
    pub(crate) fn finish_sync(&mut self, op: u64, context: &mut Context<'_>) -> bool {
        let Some(mut pending) = self.pending.remove(&op) else { return false };
        pending.done = Some(self.write_out(&pending, context));
        self.pending.insert(op, pending);
        true
    }

    /// Withdraws a sync that has not ended.
    pub(crate) fn cancel_sync(&mut self, op: u64) {
        self.pending.remove(&op);
    }

    fn write_out(&mut self, pending: &Pending, context: &mut Context<'_>) -> Result<(), i32> {
        let Pending { ino, data_only, upto, .. } = *pending;
        let inode = self.inodes.get(&ino);
        let path = inode.and_then(|inode| inode.opened_as.as_deref());
        let DiskFaults { errors, lies, .. } = *context.faults.of_file(path);
        let fails = context.draws.strike(FaultKind::Sync, context.host, None, errors);
        // A directory is kept as a whole.
        let is_file = inode.is_some_and(|inode| matches!(inode.node, Node::File(_)));
        let lies = if fails.is_none() && is_file { lies } else { 0.0 };
        let lies = context.draws.strike(FaultKind::Lie, context.host, None, lies);
        // The file may have been closed and removed meanwhile.
        let Some(inode) = self.inodes.get_mut(&ino) else { return Ok(()) };
        if let Some(mut random) = fails {
            if let Node::File(stored) = &mut inode.node {
                stored.fail_to_sync(context.faults, &mut random);
            }
            return Err(libc::EIO);
        }
        if let (Some(mut random), Node::File(stored)) = (lies, &mut inode.node) {
            stored.fail_to_sync(context.faults, &mut random);
        }
        write_inode(inode, data_only, upto);
        if let Some(file) = inode.opened_as.clone() {
            let what = Incident::Synced { is_directory: inode.is_directory() };
            context.journal.note_text(clock::common_now(), context.host, what, file);
        }
        if context.faults.journals_names {
            self.commit_all(u64::MAX);
        } else if self.inode(ino).is_directory() {
            self.commit(BTreeMap::from([(ino, upto)]));
        }
        Ok(())
    }

    /// Writes all of a file's changes to the disk at once.
    fn sync_now(&mut self, ino: Ino, data_only: bool) {
        write_inode(self.inode_mut(ino), data_only, u64::MAX);
    }
}

/// Writes the changes of an inode, but not those of its entries, to the disk.
fn write_inode(inode: &mut Inode, data_only: bool, upto: u64) {
    if let Node::File(stored) = &mut inode.node {
        stored.sync(upto);
    }
    if !data_only {
        inode.synced = inode.attributes;
    }
}

impl Context<'_> {
    /// Returns how many bytes of a transfer of this length are moved, or fails with `EIO`.
    fn transfer(&mut self, length: usize, faults: &DiskFaults) -> io::Result<usize> {
        let DiskFaults { errors, short_transfers, .. } = *faults;
        if self.draws.strike(FaultKind::Error, self.host, None, errors).is_some() {
            return fail(libc::EIO);
        }
        Ok(self.draws.part_of(self.host, length, short_transfers))
    }

    /// Returns where a write of `count` bytes goes that is meant for `from`: to that place, or whole
    /// sectors away from it, but not beyond the end of the file.
    fn destination(&mut self, from: u64, count: usize, end: u64, faults: &DiskFaults) -> u64 {
        let (before, behind) = (from / SECTOR, (end - from - count as u64) / SECTOR);
        let probability = if before + behind > 0 { faults.misdirection } else { 0.0 };
        let Some(mut random) = self.draws.strike(FaultKind::Astray, self.host, None, probability)
        else {
            return from;
        };
        match random.below((before + behind).max(1) as usize) as u64 {
            _ if before + behind == 0 => from,
            sectors if sectors < before => from - (sectors + 1) * SECTOR,
            sectors => from + (sectors - before + 1) * SECTOR,
        }
    }
}
