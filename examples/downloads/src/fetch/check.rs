//! The receiving end in the mode without URLs. Every byte is compared with what the embedded server
//! should have sent, and discarded. A failed attempt is continued where it stopped, as with a file.

use super::target::{About, Have, Target};
use super::trouble::Trouble;
use crate::content;

/// The largest piece that is compared at once, on the heap.
const CHUNK: usize = 32 * 1024;

/// Checks file `index`.
#[derive(Debug)]
pub(crate) struct Check {
    index: u64,
    size: u64,
    at: u64,
    validator: Option<String>,
    length: Option<u64>,
    chunk: Vec<u8>,
}

impl Check {
    pub(crate) fn new(index: u64, size: u64) -> Self {
        Self { index, size, at: 0, validator: None, length: None, chunk: Vec::new() }
    }
}

impl Target for Check {
    fn have(&mut self) -> Result<Option<Have>, Trouble> {
        let validator = self.validator.clone().filter(|_| self.at > 0);
        let (bytes, length) = (self.at, self.length);
        Ok(validator.map(|validator| Have { bytes, validator, length }))
    }

    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble> {
        self.at = offset;
        self.validator = about.validator().map(str::to_string);
        self.length = about.length;
        self.chunk.resize(CHUNK, 0);
        Ok(())
    }

    fn room(&mut self) -> Result<&mut [u8], Trouble> {
        Ok(&mut self.chunk)
    }

    fn filled(&mut self, count: usize) -> Result<(), Trouble> {
        if let Some(at) = content::first_difference(self.index, self.at, &self.chunk[..count]) {
            return Err(Trouble::never(
                format!("byte {at} is wrong"),
                "this is a fault of this program: report it",
            ));
        }
        self.at += count as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Trouble> {
        if self.at == self.size {
            return Ok(());
        }
        let what = format!("{} bytes came instead of {}", self.at, self.size);
        Err(Trouble::never(what, "this is a fault of this program: report it"))
    }

    fn pause(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn discard(&mut self) -> Result<(), Trouble> {
        self.at = 0;
        self.validator = None;
        Ok(())
    }
}
