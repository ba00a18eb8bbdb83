//! Lines from a connection, of which no more is kept than a request can be long.

use crate::request::LONGEST;
use std::io::{self, BufRead, BufReader, Read};

/// Reads line after line. A line that is too long is cut, and is still too long to be a request.
#[derive(Debug)]
pub struct Lines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// Creates a reader of lines from `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source: BufReader::with_capacity(4096, source),
            line: Vec::with_capacity(LONGEST + 1),
        }
    }

    /// Returns the next line without its end, or `None` at the end. Bytes after the last line end
    /// count as another line.
    ///
    /// # Errors
    /// Returns the errors of the source.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut has_begun = false;
        loop {
            let bytes = self.source.fill_buf()?;
            if bytes.is_empty() {
                return Ok(has_begun.then_some(&self.line));
            }
            has_begun = true;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = LONGEST + 1 - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.source.consume(used);
            if end.is_some() {
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::request::{LONGEST, Request};
    use std::io::{self, Read};

    /// Returns a text byte by byte, as a network may.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let taken = self.0.len().min(1).min(buffer.len());
            buffer[..taken].copy_from_slice(&self.0[..taken]);
            self.0 = &self.0[taken..];
            Ok(taken)
        }
    }

    fn all(source: impl Read) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(source);
        let mut found = vec![];
        while let Some(line) = lines.next_line().expect("it cannot fail") {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn however_they_are_split() {
        let text = b"1:2\n0:3\n\n1:4";
        let lines = ["1:2", "0:3", "", "1:4"].map(|line| line.as_bytes().to_vec());
        assert_eq!(all(&text[..]), lines);
        assert_eq!(all(Dripping(text)), lines);
        assert_eq!(all(&b""[..]), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut text = vec![b'1'; 1 << 20];
        text.extend_from_slice(b"\n1:2\n");
        let found = all(&text[..]);
        assert_eq!(found[0].len(), LONGEST + 1);
        assert_eq!(Request::parse(&found[0]), None);
        assert_eq!(found[1], b"1:2");
    }
}
