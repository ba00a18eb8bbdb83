//! The bytes of a file, in pages. A page that was never written to needs no memory, so a file may
//! be sparse.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The size of a page. Space is counted in pages.
pub(super) const PAGE: u64 = 4096;
/// The length of the longest file.
pub(super) const LONGEST: u64 = i64::MAX as u64;

type Page = [u8; PAGE as usize];

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    length: u64,
    /// The pages that have been written to. Their bytes beyond the length are 0.
    pages: BTreeMap<u64, Arc<Page>>,
}

/// A part of a range of bytes that lies in one page.
struct Piece {
    page: u64,
    /// Where the piece begins in its page.
    start: usize,
    /// Where the piece begins in the range.
    offset: usize,
    length: usize,
}

fn pieces(at: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut offset = 0;
    iter::from_fn(move || {
        let place = at + offset as u64;
        let start = (place % PAGE) as usize;
        let piece = Piece {
            page: place / PAGE,
            start,
            offset,
            length: (PAGE as usize - start).min(length - offset),
        };
        offset += piece.length;
        (piece.length > 0).then_some(piece)
    })
}

/// Returns the numbers of the pages that a range of bytes, which is not empty, lies in.
pub(super) fn pages_of(at: u64, length: usize) -> RangeInclusive<u64> {
    at / PAGE..=(at + length as u64 - 1) / PAGE
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of pages that need space.
    pub(super) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Copies bytes to the buffer, up to the file's end. Returns their number.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        for piece in pieces(at, count) {
            let target = &mut buffer[piece.offset..piece.offset + piece.length];
            match self.pages.get(&piece.page) {
                Some(page) => {
                    target.copy_from_slice(&page[piece.start..piece.start + piece.length]);
                }
                None => target.fill(0),
            }
        }
        count
    }

    /// Writes bytes, and extends the file if they end beyond its end.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        for piece in pieces(at, bytes.len()) {
            let page = self.pages.entry(piece.page).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[piece.start..piece.start + piece.length]
                .copy_from_slice(&bytes[piece.offset..piece.offset + piece.length]);
        }
        if !bytes.is_empty() {
            self.length = self.length.max(at + bytes.len() as u64);
        }
    }

    /// Changes bits of one byte. One that was never written to stays 0.
    pub(super) fn flip(&mut self, at: u64, mask: u8) {
        if at < self.length
            && let Some(page) = self.pages.get_mut(&(at / PAGE))
        {
            Arc::make_mut(page)[(at % PAGE) as usize] ^= mask;
        }
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            drop(self.pages.split_off(&length.div_ceil(PAGE)));
            let tail = (length % PAGE) as usize;
            if tail > 0
                && let Some(page) = self.pages.get_mut(&(length / PAGE))
            {
                Arc::make_mut(page)[tail..].fill(0);
            }
        }
        self.length = length;
    }

    /// Returns how many of the bytes can be written if there is space for this number of new pages.
    pub(super) fn fitting(&self, at: u64, length: usize, mut space: u64) -> usize {
        for piece in pieces(at, length) {
            if !self.pages.contains_key(&piece.page) {
                if space == 0 {
                    return piece.offset;
                }
                space -= 1;
            }
        }
        length
    }

    /// Replaces some pages by those of another file, which has the same length.
    pub(super) fn share(&mut self, other: &Content, pages: &BTreeSet<u64>) {
        debug_assert_eq!(self.length, other.length);
        for number in pages {
            match other.pages.get(number) {
                Some(page) => self.pages.insert(*number, Arc::clone(page)),
                None => self.pages.remove(number),
            };
        }
    }
}
