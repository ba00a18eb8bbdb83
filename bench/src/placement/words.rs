//! The file whose words are counted.
//!
//! It is created when it is first needed and kept in the temporary folder. Its contents are the
//! same on every machine. A chunk ends with a line end, so no word is in two chunks.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Bytes of a chunk.
pub(super) const CHUNK: usize = 1_000_000;
/// Chunks of the file.
pub(super) const CHUNKS: u64 = 200;
/// The exclusive or of the results of [`count`] for the chunks. Every contender's result must equal
/// it.
pub(super) const CHECKSUM: u64 = 0x8cd3_6cff_637f_fe4f;
/// The longest word.
const LONGEST: usize = 10;

/// Returns the path of the file, which then exists.
///
/// # Panics
///
/// Panics if it cannot be written.
pub(super) fn file() -> PathBuf {
    let path = std::env::temp_dir().join("ecru-bench-words");
    let whole = CHUNK as u64 * CHUNKS;
    if !fs::metadata(&path).is_ok_and(|file| file.len() == whole) {
        let part = path.with_extension(std::process::id().to_string());
        write(&part)
            .and_then(|()| fs::rename(&part, &path))
            .expect("the temporary folder has room");
    }
    path
}

/// Writes the file and syncs it to the disk, so that no later write disturbs a measurement.
fn write(path: &PathBuf) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(CHUNK, File::create(path)?);
    let mut state = 1;
    for _ in 0..CHUNKS {
        file.write_all(&chunk(&mut state))?;
    }
    file.into_inner()?.sync_all()
}

/// Returns one chunk of words.
fn chunk(state: &mut u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHUNK);
    while bytes.len() + LONGEST + 2 < CHUNK {
        *state = super::spin::spin(*state, 1);
        let length = 1 + (*state >> 54) as usize % LONGEST;
        bytes.extend((0..length).map(|place| b'a' + (*state >> (5 * place)) as u8 % 26));
        bytes.push(b' ');
    }
    bytes.resize(CHUNK - 1, b'z');
    bytes.push(b'\n');
    bytes
}

/// Returns the number of words plus the sum of their hashes (FNV-1a). The hashes keep a compiler
/// from finding a shortcut to the number.
pub(super) fn count(text: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    let (mut sum, mut hash) = (0_u64, BASIS);
    for &byte in text {
        if byte > b' ' {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        } else if hash != BASIS {
            sum = sum.wrapping_add(hash).wrapping_add(1);
            hash = BASIS;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_full_and_ends_with_a_line() {
        let mut state = 1;
        for _ in 0..2 {
            let chunk = chunk(&mut state);
            assert_eq!((chunk.len(), chunk.last()), (CHUNK, Some(&b'\n')));
        }
    }

    #[test]
    fn words_are_counted_once_wherever_the_blanks_are() {
        assert_eq!(count(b"a bc \n"), count(b"  a\n\nbc\n"));
        assert_ne!(count(b"a bc\n"), count(b"abc\n"));
        assert_ne!(count(b"a a\n"), count(b"a\n"));
    }
}
