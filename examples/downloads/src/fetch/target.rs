//! Where a body goes, and what of it is there already.

use super::trouble::Trouble;

/// What an answer's head says about the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    /// The whole file's length, where the server says it.
    pub(crate) length: Option<u64>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl About {
    /// What `If-Range` may name: a strong ETag, else the date of the last change (RFC 9110).
    pub(crate) fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| etag.starts_with('"') && etag.len() > 2);
        strong.or(self.last_modified.as_deref())
    }

    /// Adds the validator of an earlier answer, unless this answer has one.
    pub(crate) fn or(mut self, validator: &str) -> Self {
        if self.validator().is_none() {
            let place =
                if validator.starts_with('"') { &mut self.etag } else { &mut self.last_modified };
            *place = Some(validator.to_string());
        }
        self
    }
}

/// The beginning of a file, from an earlier attempt or an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Have {
    pub(crate) bytes: u64,
    pub(crate) validator: String,
}

/// The receiving end of one download. An attempt calls `have`, `begin`, then `room` and `filled` in turn, then `finish` or
/// `pause`.
pub(crate) trait Target {
    /// What the server may be asked to continue. With `None` only the whole will do.
    fn have(&mut self) -> Result<Option<Have>, Trouble>;

    /// A body comes that starts at `offset`: 0 (what was there is replaced), or the end of what `have` told.
    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble>;

    /// Where the next bytes go. It is never empty.
    fn room(&mut self) -> Result<&mut [u8], Trouble>;

    /// So many bytes are in the room.
    fn filled(&mut self, count: usize) -> Result<(), Trouble>;

    /// The body is complete.
    fn finish(&mut self) -> Result<(), Trouble>;

    /// The attempt failed: keep what there is for the next.
    fn pause(&mut self) -> Result<(), Trouble>;

    /// What there is cannot be trusted.
    fn discard(&mut self) -> Result<(), Trouble>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weak ETags may not be named by `If-Range`; a date may.
    #[test]
    fn validators() {
        let validator = |etag: Option<&str>, date: Option<&str>| {
            let about = About {
                length: None,
                etag: etag.map(str::to_string),
                last_modified: date.map(str::to_string),
            };
            about.validator().map(str::to_string)
        };
        assert_eq!(validator(Some("\"x\""), Some("date")).as_deref(), Some("\"x\""));
        assert_eq!(validator(Some("W/\"x\""), Some("date")).as_deref(), Some("date"));
        assert_eq!(validator(Some("W/\"x\""), None), None);
    }
}
