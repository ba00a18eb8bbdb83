//! Which driver to use: what the program asks for, what the environment says, and what the kernel
//! allows.

use super::uring;
use crate::base::report;
use crate::base::sync::StaticU64;
use crate::base::sync::atomic::Ordering;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;

/// How ecru talks to the kernel.
///
/// Programs behave the same on both drivers. [`Auto`](DriverKind::Auto) is the default. With it,
/// the environment variable `ECRU_DRIVER` decides (`uring` or `poll`). Without that variable the
/// kernel decides: io_uring where it can be used, and readiness elsewhere. The decision is made
/// once for each runtime, at the first operation that has to wait.
///
/// A program that falls back to readiness writes one line with the reason to the standard error. If
/// the environment variable `ECRU_LOG` is set (and is neither empty nor `0`), every program writes
/// such a line, whatever was chosen.
///
/// # Examples
/// ```
/// use ecru::DriverKind;
///
/// assert_eq!(DriverKind::default(), DriverKind::Auto);
/// let runtime = ecru::Runtime::builder().driver(DriverKind::Poll).build()?;
/// assert_eq!(runtime.driver_kind(), DriverKind::Poll);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// The best one that the kernel allows.
    #[default]
    Auto,
    /// io_uring: the kernel takes requests, and reads into the caller's own buffer.
    Uring,
    /// Readiness: the kernel says which sockets have something to read or room to write. This works
    /// where containers forbid io_uring.
    Poll,
}

/// The decision of [`choose`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriverChoice {
    /// Never `Auto`.
    pub(crate) kind: DriverKind,
    /// For the log: what decided, and why.
    why: Cow<'static, str>,
    /// Another driver would have been chosen if it could be opened.
    falls_back: bool,
}

/// What the program or the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// This driver and no other.
    Fixed {
        uring: bool,
        by: &'static str,
    },
    Best,
}

/// Checks whether [`choose`] could do as the program wishes. What depends on the kernel alone is
/// left for later.
///
/// # Errors
/// Returns an error if `ECRU_DRIVER` has a value that names no driver, or if the program insists on
/// io_uring and the kernel refuses it.
pub(crate) fn check(kind: DriverKind) -> io::Result<()> {
    wish(kind, environment().as_deref())?;
    if kind == DriverKind::Uring { uring::probe() } else { Ok(()) }
}

/// Decides which driver to open, and tries whether the kernel lets it be opened. Reports the
/// decision if it is a second choice, or if the log is on.
///
/// # Errors
/// Returns the errors of [`check`]. Also returns an error if nothing can be opened at the moment,
/// for instance for lack of file descriptors.
pub(crate) fn choose(kind: DriverKind) -> io::Result<DriverChoice> {
    let choice = settle(wish(kind, environment().as_deref())?, uring::probe)?;
    if choice.is_worth_saying(report::is_verbose()) {
        choice.say();
    }
    Ok(choice)
}

fn environment() -> Option<std::ffi::OsString> {
    std::env::var_os("ECRU_DRIVER")
}

