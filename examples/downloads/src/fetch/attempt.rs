//! One attempt at one file: a request, the interpretation of the answer's head, and the body.

use std::io::{self, Read as _};

use ureq::http::Method;
use ureq::http::header::{IF_RANGE, RANGE};

use super::ask::ask;
use super::head::{self, Meaning};
use super::target::Target;
use super::trouble::Trouble;
use super::{Job, Manner};
use crate::client::Client;
use crate::progress::Lane;

/// Tries to download what `target` lacks. `Ok` means that the target is complete, checked against
/// the announced length.
pub(super) fn attempt(
    client: &Client,
    job: &Job,
    manner: &Manner,
    target: &mut dyn Target,
    lane: &Lane<'_>,
) -> Result<(), Trouble> {
    // A part that the server does not continue is discarded, so there is a second turn at most.
    let (mut answer, offset, about) = loop {
        let have = target.have()?;
        let extra = have.as_ref().map(|have| {
            [(RANGE, format!("bytes={}-", have.bytes)), (IF_RANGE, have.validator.clone())]
        });
        let extra = extra.as_ref().map(|extra| &extra[..]).unwrap_or_default();
        let answer = ask(client, job, manner, &Method::GET, extra)?;
        client.forget_excess();
        match head::read(answer.status(), answer.headers(), have.as_ref())? {
            Meaning::Body { offset, about } => break (answer, offset, about),
            Meaning::AllThere(about) => {
                target.begin(have.map_or(0, |have| have.bytes), &about)?;
                return target.finish();
            }
            Meaning::Stale => target.discard()?,
            Meaning::Refused => return Err(answer.trouble()),
        }
    };
    lane.starts(offset, about.length);
    target.begin(offset, &about)?;

    let mut body = answer.response.body_mut().as_reader();
    let mut at = offset;
    loop {
        let mut room = target.room()?;
        if let Some(throttle) = &manner.throttle {
            let allowed = throttle.take(room.len()).map_err(|_| Trouble::Cancelled);
            room = &mut room[..allowed?];
        }
        let asked = room.len();
        let read = body.read(room);
        if let Some(throttle) = &manner.throttle {
            throttle.give_back(asked - read.as_ref().map_or(0, |count| *count));
        }
        match read {
            Ok(0) => break,
            Ok(count) => {
                target.filled(count)?;
                at += count as u64;
                lane.advances(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // The bytes that have arrived are good, and worth keeping even if the disk reports
                // another error.
                let _ = target.pause();
                return Err(Trouble::reading(&error, manner.timeout, at, about.length));
            }
        }
    }
    if about.length.is_some_and(|length| length != at) {
        target.pause()?;
        let early = io::ErrorKind::UnexpectedEof.into();
        return Err(Trouble::reading(&early, manner.timeout, at, about.length));
    }
    if client.saw_excess() {
        target.discard()?;
        return Err(Trouble::never(
            format!("the server sent more than the {at} bytes it announced"),
            "what came was discarded; tell the server's owner",
        ));
    }
    target.finish()
}
