//! The interpretation of an answer's head for a file.

use ureq::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE, TRANSFER_ENCODING,
};
use ureq::http::{HeaderMap, HeaderName, Method};

use super::ask::ask;
use super::target::{About, Have};
use super::trouble::Trouble;
use super::{Job, Manner};
use crate::client::Client;

/// What an answer's head means for the existing part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Body {
        offset: u64,
        about: About,
    },
    /// The part is the whole file.
    AllThere(About),
    /// The part is no longer usable.
    Stale,
    /// The status is not a success.
    Refused,
}

/// Reads the head of the answer to a request that named the part `have`.
pub(super) fn read(
    status: u16,
    headers: &HeaderMap,
    have: Option<&Have>,
) -> Result<Meaning, Trouble> {
    let about = about(headers);
    let announced = about.length;
    let range = || text(headers, &CONTENT_RANGE);
    match (status, have) {
        (200, _) => Ok(Meaning::Body { offset: 0, about }),
        (206, None) => Err(Trouble::never(
            "the server sent a part (206) though the whole was asked for",
            "the server is at fault; tell its owner",
        )),
        (206, Some(have)) => {
            let fits = |range: &(u64, u64, Option<u64>)| {
                range.0 == have.bytes
                    // With neither total, this may be only some of the rest.
                    && range.2.or(have.length) == Some(range.1 + 1)
                    && have.length.is_none_or(|length| length == range.1 + 1)
                    && announced.is_none_or(|length| range.1 + 1 - range.0 == length)
            };
            // The validator detects a server that changes the file and ignores `If-Range`.
            let same = about.validator().is_none_or(|validator| validator == have.validator);
            Ok(match range().and_then(content_range).filter(fits).filter(|_| same) {
                Some((start, end, _)) => {
                    let about = About { length: Some(end + 1), ..about }.or(&have.validator);
                    Meaning::Body { offset: start, about }
                }
                None => Meaning::Stale,
            })
        }
        (416, Some(have)) => {
            let same = about.validator().is_none_or(|validator| validator == have.validator);
            let total = range().and_then(total_of_none);
            Ok(
                if same
                    && total == Some(have.bytes)
                    && have.length.is_none_or(|length| length == have.bytes)
                {
                    Meaning::AllThere(About { length: total, ..about }.or(&have.validator))
                } else {
                    Meaning::Stale
                },
            )
        }
        _ => Ok(Meaning::Refused),
    }
}

/// Asks a server about a job's URL, without the body.
///
/// Some servers refuse `HEAD`, for example those of signed URLs. They are asked for the first byte
/// instead.
pub(super) fn look_up(client: &Client, job: &Job, manner: &Manner) -> Result<About, Trouble> {
    let answer = ask(client, job, manner, &Method::HEAD, &[])?;
    match answer.status() {
        200..=299 => return Ok(about(answer.headers())),
        400 | 403 | 405 | 501 => {}
        _ => return Err(answer.trouble()),
    }
    drop(answer);
    let answer = ask(client, job, manner, &Method::GET, &[(RANGE, "bytes=0-0".to_string())])?;
    let found = about(answer.headers());
    let range = text(answer.headers(), &CONTENT_RANGE);
    match answer.status() {
        200 => Ok(found),
        206 => {
            let total = range.and_then(content_range).and_then(|(_, _, total)| total);
            Ok(About { length: total, ..found })
        }
        416 => Ok(About { length: range.and_then(total_of_none), ..found }),
        _ => Err(answer.trouble()),
    }
}

fn about(headers: &HeaderMap) -> About {
    let owned = |name| {
        let found = text(headers, &name).map(str::trim).filter(|value| !value.is_empty());
        found.map(str::to_string)
    };
    // RFC 9112, section 6.3: `Transfer-Encoding` overrides `Content-Length`.
    let length =
        text(headers, &CONTENT_LENGTH).filter(|_| !headers.contains_key(TRANSFER_ENCODING));
    About {
        length: length.and_then(|length| length.trim().parse().ok()),
        etag: owned(ETAG),
        last_modified: owned(LAST_MODIFIED),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Parses `bytes */TOTAL`.
fn total_of_none(header: &str) -> Option<u64> {
    header.trim().strip_prefix("bytes */")?.trim().parse().ok()
}

/// Parses `bytes FIRST-LAST/TOTAL`, where the total may be `*`.
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
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn have() -> Have {
        Have { bytes: 100, validator: "\"a\"".into(), length: Some(200) }
    }

    /// A part is continued only with exactly the rest of exactly the same file.
    #[test]
    fn continues_after_206() {
        let stale = |range: &str, etag: &str| {
            let headers = headers(&[("content-range", range), ("etag", etag)]);
            read(206, &headers, Some(&have())).unwrap() == Meaning::Stale
        };
        assert!(!stale("bytes 100-199/200", "\"a\""));
        assert!(!stale("bytes 100-199/*", "\"a\""));
        assert!(stale("bytes 100-199/200", "\"b\""));
        assert!(stale("bytes 99-199/200", "\"a\""));
        assert!(stale("bytes 0-199/200", "\"a\""));
        assert!(stale("bytes 100-150/200", "\"a\""), "not the rest, only some of it");
        assert!(stale("bytes 100-199/150", "\"a\""));
        assert!(stale("bytes 100-299/300", "\"a\""), "another length");
        assert!(stale("bytes 100-150/*", "\"a\""), "not the rest, only some of it");
        assert!(stale("rows 1-2/3", "\"a\""));
        let long = headers(&[("content-range", "bytes 100-199/200"), ("content-length", "101")]);
        assert_eq!(read(206, &long, Some(&have())).unwrap(), Meaning::Stale);
        assert!(read(206, &long, None).is_err());
    }

    /// A 416 answer is good if the part is as long as the file.
    #[test]
    fn completes_after_416() {
        let answer = |range, length| {
            let have = Have { length, ..have() };
            read(416, &headers(&[("content-range", range)]), Some(&have)).unwrap()
        };
        for length in [None, Some(100)] {
            assert!(matches!(answer("bytes */100", length), Meaning::AllThere(_)));
            assert_eq!(answer("bytes */99", length), Meaning::Stale);
        }
        assert_eq!(answer("bytes */100", Some(200)), Meaning::Stale, "another length");
        assert_eq!(read(416, &HeaderMap::new(), None).unwrap(), Meaning::Refused);
    }
}
