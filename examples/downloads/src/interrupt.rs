//! Ctrl-C: the first one asks all downloads to stop in order, and the second one ends the process
//! at once.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Watches for signals until it is dropped.
#[derive(Debug)]
pub(crate) struct Interrupt {
    /// The signal that was received, or 0.
    came: Arc<AtomicI32>,
    signals: Handle,
}

impl Interrupt {
    /// From now on the first SIGINT or SIGTERM runs `stop`, on a thread of its own, and the next
    /// one ends the process.
    pub(crate) fn watch(stop: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let mut arriving = Signals::new([SIGINT, SIGTERM])?;
        let signals = arriving.handle();
        let came = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&came);
        let mut stop = Some(stop);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in arriving.forever() {
                match stop.take() {
                    Some(stop) => {
                        seen.store(signal, Ordering::SeqCst);
                        stop();
                        // If the terminal has been closed, the message cannot be written.
                        let _ = writeln!(
                            io::stderr(),
                            "interrupted: stopping; once more stops at once"
                        );
                    }
                    None => std::process::exit(status(signal)),
                }
            }
        })?;
        Ok(Self { came, signals })
    }

    /// Returns the exit status if a signal was received: 128 plus its number, as in a shell.
    pub(crate) fn status(&self) -> Option<u8> {
        match self.came.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(u8::try_from(status(signal)).expect("signals are small numbers")),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.signals.close();
    }
}

fn status(signal: i32) -> i32 {
    128 + signal
}
