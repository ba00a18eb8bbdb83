//! A search of the memory of this process for certain words.
//!
//! The memory is read through `/proc/self/mem`. So a page that is unmapped meanwhile is an error and
//! no fault, and a word that another thread writes meanwhile has the old or the new value. Only
//! writable memory is read, and of it only what is resident or swapped out. The search runs on a
//! thread of its own, so that it does not keep a worker from its tasks, and passes over that thread's
//! stack and buffers. It gives up if there is too much memory.

#![cfg_attr(
    any(ecru_baton, miri, loom),
    allow(
        dead_code,
        unused_imports,
        reason = "the stacks of tasks are not known, so nothing is searched"
    )
)]

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;

use crate::channel;
#[cfg(not(any(ecru_baton, miri, loom)))]
use crate::coroutine::stack::{own_stack, page_size};
use crate::park::HandleWord;
use crate::scope::shield;

/// The greatest number of bytes that are searched. Code that is not optimized takes ten times as long.
const BYTES_MAX: usize = if cfg!(debug_assertions) { 128 << 20 } else { 512 << 20 };
/// The number of bytes that are read at once, and of the pages that are looked up at once.
const CHUNK: usize = 256 << 10;
const PAGES: usize = 16 << 10;
/// The greatest number of handles of one channel that are looked at.
const PLACES_MAX: usize = 1000;
const WORD: usize = size_of::<usize>();

/// For each word the owners in whose memory it, or a pointer to a place of it, was found. `None` if
/// it was found elsewhere, too, or nowhere.
pub(super) type Holders = Vec<Option<Vec<usize>>>;

/// Searches for words, which are in ascending order. `owned` is the memory that belongs to one owner,
/// or in which there is nothing.
/// Returns `None` if the memory cannot be searched.
pub(super) fn holders(
    words: Vec<HandleWord>,
    owned: Vec<(Range<usize>, Option<usize>)>,
) -> Option<Holders> {
    let (sender, receiver) = channel::oneshot();
    let search = move || drop(sender.send(Search::new(words, owned).run().ok()));
    thread::Builder::new().name(String::from("ecru-search")).spawn(search).ok()?;
    // The tasks that wait are what is looked at, whatever has been cancelled.
    shield(|| receiver.recv()).ok().flatten()
}

struct Search {
    /// In ascending order, each with the number of what it belongs to.
    words: Vec<(HandleWord, usize)>,
    /// In ascending order, without overlap.
    owned: Vec<(Range<usize>, Option<usize>)>,
    /// The memory of the search itself.
    own: Vec<Range<usize>>,
    found: Vec<Found>,
}

/// Where a word was found.
#[derive(Clone, Debug, Default)]
struct Found {
    owners: Vec<usize>,
    is_elsewhere: bool,
    /// The complements of the addresses at which handles of an owner lie.
    places: Vec<HandleWord>,
}

impl Search {
    fn new(words: Vec<HandleWord>, mut owned: Vec<(Range<usize>, Option<usize>)>) -> Search {
        // What has become a task's since it was unused comes behind, and is found.
        owned.sort_unstable_by_key(|(range, owner)| (range.start, owner.is_some()));
        let found = vec![Found::default(); words.len()];
        let words = words.into_iter().enumerate().map(|(number, word)| (word, number)).collect();
        Search { words, owned, own: Vec::new(), found }
    }

