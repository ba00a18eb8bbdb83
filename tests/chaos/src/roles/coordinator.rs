//! Maps the function over its items, and writes each result that it gets.

use std::io;

use ecru::{Cancelled, Scope};

use super::{MAP_FAILED, Place};
use crate::journal::Line;
use crate::shop::{self, ITEMS};

pub(super) fn map<'s>(s: &'s Scope<'s, '_>, place: &Place<'_>, run: &str) -> io::Result<i32> {
    let square = shop::square(&shop::connect(s, place.urls)?)?;
    let results = shop::until(|| square.map(run, 0..ITEMS))?;
    for (index, result) in (0..).zip(results) {
        let value = match result.map_err(io::Error::from) {
            Ok(value) => value,
            Err(error) if Cancelled::find(&error).is_some() => return Err(error),
            Err(error) => {
                eprintln!("item {index} of {run} has failed: {error}");
                return Ok(MAP_FAILED);
            }
        };
        place.journal.note(&Line::Got { run: run.to_owned(), index, value })?;
    }
    place.journal.note(&Line::Mapped { run: run.to_owned() })?;
    Ok(0)
}
