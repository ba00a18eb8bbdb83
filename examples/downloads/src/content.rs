//! The bytes that the embedded server serves and the client expects. They depend only on a file's
//! number and an offset.
//!
//! All files are windows into one endless repetition of a pattern whose length is a prime, and each
//! file starts at another place. The server therefore sends slices of the pattern without making or
//! copying anything. A wrong offset or a byte of another file is noticed at once, and the client's
//! check is a `memcmp`.

use std::sync::LazyLock;

/// A prime a little under a MiB: no power-of-two buffer, block or chunk is a multiple of it.
const PATTERN_LEN: usize = 1_048_573;

/// The distance in the pattern between the starts of neighbouring files (a prime too).
const FILE_STRIDE: u64 = 387_077;

static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(0x0065_6372_7500);
    let mut pattern = vec![0; PATTERN_LEN];
    random.fill(&mut pattern);
    pattern
});

/// Returns the longest contiguous run of bytes of file `index` at `offset`, at most `most` of them.
pub(crate) fn slice(index: u64, offset: u64, most: usize) -> &'static [u8] {
    let start = position(index, offset);
    let end = PATTERN_LEN.min(start.saturating_add(most));
    &PATTERN[start..end]
}

/// Returns the file offset of the first byte of `bytes`, which start at `offset`, that is wrong.
pub(crate) fn first_difference(index: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut done = 0;
    while done < bytes.len() {
        let expected = slice(index, offset + done as u64, bytes.len() - done);
        let got = &bytes[done..done + expected.len()];
        if got != expected {
            let inside = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
            return Some(offset + (done + inside) as u64);
        }
        done += expected.len();
    }
    None
}

fn position(index: u64, offset: u64) -> usize {
    let length = PATTERN_LEN as u64;
    let start = (index % length) * FILE_STRIDE % length;
    usize::try_from((start + offset % length) % length)
        .expect("less than the pattern's length, a usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a file do not depend on how it is cut, and are right across the pattern's end.
    #[test]
    fn cutting_does_not_matter() {
        let whole: Vec<u8> =
            (0..3 * PATTERN_LEN as u64).step_by(4096).flat_map(|at| read(7, at, 4096)).collect();
        assert_eq!(first_difference(7, 0, &whole), None);
        assert_eq!(first_difference(7, 12_345, &whole[12_345..2_000_000]), None);
    }

    /// One wrong byte is found, with its offset.
    #[test]
    fn a_wrong_byte_is_found() {
        let mut bytes = read(3, 1_000_000, 200_000);
        bytes[150_001] ^= 1;
        assert_eq!(first_difference(3, 1_000_000, &bytes), Some(1_150_001));
    }

    /// Another file's bytes, or the same file's bytes from another offset, are refused.
    #[test]
    fn files_and_offsets_differ() {
        let bytes = read(1, 0, 1000);
        assert!(first_difference(2, 0, &bytes).is_some());
        assert!(first_difference(1, 1, &bytes).is_some());
    }

    fn read(index: u64, offset: u64, count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < count {
            out.extend_from_slice(slice(index, offset + out.len() as u64, count - out.len()));
        }
        out
    }
}
