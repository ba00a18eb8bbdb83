//! The failures of one download, described for its user, and whether a retry may help.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use ureq::Timeout;

use crate::runtime;

/// The reason why an attempt ended without the file.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The program was asked to stop.
    Cancelled,
    Failed(Failure),
}

/// A failure: what happened, and what the user can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) advice: Cow<'static, str>,
    pub(crate) again: Again,
}

/// Whether a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Again {
    Never,
    /// Not in this run, but when the other run that writes the same file has ended.
    WhenFree,
    /// After the usual pause, and not before the time that the server requested, if it did.
    Later(Option<Duration>),
}

/// Whether a request had the user's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// The user gave none.
    Nothing,
    Credentials,
    /// The user gave some, but the URL redirects to another origin.
    Withheld,
}

impl Trouble {
    pub(crate) fn never(what: impl Into<String>, advice: &'static str) -> Self {
        Self::failed(what, advice, Again::Never)
    }

    pub(crate) fn later(what: impl Into<String>, advice: &'static str) -> Self {
        Self::failed(what, advice, Again::Later(None))
    }

    fn failed(what: impl Into<String>, advice: &'static str, again: Again) -> Self {
        Self::Failed(Failure { what: what.into(), advice: advice.into(), again })
    }

    /// Another run holds the lock on the part.
    pub(crate) fn busy(part: &Path) -> Self {
        Self::failed(
            format!("{} is being written by another run", part.display()),
            "wait for that one to end, or choose another folder (-o)",
            Again::WhenFree,
        )
    }

    /// An unsuccessful status.
    pub(crate) fn status(
        status: u16,
        reason: &str,
        retry_after: Option<&str>,
        given: Given,
    ) -> Self {
        let what = format!("the server answered {status} {reason}").trim_end().to_string();
        let (advice, transient) = match status {
            401 | 403 => match given {
                Given::Nothing => (
                    "it wants credentials; write them into the URL (https://user:password@host/..) or use --header",
                    false,
                ),
                Given::Credentials => {
                    ("it refused the credentials; check the user, the password and --header", false)
                }
                Given::Withheld => (
                    "it redirects to another host, which gets no credentials; name the URL it leads to",
                    false,
                ),
            },
            404 | 410 => ("nothing is there; check the URL", false),
            408 | 425 | 429 => {
                ("it asks for patience; try later, or with fewer at a time (-c, --per-host)", true)
            }
            500..=599 => ("the fault is the server's; try again later", true),
            _ => ("nothing to download there; check the URL", false),
        };
        let wish = retry_after.and_then(|text| wait_of(text, SystemTime::now()));
        let again = if transient { Again::Later(wish) } else { Again::Never };
        Self::failed(what, advice, again)
    }

    /// A server that asks for a longer pause than this program waits.
    pub(crate) fn patience(wait: Duration) -> Self {
        Self::never(
            format!("the server asks to be left alone for {} s", wait.as_secs()),
            "run the same command again after that",
        )
    }

