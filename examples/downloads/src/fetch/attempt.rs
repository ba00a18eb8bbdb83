//! One attempt at one file: a request, the meaning of the answer's head, the body.

use std::io::{self, Read as _};
use std::time::Duration;

use ureq::http::HeaderMap;
use ureq::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE, RETRY_AFTER,
};

use super::target::{About, Have, Target};
use super::trouble::Trouble;
use crate::client::Client;
use crate::progress::Lane;

/// A body passes through in pieces of at most this, on the heap.
const CHUNK: usize = 32 * 1024;

/// Tries to bring what `target` lacks of `url`. `Ok` means that it has all, checked against the announced length.
pub(super) fn attempt(
    client: &Client,
    url: &str,
    target: &mut dyn Target,
    lane: &Lane<'_>,
    timeout: Duration,
) -> Result<(), Trouble> {
    let have = target.have()?;
    let mut request = client.agent.get(url);
    if let Some(have) = &have {
        request = request
            .header(RANGE, format!("bytes={}-", have.bytes))
            .header(IF_RANGE, &have.validator);
    }
    let mut response = request.call().map_err(|error| Trouble::asking(error, timeout))?;
    client.forget_excess();
    let (offset, about) =
        match read_head(response.status().as_u16(), response.headers(), have.as_ref())? {
            Answer::Body { offset, about } => (offset, about),
            Answer::AllThere => return target.finish(),
            Answer::Stale => {
                target.discard()?;
                return Err(Trouble::later(
                    "the server does not continue the part from an earlier attempt",
                    "run the same command again; it starts afresh",
                ));
            }
        };
    lane.starts(offset, about.length);
    target.begin(offset, &about)?;

    let mut body = response.body_mut().as_reader();
    let mut chunk = vec![0; CHUNK];
    let mut at = offset;
    loop {
        match body.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                target.write(&chunk[..count])?;
                at += count as u64;
                lane.advances(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // What has arrived is good, and worth keeping even if the disk has a second complaint.
                let _ = target.pause();
                return Err(Trouble::reading(&error, timeout, at, about.length));
            }
        }
    }
    if about.length.is_some_and(|length| length != at) {
        target.pause()?;
        let length = about.length.unwrap_or_default();
        return Err(Trouble::reading(
            &io::ErrorKind::UnexpectedEof.into(),
            timeout,
            at,
            Some(length),
        ));
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

/// What an answer's head means for the part there is.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Body {
        offset: u64,
        about: About,
    },
    /// The part is the whole file.
    AllThere,
    /// The part is of no use any more.
    Stale,
}

fn read_head(status: u16, headers: &HeaderMap, have: Option<&Have>) -> Result<Answer, Trouble> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let announced = text(CONTENT_LENGTH).and_then(|length| length.trim().parse::<u64>().ok());
    let validator = validator(text(ETAG), text(LAST_MODIFIED));
    match (status, have) {
        (200, _) => Ok(Answer::Body { offset: 0, about: About { length: announced, validator } }),
        (206, None) => Err(Trouble::never(
            "the server sent a part (206) though the whole was asked for",
            "the server is at fault; tell its owner",
        )),
        (206, Some(have)) => {
            let range = text(CONTENT_RANGE).and_then(content_range);
            let fits = |range: &(u64, u64, Option<u64>)| {
                range.0 == have.bytes
                    && range.2.is_none_or(|total| total == range.1 + 1)
                    && announced.is_none_or(|length| range.1 + 1 - range.0 == length)
            };
            // A server that changes the file and ignores `If-Range` is found out by its validator.
            let same = validator.as_ref().is_none_or(|validator| *validator == have.validator);
            Ok(match range.filter(fits).filter(|_| same) {
                Some((start, end, _)) => {
                    let about =
                        About { length: Some(end + 1), validator: Some(have.validator.clone()) };
                    Answer::Body { offset: start, about }
                }
                None => Answer::Stale,
            })
        }
        (416, Some(have)) => {
            let total = text(CONTENT_RANGE)
                .and_then(|range| range.strip_prefix("bytes */")?.trim().parse::<u64>().ok());
            let same = validator.as_ref().is_none_or(|validator| *validator == have.validator);
            Ok(if same && total == Some(have.bytes) { Answer::AllThere } else { Answer::Stale })
        }
        _ => {
            let reason = ureq::http::StatusCode::from_u16(status)
                .ok()
                .and_then(|status| status.canonical_reason());
            Err(Trouble::status(status, reason.unwrap_or_default(), text(RETRY_AFTER)))
        }
    }
}

/// RFC 9110 lets `If-Range` name only a strong ETag, or a date.
fn validator(etag: Option<&str>, modified: Option<&str>) -> Option<String> {
    let strong = etag.map(str::trim).filter(|etag| etag.starts_with('"') && etag.len() > 2);
    strong.or(modified.map(str::trim)).filter(|validator| !validator.is_empty()).map(str::to_string)
}

/// `bytes FIRST-LAST/TOTAL`, where the total may be `*`.
fn content_range(header: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = header.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    (first <= last && total.is_none_or(|total: u64| last < total)).then_some((first, last, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (ureq::http::HeaderName::from_static(name), value.parse().unwrap())
            })
            .collect()
    }

    fn have() -> Have {
        Have { bytes: 100, validator: "\"a\"".into() }
    }

    /// A part is continued only by exactly the rest of exactly the same file.
    #[test]
    fn which_206_continues() {
        let stale = |range: &str, etag: &str| {
            let headers = headers(&[("content-range", range), ("etag", etag)]);
            read_head(206, &headers, Some(&have())).unwrap() == Answer::Stale
        };
        assert!(!stale("bytes 100-199/200", "\"a\""));
        assert!(!stale("bytes 100-199/*", "\"a\""));
        assert!(stale("bytes 100-199/200", "\"b\""));
        assert!(stale("bytes 99-199/200", "\"a\""));
        assert!(stale("bytes 0-199/200", "\"a\""));
        assert!(stale("bytes 100-150/200", "\"a\""), "not the rest, only some of it");
        assert!(stale("bytes 100-199/150", "\"a\""));
        assert!(stale("rows 1-2/3", "\"a\""));
        let long = headers(&[("content-range", "bytes 100-199/200"), ("content-length", "101")]);
        assert_eq!(read_head(206, &long, Some(&have())).unwrap(), Answer::Stale);
        assert!(read_head(206, &long, None).is_err());
    }

    /// 416 is good news when the part is as long as the file.
    #[test]
    fn which_416_completes() {
        let answer =
            |range| read_head(416, &headers(&[("content-range", range)]), Some(&have())).unwrap();
        assert_eq!(answer("bytes */100"), Answer::AllThere);
        assert_eq!(answer("bytes */99"), Answer::Stale);
        assert!(read_head(416, &HeaderMap::new(), None).is_err());
    }

    /// Weak ETags may not be named by If-Range; a date may.
    #[test]
    fn validators() {
        assert_eq!(validator(Some("\"x\""), Some("date")).as_deref(), Some("\"x\""));
        assert_eq!(validator(Some("W/\"x\""), Some("date")).as_deref(), Some("date"));
        assert_eq!(validator(Some("W/\"x\""), None), None);
    }
}
