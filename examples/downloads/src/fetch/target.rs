//! The destination of a body, and what of it is there already.

use super::trouble::Trouble;

/// The properties of a file in an answer's head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    /// The whole file's length, if the server reports it.
    pub(crate) length: Option<u64>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl About {
    /// Returns the validator for `If-Range`: a strong ETag, otherwise the date of the last change
    /// (RFC 9110).
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
    /// The whole file's length, if the server reported it then.
    pub(crate) length: Option<u64>,
}

/// The receiving end of one download. An attempt calls `have`, `begin`, then `room` and `filled` in
/// turn, then `finish` or `pause`.
pub(crate) trait Target {
    /// Returns what the server may be asked to continue. With `None` only the whole file will do.
    fn have(&mut self) -> Result<Option<Have>, Trouble>;

    /// Announces a body that starts at `offset`, which is 0 (existing bytes are replaced) or the
    /// end of what `have` returned.
    fn begin(&mut self, offset: u64, about: &About) -> Result<(), Trouble>;

    /// Returns the buffer for the next bytes. It is never empty.
    fn room(&mut self) -> Result<&mut [u8], Trouble>;

    /// Records that the first `count` bytes of the buffer are filled.
    fn filled(&mut self, count: usize) -> Result<(), Trouble>;

    /// Called when the body is complete.
    fn finish(&mut self) -> Result<(), Trouble>;

    /// Called when the attempt failed. The bytes are kept for the next attempt.
    fn pause(&mut self) -> Result<(), Trouble>;

    /// Called when the existing bytes cannot be trusted.
    fn discard(&mut self) -> Result<(), Trouble>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weak ETags may not be used in `If-Range`. A date may.
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
