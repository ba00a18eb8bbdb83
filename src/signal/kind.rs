//! Kinds of signals.

use std::fmt;
use std::io;

/// A kind of signal, made by one of these functions or from a number (`libc::SIGTERM`).
///
/// # Examples
/// ```
/// use ecru::signal::SignalKind;
///
/// assert_eq!(SignalKind::hangup(), SignalKind::from(1));
/// assert_eq!(SignalKind::terminate().to_string(), "SIGTERM");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(i32);

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident $signal:ident;)*) => {
        impl SignalKind {
            $(
                $(#[doc = $doc])*
                #[must_use]
                pub const fn $name() -> SignalKind {
                    SignalKind(libc::$signal)
                }
            )*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(libc::$signal => Some(stringify!($signal)),)*
                    libc::SIGKILL => Some("SIGKILL"),
                    libc::SIGSTOP => Some("SIGSTOP"),
                    libc::SIGSEGV => Some("SIGSEGV"),
                    libc::SIGBUS => Some("SIGBUS"),
                    libc::SIGFPE => Some("SIGFPE"),
                    libc::SIGILL => Some("SIGILL"),
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// `SIGALRM`: a timer of the system has expired.
    alarm SIGALRM;
    /// `SIGCHLD`: a child process has ended or stopped.
    child SIGCHLD;
    /// `SIGHUP`: the terminal was closed. Services reload their settings.
    hangup SIGHUP;
    /// `SIGINT`: Ctrl-C at the terminal.
    interrupt SIGINT;
    /// `SIGIO`: a descriptor is ready.
    io SIGIO;
    /// `SIGPIPE`: a pipe was written to that no process reads. (Rust programs ignore it and get an
    /// error instead.)
    pipe SIGPIPE;
    /// `SIGQUIT`: Ctrl-\ at the terminal.
    quit SIGQUIT;
    /// `SIGTERM`: a request to end the process.
    terminate SIGTERM;
    /// `SIGUSR1`: defined by the program.
    user_defined1 SIGUSR1;
    /// `SIGUSR2`: defined by the program.
    user_defined2 SIGUSR2;
    /// `SIGWINCH`: the size of the terminal's window has changed.
    window_change SIGWINCH;
}

impl SignalKind {
    /// Makes a kind from the signal's number.
    #[must_use]
    pub const fn from_raw(signal: i32) -> SignalKind {
        SignalKind(signal)
    }

    /// Returns the signal's number.
    #[must_use]
    pub const fn as_raw_value(self) -> i32 {
        self.0
    }

    /// Returns an error if the signal cannot be listened to.
    pub(crate) fn check(self) -> io::Result<()> {
        let why = match self.0 {
            libc::SIGKILL | libc::SIGSTOP => "the system does not let a process catch it",
            libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL => {
                "it reports a fault of the instruction that a thread is executing, and the thread cannot continue"
            }
            1..=31 => return Ok(()),
            32.. => {
                "only signals with numbers up to 31 are supported; real-time signals are queued and counted"
            }
            _ => "there is no such signal",
        };
        let text = format!("{self} cannot be listened to: {why}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

impl From<i32> for SignalKind {
    fn from(signal: i32) -> SignalKind {
        SignalKind(signal)
    }
}

impl From<SignalKind> for i32 {
    fn from(kind: SignalKind) -> i32 {
        kind.0
    }
}

impl fmt::Display for SignalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}
