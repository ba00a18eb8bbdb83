//! gears' notes (a library for Scala, then called async), snippet by snippet: on the left what they write, on the right what came
//! of the same thing in ecru's verbs. Each snippet stands right below the code that does it here.

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

/// Writes the whole page. To be called inside a run.
///
/// # Errors
/// When the page cannot be written, or a file or socket that it uses fails.
///
/// # Panics
/// When something on it is not as the notes say.
///
/// # Cancellation
/// What waits fails, and so does this.
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

/// Longer than anything here lasts: whatever waits for so long is cancelled.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(3_600);

/// How a future fails here: with a word. What the library says becomes one, too.
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
