//! Which driver to use: what the program asked for, what the environment says, what the kernel allows.

use super::uring;
use std::ffi::OsStr;
use std::io;

/// How ecru talks to the kernel.
///
/// The environment variable `ECRU_DRIVER` (`uring` or `poll`) decides where the program says [`Auto`](DriverKind::Auto).
///
/// # Examples
/// ```
/// use ecru::DriverKind;
///
/// assert_eq!(DriverKind::default(), DriverKind::Auto);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// The best one that the kernel allows.
    #[default]
    Auto,
    /// io_uring: requests are handed to the kernel, which reads into the caller's own buffer.
    Uring,
    /// Readiness by epoll and the like. Not part of this version.
    Poll,
}

/// The outcome of [`probe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Never `Auto`.
    pub(crate) kind: DriverKind,
    /// For the log: who decided.
    pub(crate) why: &'static str,
}

/// Decides which driver to open, and tries that the kernel lets it be opened.
///
/// # Errors
/// As [`open`](super::open); also if `ECRU_DRIVER` has a value that means nothing.
pub(crate) fn probe(kind: DriverKind) -> io::Result<Choice> {
    choose(kind, std::env::var_os("ECRU_DRIVER").as_deref())
}

fn choose(kind: DriverKind, environment: Option<&OsStr>) -> io::Result<Choice> {
    let (kind, why) = match (kind, environment.map(OsStr::as_encoded_bytes)) {
        (DriverKind::Auto, Some(b"uring")) => (DriverKind::Uring, "ECRU_DRIVER=uring"),
        (DriverKind::Auto, Some(b"poll")) => (DriverKind::Poll, "ECRU_DRIVER=poll"),
        (DriverKind::Auto, Some(b"" | b"auto") | None) => {
            (DriverKind::Uring, "the kernel allows io_uring")
        }
        (DriverKind::Auto, Some(_)) => {
            let value = environment.unwrap_or_default().to_string_lossy();
            let text = format!(
                "ECRU_DRIVER is {value:?}, which names no driver; set it to uring or poll, or unset it"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        (asked, _) => (asked, "the program asked for it"),
    };
    match kind {
        DriverKind::Poll => Err(poll_is_missing()),
        DriverKind::Auto | DriverKind::Uring => {
            uring::probe()?;
            Ok(Choice { kind: DriverKind::Uring, why })
        }
    }
}

pub(super) fn poll_is_missing() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "the poll driver is not part of this version of ecru; use DriverKind::Auto or DriverKind::Uring (and unset \
         ECRU_DRIVER), on a kernel that allows io_uring",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_io_uring_and_says_who_decided() {
        let choice = choose(DriverKind::Auto, None).unwrap();
        assert_eq!((choice.kind, choice.why), (DriverKind::Uring, "the kernel allows io_uring"));
        let choice = choose(DriverKind::Auto, Some(OsStr::new("uring"))).unwrap();
        assert_eq!((choice.kind, choice.why), (DriverKind::Uring, "ECRU_DRIVER=uring"));
    }

    #[test]
    fn the_program_overrules_the_environment() {
        let choice = choose(DriverKind::Uring, Some(OsStr::new("poll"))).unwrap();
        assert_eq!(choice.kind, DriverKind::Uring);
    }

    #[test]
    fn the_poll_driver_is_refused_and_the_text_says_what_to_do() {
        for error in [
            choose(DriverKind::Poll, None).unwrap_err(),
            choose(DriverKind::Auto, Some(OsStr::new("poll"))).unwrap_err(),
            crate::driver::open(DriverKind::Poll).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("not part of this version"), "{error}");
            assert!(error.to_string().contains("DriverKind::Uring"), "{error}");
        }
    }

    #[test]
    fn a_misspelt_driver_is_named() {
        let error = choose(DriverKind::Auto, Some(OsStr::new("urnig"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"urnig\""), "{error}");
    }
}