    /// An error of the local file. `doing` names the call and the file.
    pub(crate) fn disk(doing: &str, error: &io::Error) -> Self {
        let what = format!("{doing}: {error}");
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room on that disk, or choose another folder (-o), then run the same command again"
            }
            io::ErrorKind::FileTooLarge => {
                "the file system or `ulimit -f` allows no larger file; choose another folder (-o)"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a folder that you may write to (-o)"
            }
            _ => "see to the folder (-o), then run the same command again",
        };
        Self::never(what, advice)
    }

    /// An error before the answer's head was complete.
    pub(crate) fn asking(error: ureq::Error, timeout: Duration) -> Self {
        use ureq::Error as E;
        match error {
            E::Io(error) => Self::network(&error, "before an answer came"),
            E::Timeout(Timeout::Connect) => Self::later(
                format!("no connection within {} s", timeout.as_secs_f64()),
                "the host does not answer; check its name and port, or wait longer (--timeout)",
            ),
            E::Timeout(_) => Self::silence(timeout),
            E::HostNotFound => Self::never("the host has no address", "check the host's name"),
            E::BadUri(why) => Self::never(format!("bad URL: {why}"), "correct the URL"),
            E::LargeResponseHeader(size, most) => Self::never(
                format!("the answer's head has {size} bytes, more than {most}"),
                "this is hardly a web server; check the URL",
            ),
            E::Protocol(_) | E::Http(_) => Self::never(
                format!("no HTTP came back ({error})"),
                "this is hardly a web server; check the host and port",
            ),
            E::Rustls(_) | E::Tls(_) | E::Pem(_) => Self::tls(&error.to_string()),
            other => Self::later(other.to_string(), "try again later"),
        }
    }

    /// An error in the middle of a body, of which `got` bytes have arrived and `of` were announced.
    pub(crate) fn reading(error: &io::Error, timeout: Duration, got: u64, of: Option<u64>) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        let of = of.map_or_else(|| "an unknown number of".to_string(), |of| of.to_string());
        match inner {
            Some(ureq::Error::Timeout(_)) => Self::silence(timeout),
            Some(ureq::Error::Protocol(why)) => Self::later(
                format!("the body is garbled after {got} of {of} bytes ({why})"),
                "try again later",
            ),
            _ if error.kind() == io::ErrorKind::UnexpectedEof => Self::later(
                format!("the server closed after {got} of {of} bytes"),
                "run the same command again later",
            ),
            _ => Self::network(error, &format!("after {got} of {of} bytes")),
        }
    }

    fn silence(timeout: Duration) -> Self {
        Self::later(
            format!("the server was silent for {} s", timeout.as_secs_f64()),
            "try again later, or wait longer (--timeout)",
        )
    }

    fn tls(why: &str) -> Self {
        Self::never(
            format!("the server is not trusted: {why}"),
            "check the host's name; for a server with a certificate of its own, name that with --ca; --insecure checks nothing",
        )
    }

    fn network(error: &io::Error, when: &str) -> Self {
        use io::ErrorKind as K;
        if runtime::is_cancellation(error) {
            return Self::Cancelled;
        }
        match error.kind() {
            K::ConnectionRefused => Self::later(
                "connection refused",
                "nothing listens there; check host and port, or try again later",
            ),
            _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Self::later(
                format!("too many open files ({error})"),
                "choose a smaller window (-c), or raise the limit (ulimit -n)",
            ),
            // rustls uses this kind for its complaints about a peer.
            K::InvalidData => Self::tls(&error.to_string()),
            K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe => {
                Self::later(format!("the server closed {when} ({error})"), "try again later")
            }
            _ if error.to_string().contains("lookup address") => {
                let what = format!("the host was not found ({error})");
                // The resolver's error has no code in std, only getaddrinfo's text.
                let again =
                    if what.contains("emporary") { Again::Later(None) } else { Again::Never };
                Self::failed(what, "check the host's name, and the network", again)
            }
            _ => Self::later(
                format!("the network failed {when} ({error})"),
                "check the network, then try again",
            ),
        }
    }
}

/// Returns the time that `Retry-After` asks to wait: a number of seconds, or a date.
fn wait_of(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(trouble: Trouble) -> Again {
        match trouble {
            Trouble::Failed(failure) => failure.again,
            Trouble::Cancelled => panic!("not cancelled"),
        }
    }

    /// Errors of the server are retried, and errors of the request are not.
    #[test]
    fn which_statuses_are_tried_again() {
        for status in [500, 502, 503, 504, 429, 408] {
            assert_eq!(
                again(Trouble::status(status, "", None, Given::Nothing)),
                Again::Later(None),
                "{status}"
            );
        }
        for status in [400, 401, 403, 404, 410, 418, 304] {
            assert_eq!(
                again(Trouble::status(status, "", None, Given::Nothing)),
                Again::Never,
                "{status}"
            );
        }
    }

    /// A server may specify the pause in seconds or by a date.
    #[test]
    fn retry_after() {
        let status = |wish| again(Trouble::status(503, "", Some(wish), Given::Nothing));
        assert_eq!(status(" 7 "), Again::Later(Some(Duration::from_secs(7))));
        assert_eq!(status("Fri, 31 Dec 1999 23:59:59 GMT"), Again::Later(Some(Duration::ZERO)));
        assert_eq!(status("soon"), Again::Later(None));
        let now = httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:49 GMT").unwrap();
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        assert_eq!(wait_of(date, now), Some(Duration::from_secs(10)));
    }

    /// A full disk is named, with what to do.
    #[test]
    fn full_disk() {
        let Trouble::Failed(failure) =
            Trouble::disk("writing x.part", &io::Error::from_raw_os_error(libc::ENOSPC))
        else {
            panic!("not cancelled")
        };
        assert!(
            failure.what.contains("writing x.part") && failure.what.contains("No space"),
            "{}",
            failure.what
        );
        assert!(failure.advice.contains("make room"));
        assert_eq!(failure.again, Again::Never);
    }
}