fn wish(kind: DriverKind, environment: Option<&OsStr>) -> io::Result<Wish> {
    let by_program = "the program asked for it";
    match (kind, environment.map(OsStr::as_encoded_bytes)) {
        (DriverKind::Uring, _) => Ok(Wish::Fixed { uring: true, by: by_program }),
        (DriverKind::Poll, _) => Ok(Wish::Fixed { uring: false, by: by_program }),
        (DriverKind::Auto, Some(b"uring")) => {
            Ok(Wish::Fixed { uring: true, by: "ECRU_DRIVER=uring" })
        }
        (DriverKind::Auto, Some(b"poll")) => {
            Ok(Wish::Fixed { uring: false, by: "ECRU_DRIVER=poll" })
        }
        (DriverKind::Auto, Some(b"" | b"auto") | None) => Ok(Wish::Best),
        (DriverKind::Auto, Some(_)) => {
            let value = environment.unwrap_or_default().to_string_lossy();
            let text = format!(
                "ECRU_DRIVER is {value:?}, which names no driver; set it to uring or poll, or unset it"
            );
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

fn settle(wish: Wish, probe: impl FnOnce() -> io::Result<()>) -> io::Result<DriverChoice> {
    let uring = |why| DriverChoice { kind: DriverKind::Uring, why, falls_back: false };
    match wish {
        Wish::Fixed { uring: false, by } => {
            Ok(DriverChoice { kind: DriverKind::Poll, why: Cow::Borrowed(by), falls_back: false })
        }
        Wish::Fixed { uring: true, by } => probe().map(|()| uring(Cow::Borrowed(by))),
        Wish::Best => match probe() {
            Ok(()) => Ok(uring(Cow::Borrowed("the kernel allows io_uring"))),
            Err(error) if is_refusal(&error) => Ok(DriverChoice {
                kind: DriverKind::Poll,
                why: Cow::Owned(error.to_string()),
                falls_back: true,
            }),
            // Nothing can be opened at the moment, which says nothing about io_uring.
            Err(error) => Err(error),
        },
    }
}

/// Returns whether the error means that io_uring cannot be used, rather than that nothing can be
/// opened.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | Unsupported | OutOfMemory)
}

impl DriverChoice {
    fn is_worth_saying(&self, log: bool) -> bool {
        self.falls_back || log
    }

    fn line(&self) -> String {
        let kind = if self.kind == DriverKind::Poll { "poll" } else { "uring" };
        format!("ecru: the driver is {kind}: {}", self.why)
    }

    /// Reports once for each process and driver. A program with many runtimes need not report it
    /// for each.
    fn say(&self) {
        static SAID: [StaticU64; 2] = [StaticU64::new(0), StaticU64::new(0)];
        let said = &SAID[usize::from(self.kind == DriverKind::Poll)];
        if said.swap(1, Ordering::Relaxed) == 0 {
            report::say(self.line());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: DriverKind, environment: Option<&str>) -> io::Result<Wish> {
        wish(kind, environment.map(OsStr::new))
    }

    fn refusal(kind: io::ErrorKind) -> io::Result<()> {
        Err(io::Error::new(kind, "the kernel says no"))
    }

    #[test]
    fn the_program_overrules_the_environment_which_overrules_the_kernel() {
        for value in [None, Some(""), Some("auto")] {
            assert_eq!(asked(DriverKind::Auto, value).unwrap(), Wish::Best);
        }
        for (value, uring) in [("uring", true), ("poll", false)] {
            let wish = asked(DriverKind::Auto, Some(value)).unwrap();
            assert!(matches!(wish, Wish::Fixed { uring: fixed, .. } if fixed == uring), "{wish:?}");
        }
        for (kind, value, uring) in [
            (DriverKind::Uring, "poll", true),
            (DriverKind::Poll, "uring", false),
            (DriverKind::Poll, "nonsense", false),
        ] {
            let wish = asked(kind, Some(value)).unwrap();
            assert_eq!(wish, Wish::Fixed { uring, by: "the program asked for it" });
        }
    }

    #[test]
    fn the_best_is_io_uring_unless_the_kernel_refuses_it() {
        let choice = settle(Wish::Best, || Ok(())).unwrap();
        assert_eq!(choice.line(), "ecru: the driver is uring: the kernel allows io_uring");
        assert!(!choice.falls_back);
        use io::ErrorKind::{OutOfMemory, PermissionDenied, Unsupported};
        for kind in [PermissionDenied, Unsupported, OutOfMemory] {
            let choice = settle(Wish::Best, || refusal(kind)).unwrap();
            assert_eq!(choice.line(), "ecru: the driver is poll: the kernel says no");
            assert!(choice.falls_back);
        }
        // This is the error for lack of descriptors, of which the other driver needs as many.
        settle(Wish::Best, || refusal(io::ErrorKind::Other)).unwrap_err();
    }

    #[test]
    fn who_insists_gets_it_or_an_error() {
        let uring = Wish::Fixed { uring: true, by: "somebody" };
        assert_eq!(settle(uring, || Ok(())).unwrap().kind, DriverKind::Uring);
        let error = settle(uring, || refusal(io::ErrorKind::PermissionDenied)).unwrap_err();
        assert_eq!(error.to_string(), "the kernel says no");
        let poll = Wish::Fixed { uring: false, by: "somebody" };
        let choice = settle(poll, || panic!("io_uring was not asked for")).unwrap();
        assert_eq!((choice.kind, choice.falls_back), (DriverKind::Poll, false));
    }

    #[test]
    fn only_a_second_choice_is_said_unasked() {
        let first = settle(Wish::Best, || Ok(())).unwrap();
        let second = settle(Wish::Best, || refusal(io::ErrorKind::Unsupported)).unwrap();
        for log in [false, true] {
            assert_eq!(first.is_worth_saying(log), log);
            assert!(second.is_worth_saying(log));
        }
    }

    #[test]
    fn a_misspelt_driver_is_named() {
        let error = asked(DriverKind::Auto, Some("urnig")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"urnig\""), "{error}");
    }
}
