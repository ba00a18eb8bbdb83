//! The module of the same name, but all candidates look the same to a node that receives a request.
//! So it does not notice that it has voted for another one.

#[path = "../../src/message.rs"]
mod real;

pub(crate) use real::Entry;
pub(crate) use real::{Answer, CALL, Connection, Request, send};

use std::io::{self, BufRead};

pub(crate) fn receive(lines: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut request = real::receive(lines)?;
    if let Some(Request::Vote { candidate, .. }) = &mut request {
        *candidate = usize::MAX;
    }
    Ok(request)
}
