//! Two columns: the snippets of the notes, and their results.

use std::fmt::Debug;
use std::io::{self, Write};

/// The width of the left column. A longer snippet takes a line of its own.
const WIDTH: usize = 56;

/// The page, and the writer that receives it.
pub(crate) struct Page<'a> {
    out: &'a mut dyn Write,
    begun: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Page<'a> {
        Page { out, begun: false }
    }

    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            writeln!(self.out)?;
        }
        writeln!(self.out, "{text}\n{}", "─".repeat(text.chars().count()))
    }

    /// Writes a snippet and its result, which must equal `expected`.
    pub(crate) fn line<T, U>(&mut self, snippet: &str, found: T, expected: U) -> io::Result<()>
    where
        T: Debug + PartialEq<U>,
        U: Debug,
    {
        assert!(found == expected, "{snippet}: {found:?} and not {expected:?}");
        self.say(snippet, &format!("{found:?}"))
    }

    /// Writes a snippet, and its result in words.
    pub(crate) fn say(&mut self, snippet: &str, result: &str) -> io::Result<()> {
        if snippet.chars().count() > WIDTH {
            writeln!(self.out, "  {snippet}\n  {:WIDTH$}  {result}", "")
        } else {
            writeln!(self.out, "  {snippet:WIDTH$}  {result}")
        }
    }
}
