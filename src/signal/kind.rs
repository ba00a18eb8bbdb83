//! Which signal.

use std::fmt;
use std::io;

/// Which signal: by one of these functions, or by its number (`libc::SIGTERM`).
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
    /// `SIGALRM`: a timer of the system's has run out.
    alarm SIGALRM;
    /// `SIGCHLD`: a child has ended, or stopped.
    child SIGCHLD;
    /// `SIGHUP`: the terminal has gone. Services read their settings anew.
    hangup SIGHUP;
    /// `SIGINT`: Ctrl-C at the terminal.
    interrupt SIGINT;
    /// `SIGIO`: a descriptor is ready.
    io SIGIO;
    /// `SIGPIPE`: nobody reads what was written. (Rust's programs ignore it and get an error instead.)
    pipe SIGPIPE;
    /// `SIGQUIT`: Ctrl-\ at the terminal.
    quit SIGQUIT;
    /// `SIGTERM`: the process is asked to end.
    terminate SIGTERM;
    /// `SIGUSR1`: whatever the program makes of it.
    user_defined1 SIGUSR1;
    /// `SIGUSR2`: whatever the program makes of it.
    user_defined2 SIGUSR2;
    /// `SIGWINCH`: the terminal's window has another size.
    window_change SIGWINCH;
}

impl SignalKind {
    /// The one with this number.
    #[must_use]
    pub const fn from_raw(signal: i32) -> SignalKind {
        SignalKind(signal)
    }

    /// Its number.
    #[must_use]
    pub const fn as_raw_value(self) -> i32 {
        self.0
    }

    /// Refuses what cannot be listened to.
    pub(super) fn check(self) -> io::Result<()> {
        let why = match self.0 {
            libc::SIGKILL | libc::SIGSTOP => "the system does not let a process catch it",
            libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL => {
                "it is about a fault of the very instruction that a thread is at, which cannot go on"
            }
            1..=31 => return Ok(()),
            32.. => {
                "only the signals with numbers up to 31 are; those for real time are queued, not noted"
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
