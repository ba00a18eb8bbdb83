//! One request to a server, through redirects, up to the head of the answer.
//!
//! Redirects are followed here and not by the client, because credentials and the user's headers
//! are only for the origin of the URL: scheme, host and port. After a redirect to another origin
//! they are left out.

use std::io::{self, Read as _};

use ureq::Body;
use ureq::http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER};
use ureq::http::{HeaderMap, HeaderName, Method, Request, Response, Uri};

use super::trouble::{Given, Trouble};
use super::{Job, Manner};
use crate::address::{Address, Origin};
use crate::client::Client;
use crate::runtime;

/// The maximum number of redirects, which is also ureq's. Browsers follow about twice as many.
const REDIRECTS_MAX: usize = 10;

/// A redirect's own body up to this length is read, so that its connection can be used again.
const DRAINED_MAX: u64 = 16 * 1024;

/// The head of an answer that is not a redirect, with the body still unread.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    given: Given,
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns what an unusable status means.
    pub(super) fn trouble(&self) -> Trouble {
        let status = self.response.status();
        let reason = status.canonical_reason().unwrap_or_default();
        let wish = self.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Trouble::status(status.as_u16(), reason, wish, self.given)
    }
}

/// Requests a job's URL, with headers of this request in addition to the common ones.
pub(super) fn ask(
    client: &Client,
    job: &Job,
    manner: &Manner,
    method: &Method,
    extra: &[(HeaderName, String)],
) -> Result<Answer, Trouble> {
    let home = Origin::of(&job.uri);
    let mut uri = job.uri.clone();
    for _ in 0..=REDIRECTS_MAX {
        let at_home = Origin::of(&uri) == home;
        let given = give(job, manner, at_home);
        let mut request = Request::builder().method(method).uri(&uri);
        for (name, value) in extra {
            request = request.header(name, value);
        }
        if at_home {
            for (name, value) in manner.headers.iter() {
                request = request.header(name, value);
            }
            if let Some(value) = &job.credentials
                && !manner.headers.authorize()
            {
                request = request.header(AUTHORIZATION, value);
            }
        }
        let request = request
            .body(())
            .map_err(|error| Trouble::never(format!("bad request: {error}"), "correct the URL"))?;
        let mut answered = client.agent.run(request.clone());
        // The server may close a kept connection at any time. The next connection is new.
        if client.take_stale() && answered.is_err() && !runtime::is_cancelled() {
            answered = client.agent.run(request);
        }
        let mut response = answered.map_err(|error| Trouble::asking(error, manner.timeout))?;
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(Answer { response, given });
        }
        uri = next(&uri, response.headers())?;
        // It does not matter whether this works: if the body is not read, the connection is closed.
        let body = response.body_mut().as_reader();
        let _ = io::copy(&mut body.take(DRAINED_MAX), &mut io::sink());
    }
    Err(Trouble::never(
        "redirected too often",
        "the server sends this URL in circles; check it in a browser",
    ))
}

fn give(job: &Job, manner: &Manner, at_home: bool) -> Given {
    match job.credentials.is_some() || manner.headers.authorize() {
        false => Given::Nothing,
        true if at_home => Given::Credentials,
        true => Given::Withheld,
    }
}

/// Returns the target of a redirect. Credentials in it do not come from the user, and are left out.
fn next(from: &Uri, headers: &HeaderMap) -> Result<Uri, Trouble> {
    let nowhere = || {
        Trouble::never(
            "redirected to nowhere",
            "the server's `Location` is missing or no URL; check it in a browser",
        )
    };
    let location = headers.get(LOCATION).ok_or_else(nowhere)?;
    let location = String::from_utf8_lossy(location.as_bytes());
    let base = url::Url::parse(&from.to_string()).map_err(|_| nowhere())?;
    let found = base.join(&location).map_err(|_| nowhere())?;
    Ok(Address::parse(found.as_str()).map_err(|_| nowhere())?.uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redirects with all kinds of locations.
    #[test]
    fn locations() {
        let to = |location: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().unwrap());
            next(&"http://h:81/a/b?c".parse().unwrap(), &headers).map(|uri| uri.to_string()).ok()
        };
        for (location, there) in [
            ("/x", Some("http://h:81/x")),
            ("x y", Some("http://h:81/a/x%20y")),
            ("?q", Some("http://h:81/a/b?q")),
            ("//i/x", Some("http://i/x")),
            ("https://u:p@i/x#f", Some("https://i/x")),
            ("http://", None),
            ("ftp://h/x", None),
        ] {
            assert_eq!(to(location).as_deref(), there, "{location}");
        }
        assert!(next(&"http://h/".parse().unwrap(), &HeaderMap::new()).is_err());
    }
}
