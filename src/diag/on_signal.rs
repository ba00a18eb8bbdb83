//! A dump each time a signal arrives.

use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};

use super::dump::dump_with_leaks;
use crate::base::alarm::Ring;
use crate::base::report;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::sched::Pool;
use crate::signal::{self, Listening};

/// Dumps the tasks of a run at each delivery of a signal, until it is dropped.
#[derive(Debug)]
pub(crate) struct DumpOnSignal {
    _listening: Listening,
    _dumper: Arc<Dumper>,
}

struct Dumper {
    pool: Arc<Pool>,
    state: AtomicU32,
}

/// No dump is being made.
const IDLE: u32 = 0;
/// A dump is being made.
const BUSY: u32 = 1;
/// A dump is to be made, by the thread that makes one already, if there is one.
const ASKED: u32 = 2;

impl DumpOnSignal {
    /// # Errors
    /// Returns the system's error if no descriptor or thread is available, or if the signal cannot
    /// be caught.
    pub(crate) fn begin(pool: &Arc<Pool>, signal: i32) -> io::Result<DumpOnSignal> {
        let state = AtomicU32::new(IDLE);
        let dumper = Arc::new(Dumper { pool: Arc::clone(pool), state });
        let what: Weak<Dumper> = Arc::downgrade(&dumper);
        Ok(DumpOnSignal { _listening: signal::listen_for_all(signal, what)?, _dumper: dumper })
    }
}

impl Ring for Dumper {
    /// Runs on a thread of the service. All signals that arrive during a dump make one further dump,
    /// so a storm of signals does not pile them up.
    fn ring(&self) {
        if self.state.swap(ASKED, Ordering::AcqRel) != IDLE {
            return;
        }
        loop {
            self.state.store(BUSY, Ordering::Release);
            // A panic must not keep later signals from making dumps. The hook reports it.
            let dump = || format!("{:#}", dump_with_leaks(&self.pool));
            let made = panic::catch_unwind(AssertUnwindSafe(dump));
            report::show(match made {
                Ok(text) => format!("ecru: {text}"),
                Err(_) => String::from("ecru: the dump has failed"),
            });
            let over = self.state.compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Relaxed);
            if over.is_ok() {
                return;
            }
        }
    }
}

impl fmt::Debug for Dumper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dumper").finish_non_exhaustive()
    }
}
