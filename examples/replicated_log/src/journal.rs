//! What a node must not forget: its votes and its entries, in a file of records.
//!
//! A record is a line: a checksum and JSON. A crash can cut off the last records, or leave parts of
//! them. Everything that was synced comes before them, so a node that starts reads up to the first
//! record that is not whole, and removes the rest.

use crate::message::Entry;
use ecru::fs::{File, OpenOptions};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// A change of what the node knows.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Record {
    /// A new term, or the node's vote in its term.
    Term { term: u64, vote: Option<usize> },
    /// An entry, and its number. It replaces those with that number and with larger ones.
    Entry { number: usize, entry: Entry },
}

/// The file.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    /// Opens the journal and returns its records.
    ///
    /// # Errors
    /// Returns the errors of the file system.
    pub(crate) fn open(path: &Path) -> io::Result<(Journal, Vec<Record>)> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (records, whole) = whole_records(&bytes);
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        file.sync_all()?;
        // The name of a new file is in its directory.
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok((Journal(file), records))
    }

    /// Appends records. When it returns, they are on disk.
    ///
    /// # Errors
    /// Returns the errors of the file system. What is on disk is not known then, so the node has to
    /// start again.
    pub(crate) fn store(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            let json = serde_json::to_string(record)?;
            writeln!(bytes, "{:016x} {json}", checksum(json.as_bytes()))?;
        }
        self.0.write_all(&bytes)?;
        self.0.sync_data()
    }
}

/// Returns the records up to the first that is not whole, and the length of these in bytes.
fn whole_records(bytes: &[u8]) -> (Vec<Record>, u64) {
    let (mut records, mut whole) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(record) = whole_record(line) else { break };
        records.push(record);
        whole += line.len() as u64;
    }
    (records, whole)
}

fn whole_record(line: &[u8]) -> Option<Record> {
    let line = str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, json) = line.split_once(' ')?;
    let is_whole = u64::from_str_radix(sum, 16).ok()? == checksum(json.as_bytes());
    if is_whole { serde_json::from_str(json).ok() } else { None }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{Record, checksum, whole_records};

    fn line(term: u64) -> String {
        let record = Record::Term { term, vote: None };
        let json = serde_json::to_string(&record).expect("a record can be written");
        format!("{:016x} {json}\n", checksum(json.as_bytes()))
    }

    /// A crash may leave any part of the last records.
    #[test]
    fn records_end_before_the_first_that_is_not_whole() {
        let bytes = [line(1), line(2), line(3)].concat().into_bytes();
        let (first, two) = (line(1).len(), line(1).len() + line(2).len());
        for end in 0..bytes.len() {
            let (records, whole) = whole_records(&bytes[..end]);
            let expected = if end < first {
                0
            } else if end < two {
                1
            } else {
                2
            };
            assert_eq!((records.len(), whole as usize), (expected, expected * first), "{end}");
        }
        // The middle of the second is lost, and the third is whole.
        let mut torn = bytes.clone();
        torn[first + 20] = 0;
        assert_eq!(whole_records(&torn).0.len(), 1);
        assert_eq!(whole_records(&bytes).0.len(), 3);
    }
}
