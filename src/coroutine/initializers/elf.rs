//! The symbol table of an ELF file: where functions with certain names lie.
//!
//! Only 64-bit files in little-endian order are read. Each number in the file is checked before it
//! is used, so a damaged file leads to an error and not to a panic.

use std::io::{self, Read, Seek, SeekFrom};

/// The file has no symbol table, because it was stripped.
pub(super) const STRIPPED: &str = "it has no symbol table";

const SECTION_SIZE: usize = 64;
const SYMBOL_SIZE: usize = 24;
const SYMBOL_TABLE: u32 = 2;
const FUNCTION: u8 = 2;

/// A function of a wanted kind: its addresses in the file, from the first to the one after the
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function<K> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: K,
}

/// Returns the program headers of a file, as bytes.
pub(super) fn program_headers(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let header = header(file)?;
    let (at, size, count) = (word(&header, 32)?, half(&header, 54)?, half(&header, 56)?);
    read(file, at, size * count)
}

/// Returns the functions whose names are of a kind. `words` occur in these names, at least one in
/// each.
///
/// # Errors
/// Returns [`STRIPPED`] if there is no symbol table.
pub(super) fn functions<K: Copy>(
    file: &mut (impl Read + Seek),
    words: &[&[u8]],
    kind_of: impl Fn(&[u8]) -> Option<K>,
) -> io::Result<Vec<Function<K>>> {
    let header = header(file)?;
    let (at, size, count) = (word(&header, 40)?, half(&header, 58)?, half(&header, 60)?);
    if size != SECTION_SIZE {
        return Err(damaged());
    }
    let sections = read(file, at, size * count)?;
    let section = |index: usize| sections.chunks_exact(SECTION_SIZE).nth(index);
    let mut table = None;
    for found in sections.chunks_exact(SECTION_SIZE) {
        if long(found, 4)? == SYMBOL_TABLE {
            table = Some(found);
        }
    }
    let table = table.ok_or_else(|| io::Error::other(STRIPPED))?;
    let link = usize::try_from(long(table, 40)?).map_err(|_| damaged())?;
    let strings = section(link).ok_or_else(damaged)?;
    let strings = read(file, word(strings, 24)?, word(strings, 32)?)?;
    let names = names(&strings, words, kind_of);
    let symbols = read(file, word(table, 24)?, word(table, 32)?)?;
    let mut functions = Vec::new();
    for symbol in symbols.chunks_exact(SYMBOL_SIZE) {
        let name = usize::try_from(long(symbol, 0)?).map_err(|_| damaged())?;
        let Ok(index) = names.binary_search_by_key(&name, |&(at, _)| at) else { continue };
        let (start, size) = (word(symbol, 8)?, word(symbol, 16)?);
        if symbol[4] & 0xf == FUNCTION && size != 0 {
            let end = start.checked_add(size).ok_or_else(damaged)?;
            functions.push(Function { start, end, kind: names[index].1 });
        }
    }
    Ok(functions)
}

/// Returns where the names of a kind begin, in ascending order.
fn names<K: Copy>(
    strings: &[u8],
    words: &[&[u8]],
    kind_of: impl Fn(&[u8]) -> Option<K>,
) -> Vec<(usize, K)> {
    let mut names = Vec::new();
    for word in words {
        let mut from = 0;
        while let Some(at) = position(&strings[from..], word) {
            let at = from + at;
            let start = strings[..at].iter().rposition(|&byte| byte == 0).map_or(0, |nul| nul + 1);
            let length = strings[at..].iter().position(|&byte| byte == 0);
            let end = length.map_or(strings.len(), |length| at + length);
            if let Some(kind) = kind_of(&strings[start..end]) {
                names.push((start, kind));
            }
            from = end;
        }
    }
    names.sort_unstable_by_key(|&(at, _)| at);
    names
}

/// Returns where `word` occurs first. The C library's search is fast in a debug build, too.
pub(super) fn position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    // SAFETY: both are borrowed slices of these lengths.
    let found = unsafe {
        libc::memmem(bytes.as_ptr().cast(), bytes.len(), word.as_ptr().cast(), word.len())
    };
    (!found.is_null()).then(|| found.addr() - bytes.as_ptr().addr())
}

/// Returns the file's header.
fn header(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let header = read(file, 0, 64)?;
    // The magic number, 64 bits, little-endian.
    if header.starts_with(b"\x7fELF\x02\x01") { Ok(header) } else { Err(damaged()) }
}

fn read(file: &mut (impl Read + Seek), at: usize, length: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at as u64))?;
    let mut bytes = Vec::new();
    // A length that is wrong reserves no memory.
    let whole = file.by_ref().take(length as u64).read_to_end(&mut bytes)? == length;
    if whole { Ok(bytes) } else { Err(damaged()) }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk());
    part.copied().ok_or_else(damaged)
}

fn word(bytes: &[u8], at: usize) -> io::Result<usize> {
    usize::try_from(u64::from_le_bytes(part(bytes, at)?)).map_err(|_| damaged())
}

fn long(bytes: &[u8], at: usize) -> io::Result<u32> {
    part(bytes, at).map(u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> io::Result<usize> {
    part(bytes, at).map(|part| u16::from_le_bytes(part).into())
}

fn damaged() -> io::Error {
    io::Error::other("its file cannot be read as a program of 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn search(file: &[u8]) -> io::Result<Vec<Function<()>>> {
        functions(&mut Cursor::new(file), &[b"a_function_to_be_found"], |_| Some(()))
    }

    #[inline(never)]
    #[unsafe(no_mangle)]
    extern "C" fn ecru_test_a_function_to_be_found() -> usize {
        std::hint::black_box(7)
    }

    /// A function is found by a part of its name.
    #[test]
    fn slow_a_function_is_found() {
        assert_eq!(ecru_test_a_function_to_be_found(), 7);
        assert!(!search(&own()).unwrap().is_empty());
    }

    /// A damaged file is an error or has no such function. It never panics.
    #[test]
    fn slow_a_damaged_file_does_no_harm() {
        let mut file = own();
        let sections = usize::try_from(u64::from_le_bytes(part(&file, 40).unwrap())).unwrap();
        assert!(search(&[]).is_err());
        assert!(search(b"#!/bin/sh").is_err());
        for length in [63, 64, 1000, sections, sections + 100, file.len() - 1] {
            assert!(search(&file[..length]).is_err(), "{length}");
        }
        let (mut headers, count) = (Vec::new(), half(&file, 60).unwrap());
        headers.extend(0..64);
        headers.extend(sections..sections + count * SECTION_SIZE);
        for at in headers.into_iter().step_by(3) {
            for byte in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut file[at], byte);
                // Whole tables are read for most of these, which takes long.
                if at % 5 == 0 {
                    let _ = search(&file);
                }
                let _ = program_headers(&mut Cursor::new(&file));
                file[at] = before;
            }
        }
    }
}
