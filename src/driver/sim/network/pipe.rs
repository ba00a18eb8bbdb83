//! Pipes and eventfds. They lie within one host.

use super::stream::{consume, copy_in, copy_out};
use super::{Ctx, HostId, Id, Kind, Network, Outcome};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};

/// The size of a page. A write of no more than this is not divided (`PIPE_BUF`).
const PAGE: usize = 4_096;
/// How many pages a pipe has.
const PAGES: usize = 16;

/// The reading end of a pipe, with the bytes.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: VecDeque<u8>,
    /// The pages that hold the bytes. As on Linux, they and not the bytes fill a pipe.
    pages: VecDeque<Page>,
    writer: Option<Id>,
}

/// A page with bytes that were not read.
#[derive(Debug)]
struct Page {
    unread: usize,
    /// How much of it was written.
    end: usize,
}

/// The writing end of a pipe.
#[derive(Debug)]
pub(super) struct Writer {
    reader: Option<Id>,
}

impl Reader {
    pub(super) fn is_readable(&self) -> bool {
        !self.bytes.is_empty() || self.writer.is_none()
    }

    /// Returns how many bytes of a write there is room for. A write first fills the last page, if
    /// the part of it that fills no whole page has room there.
    fn room_for(&self, length: usize) -> usize {
        let first = self.room_in_last(length);
        length.min(first + (PAGES - self.pages.len()) * PAGE)
    }

    fn room_in_last(&self, length: usize) -> usize {
        let part = length % PAGE;
        self.pages.back().filter(|last| last.end + part <= PAGE).map_or(0, |_| part)
    }

    /// Finds pages for the first bytes of a write of `length` bytes.
    fn fill(&mut self, count: usize, length: usize) {
        let first = self.room_in_last(length).min(count);
        if let Some(last) = self.pages.back_mut() {
            last.end += first;
            last.unread += first;
        }
        let mut left = count - first;
        while left > 0 {
            let part = left.min(PAGE);
            self.pages.push_back(Page { unread: part, end: part });
            left -= part;
        }
    }

    /// Frees the pages of bytes that were read.
    fn free(&mut self, mut count: usize) {
        while count > 0
            && let Some(first) = self.pages.front_mut()
        {
            let part = first.unread.min(count);
            first.unread -= part;
            count -= part;
            if first.unread == 0 {
                self.pages.pop_front();
            }
        }
    }
}

impl Network {
    /// Creates a pipe. Returns its reading and its writing end.
    pub(in crate::driver) fn open_pipe(&mut self, host: HostId) -> Outcome<(Id, Id)> {
        self.check_up(host)?;
        let empty = Reader { bytes: VecDeque::new(), pages: VecDeque::new(), writer: None };
        let reader = self.insert_open(host, Kind::Reader(Box::new(empty)));
        let writer = self.insert_open(host, Kind::Writer(Writer { reader: Some(reader) }));
        if let Some(end) = self.reader_mut(reader) {
            end.writer = Some(writer);
        }
        Ok((reader, writer))
    }

    /// Creates an eventfd.
    pub(in crate::driver) fn open_event(&mut self, host: HostId) -> Outcome<Id> {
        self.check_up(host)?;
        Ok(self.insert_open(host, Kind::Event(0)))
    }

    fn reader_mut(&mut self, id: Id) -> Option<&mut Reader> {
        match &mut self.sockets.get_mut(id)?.kind {
            Kind::Reader(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the reading end of a writer. Returns `None` if it is closed.
    fn reader_of(&mut self, writer: Id) -> Option<(Id, &mut Reader)> {
        let Kind::Writer(Writer { reader: Some(reader) }) = self.sockets.get(writer)?.kind else {
            return None;
        };
        self.reader_mut(reader).map(|end| (reader, end))
    }

    pub(super) fn read_pipe(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Outcome<usize> {
        let short = self.faults_at(id).short;
        let host = self.get(id)?.host;
        let reader = self.reader_mut(id).ok_or(Errno::BADF)?;
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        if length == 0 {
            return Ok(0);
        }
        if reader.bytes.is_empty() {
            return if reader.writer.is_none() { Ok(0) } else { Err(Errno::AGAIN) };
        }
        let count = ctx.draws.part_of(host, length.min(reader.bytes.len()), short);
        copy_out(&reader.bytes, count, buffers);
        consume(&mut reader.bytes, count);
        reader.free(count);
        if let Some(writer) = reader.writer {
            self.wake_writers(ctx, writer);
        }
        Ok(count)
    }

    pub(super) fn write_pipe(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &[IoSlice<'_>],
    ) -> Outcome<usize> {
        let short = self.faults_at(id).short;
        let host = self.get(id)?.host;
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        if length == 0 {
            return Ok(0);
        }
        let (reader, end) = self.reader_of(id).ok_or(Errno::PIPE)?;
        let count = end.room_for(length);
        if count == 0 {
            return Err(Errno::AGAIN);
        }
        let count = if length <= PAGE { count } else { ctx.draws.part_of(host, count, short) };
        end.fill(count, length);
        copy_in(&mut end.bytes, count, buffers);
        ctx.journal.note_bytes(count, buffers);
        self.wake_readers(ctx, reader);
        Ok(count)
    }

    pub(super) fn is_pipe_writable(&mut self, id: Id) -> bool {
        self.reader_of(id).is_none_or(|(_, reader)| reader.pages.len() < PAGES)
    }

    pub(super) fn close_reader(&mut self, ctx: &mut Ctx<'_>, reader: Reader) {
        let Some(writer) = reader.writer else { return };
        if let Some(socket) = self.sockets.get_mut(writer) {
            socket.kind = Kind::Writer(Writer { reader: None });
        }
        self.wake_writers(ctx, writer);
    }

    pub(super) fn close_writer(&mut self, ctx: &mut Ctx<'_>, writer: Writer) {
        let Some(reader) = writer.reader else { return };
        if let Some(end) = self.reader_mut(reader) {
            end.writer = None;
        }
        self.wake_readers(ctx, reader);
    }

    /// Takes the number of an eventfd.
    pub(super) fn read_event(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Outcome<usize> {
        let Kind::Event(count) = &mut self.get_mut(id)?.kind else { return Err(Errno::BADF) };
        if buffers.iter().map(|buffer| buffer.len()).sum::<usize>() < 8 {
            return Err(Errno::INVAL);
        }
        if *count == 0 {
            return Err(Errno::AGAIN);
        }
        let bytes = VecDeque::from(std::mem::take(count).to_ne_bytes());
        copy_out(&bytes, 8, buffers);
        self.wake_writers(ctx, id);
        Ok(8)
    }

    /// Adds to the number of an eventfd.
    pub(super) fn write_event(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        buffers: &[IoSlice<'_>],
    ) -> Outcome<usize> {
        let mut number = VecDeque::new();
        if buffers.iter().map(|buffer| buffer.len()).sum::<usize>() != 8 {
            return Err(Errno::INVAL);
        }
        copy_in(&mut number, 8, buffers);
        let mut bytes = [0; 8];
        copy_out(&number, 8, &mut [IoSliceMut::new(&mut bytes)]);
        let added = u64::from_ne_bytes(bytes);
        let Kind::Event(count) = &mut self.get_mut(id)?.kind else { return Err(Errno::BADF) };
        if added == u64::MAX {
            return Err(Errno::INVAL);
        }
        // The largest number that an eventfd holds is one less than a word holds.
        *count = count.checked_add(added).filter(|sum| *sum < u64::MAX).ok_or(Errno::AGAIN)?;
        if added > 0 {
            self.wake_readers(ctx, id);
        }
        Ok(8)
    }
}
