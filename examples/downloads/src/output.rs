//! Standard output. An error of it does not stop the downloads. It is reported at the end, and the
//! exit status tells of it.

use std::io::{self, Write as _};
use std::sync::OnceLock;

/// The first error.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Writes a line.
pub(crate) fn print(line: &str) {
    let mut out = io::stdout().lock();
    note(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Records the result of a write.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written {
        // Only the first error is reported.
        let _ = FAILED.set(error);
    }
}

/// Returns the first error.
pub(crate) fn error() -> Option<&'static io::Error> {
    FAILED.get()
}
