//! gears' notes (a library for Scala, then called async), snippet by snippet. The left column shows
//! the snippet of the notes, and the right column the result of the same program in ecru's verbs.
//! Each snippet stands directly below the ecru code for it.

mod channels;
mod files;
mod futures;
mod page;
mod sources;
mod tasks;
mod timers;

use std::fmt;
use std::io::{self, Write};

use ecru::{Cancelled, JoinError};

use crate::page::Page;

/// Writes the whole page. It must be called inside a run.
///
/// # Errors
/// Returns an error if the page cannot be written, or if a file or socket that it uses fails.
///
/// # Panics
/// Panics if a result differs from the notes.
///
/// # Cancellation
/// The waits inside fail, and so does this function.
pub fn write(out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::new(out);
    futures::write(page)?;
    sources::write(page)?;
    futures::several(page)?;
    tasks::write(page)?;
    channels::write(page)?;
    timers::write(page)?;
    files::write(page)?;
    files::datagrams(page)
}

/// Longer than any wait here lasts. Every wait for this long is cancelled.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(3_600);

/// A failure of a future here, with a word. The library's errors are converted to it, too.
#[derive(Clone, PartialEq)]
struct Failure(String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Failure {
    fn new(word: &str) -> Failure {
        Failure(word.into())
    }
}

impl From<Cancelled> for Failure {
    fn from(_: Cancelled) -> Failure {
        Failure::new("cancelled")
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        Failure(error.to_string())
    }
}
