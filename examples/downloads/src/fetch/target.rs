//! Where a body goes, and what of it is there already.

use super::trouble::Trouble;

/// What an answer's head says about the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    /// The whole file's length, where the server says it.
    pub(crate) length: Option<u64>,
    /// What `If-Range` may name: a strong ETag, else the date of the last change.
    pub(crate) validator: Option<String>,
}

/// The beginning of a file, from an earlier attempt or an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Have {
    pub(crate) bytes: u64,
    pub(crate) validator: String,
}

/// The receiving end of one download. One attempt calls `have`, `begin`, `write` often, then `finish` or `pause`.
pub(crate) trait Target {
    /// What the server may be asked to continue; `None`: only the whole will do.
    fn have(&mut self) -> Result<Option<Have>, Trouble>;

    /// A body comes that starts at `offset`: 0 (afresh: what was there goes), or the end of what `have` told.
    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble>;

    /// The next bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble>;

    /// The body is complete.
    fn finish(&mut self) -> Result<(), Trouble>;

    /// The attempt failed: keep what there is for the next.
    fn pause(&mut self) -> Result<(), Trouble>;

    /// What there is cannot be trusted.
    fn discard(&mut self) -> Result<(), Trouble>;
}