    #[cfg(any(ecru_baton, miri, loom))]
    fn run(self) -> io::Result<Holders> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(any(ecru_baton, miri, loom)))]
    fn run(mut self) -> io::Result<Holders> {
        let (mut chunk, mut pages) = (buffer(CHUNK)?, buffer(PAGES * 8)?);
        let (low, high) = own_stack();
        self.own.push(low..high);
        self.own.extend([&chunk, &pages].map(|buffer| buffer.as_ptr_range()).map(addresses));
        let searched = self.search(&mut chunk, &mut pages).and_then(|()| {
            // Whatever points to a handle may use it, too.
            self.look_for_pointers();
            self.search(&mut chunk, &mut pages)
        });
        // The copies must not be there when the next search comes.
        chunk.fill(0);
        std::hint::black_box(&chunk);
        searched?;
        let holders = |found: Found| {
            let is_kept = !found.is_elsewhere && !found.owners.is_empty();
            is_kept.then_some(found.owners)
        };
        Ok(self.found.into_iter().map(holders).collect())
    }

    #[cfg(not(any(ecru_baton, miri, loom)))]
    fn search(&mut self, chunk: &mut [u8], pages: &mut [u8]) -> io::Result<()> {
        let (memory, pagemap) = (File::open("/proc/self/mem")?, File::open("/proc/self/pagemap")?);
        let page = page_size();
        let mut left = BYTES_MAX;
        for mapping in mappings(&fs::read_to_string("/proc/self/maps")?) {
            let mut at = mapping.start;
            while at < mapping.end {
                let count = ((mapping.end - at) / page).min(PAGES);
                let entries = &mut pages[..count * 8];
                pagemap.read_exact_at(entries, (at / page * 8) as u64)?;
                for run in runs(entries) {
                    let (mut place, end) = (at + run.start * page, at + run.end * page);
                    left = left.checked_sub(end - place).ok_or(io::ErrorKind::FileTooLarge)?;
                    while place < end {
                        let part = &mut chunk[..CHUNK.min(end - place)];
                        if memory.read_exact_at(part, place as u64).is_ok() {
                            self.look(place, part);
                        } else {
                            // A page of a guard looks as if it were swapped out.
                            self.look_at_pages(&memory, place, part);
                        }
                        place += part.len();
                    }
                }
                at += count * page;
            }
        }
        Ok(())
    }

    /// Goes on to the pointers to the handles that have been found, which belong to what those handles
    /// belong to.
    #[cfg(not(any(ecru_baton, miri, loom)))]
    fn look_for_pointers(&mut self) {
        self.words.clear();
        for (number, found) in self.found.iter_mut().enumerate() {
            let places = std::mem::take(&mut found.places);
            if !found.is_elsewhere {
                self.words.extend(places.into_iter().map(|place| (place, number)));
            }
        }
        self.words.sort_unstable();
    }

    /// Looks at each page of a part that cannot be read as a whole. A page that cannot be read has
    /// no handles: it belongs to a guard or a device, or has just been unmapped.
    #[cfg(not(any(ecru_baton, miri, loom)))]
    fn look_at_pages(&mut self, memory: &File, start: usize, part: &mut [u8]) {
        for (number, page) in part.chunks_mut(page_size()).enumerate() {
            let place = start + number * page_size();
            if memory.read_exact_at(page, place as u64).is_ok() {
                self.look(place, page);
            }
        }
    }

    /// Looks for the words in a copy of the memory at `start`.
    fn look(&mut self, start: usize, copy: &[u8]) {
        let (words, _) = copy.as_chunks::<WORD>();
        for (number, word) in words.iter().enumerate() {
            let word = HandleWord::from_complement(!usize::from_ne_bytes(*word));
            if let Ok(place) = self.words.binary_search_by_key(&word, |(word, _)| *word) {
                self.note(self.words[place].1, start + number * WORD);
            }
        }
    }

    fn note(&mut self, which: usize, at: usize) {
        if self.own.iter().any(|own| own.contains(&at)) {
            return;
        }
        let behind = self.owned.partition_point(|(range, _)| range.start <= at);
        let owner = behind.checked_sub(1).map(|before| &self.owned[before]);
        let found = &mut self.found[which];
        match owner.filter(|(range, _)| range.contains(&at)) {
            None => found.is_elsewhere = true,
            Some((_, Some(owner))) => {
                if !found.owners.contains(owner) {
                    found.owners.push(*owner);
                }
                if found.places.len() < PLACES_MAX {
                    found.places.push(HandleWord::from_complement(!at));
                } else {
                    found.is_elsewhere = true;
                }
            }
            Some((_, None)) => {}
        }
    }
}

/// Makes a buffer, if there is memory for it.
#[cfg(not(any(ecru_baton, miri, loom)))]
fn buffer(bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}

fn addresses(range: Range<*const u8>) -> Range<usize> {
    range.start.addr()..range.end.addr()
}

/// Returns the writable mappings, as `/proc/PID/maps` lists them.
fn mappings(maps: &str) -> impl Iterator<Item = Range<usize>> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        rest.starts_with("rw").then_some(address(start)?..address(end)?)
    })
}

/// Returns the runs of pages that have content, as `/proc/PID/pagemap` describes them.
fn runs(entries: &[u8]) -> impl Iterator<Item = Range<usize>> {
    /// The page is in memory, or swapped out.
    const HAS_CONTENT: u64 = 0b11 << 62;
    let (entries, _) = entries.as_chunks::<8>();
    let has_content = |entry: &[u8; 8]| u64::from_ne_bytes(*entry) & HAS_CONTENT != 0;
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + entries[at..].iter().position(has_content)?;
        let length = entries[start..].iter().position(|entry| !has_content(entry));
        at = length.map_or(entries.len(), |length| start + length);
        Some(start..at)
    })
}

#[cfg(all(test, not(any(ecru_baton, miri, loom))))]
mod tests {
    use super::{HandleWord, mappings, runs};
    use crate::channel;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    /// Returns the first word of a value.
    fn word_of<T>(value: &T) -> HandleWord {
        assert!(size_of::<T>() >= size_of::<usize>());
        let mut word = [0; size_of::<usize>()];
        let at = std::ptr::from_ref(value).addr() as u64;
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut word, at).unwrap();
        HandleWord::from_complement(!usize::from_ne_bytes(word))
    }

    /// The search relies on what std's `Arc` consists of.
    #[test]
    fn each_handle_contains_the_word() {
        #[repr(align(64))]
        struct Aligned;
        let (small, aligned) = (Arc::new(7_u8), Arc::new(Aligned));
        assert_eq!(word_of(&small), HandleWord::of_shared(Arc::as_ptr(&small)));
        assert_eq!(word_of(&aligned), HandleWord::of_shared(Arc::as_ptr(&aligned)));
        assert_eq!(word_of(&Arc::downgrade(&aligned)), word_of(&aligned));
        let (sender, receiver) = channel::bounded::<u8>(1);
        assert_eq!([word_of(&receiver), word_of(&sender.downgrade())], [word_of(&sender); 2]);
    }

    #[test]
    fn only_writable_mappings_are_searched() {
        let maps = "1000-3000 rw-p 00000000 00:00 0 [heap]\n3000-4000 r--p 00000000 00:00 0\n\
                    4000-5000 ---p 00000000 00:00 0\n7000-8000 rwxs 00000000 00:00 0 /x y\n";
        assert_eq!(mappings(maps).collect::<Vec<_>>(), [0x1000..0x3000, 0x7000..0x8000]);
    }

    #[test]
    fn pages_with_content_are_found() {
        let (present, swapped, none) = (1_u64 << 63, 1_u64 << 62, 1_u64 << 55);
        let entries = [none, present, swapped, none, none, present];
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        assert_eq!(runs(&bytes).collect::<Vec<_>>(), [1..3, 5..6]);
        assert_eq!(runs(&[]).count(), 0);
    }
}
