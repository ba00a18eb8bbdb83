//! The thread of a simulation, and whether there are threads that it has started.
//!
//! The system gives a new thread the name of the one that starts it, until the new thread gets a
//! name of its own. So the thread of each simulation has a name that no other one has, and threads
//! with the same name were started in the simulation.

use std::ffi::{CString, OsStr};
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::base::sync::StaticU64;
use crate::base::sync::atomic::Ordering;
use crate::base::watched::WatchedThread;

/// The longest name that the system keeps.
const LONGEST_NAME: usize = 15;

/// The thread of a simulation, once it has [begun](SimulationThread::begin).
#[derive(Debug)]
pub(super) struct SimulationThread(WatchedThread);

impl SimulationThread {
    pub(super) fn new() -> SimulationThread {
        SimulationThread(WatchedThread::new())
    }

    /// Notes that this is the current thread, and gives it a name that no other thread has.
    pub(super) fn begin(&self) {
        static RUNS: StaticU64 = StaticU64::new(0);
        self.0.begin();
        let mut name = format!("ecru-sim#{}", RUNS.fetch_add(1, Ordering::Relaxed));
        name.truncate(LONGEST_NAME);
        if let Ok(name) = CString::new(name) {
            // With the old name, nothing is known of the threads that it starts.
            let _ = rustix::thread::set_name(&name);
        }
    }

    /// Returns whether the thread has begun. Before that, it is not known how long it waits.
    pub(super) fn has_begun(&self) -> bool {
        self.0.number() != 0
    }

    /// Returns whether the thread, which is the current one, has started a thread that has not ended
    /// and has no name of its own.
    pub(super) fn has_started_others(&self) -> bool {
        has_namesake(self.0.number()).unwrap_or(false)
    }

    /// Returns how long the thread has waited for a processor since it was started.
    pub(super) fn waited(&self) -> Duration {
        self.0.times().waited
    }
}

/// Returns whether another thread has the name of this one.
fn has_namesake(number: i32) -> Option<bool> {
    let own = number.to_string();
    let name = |number: &OsStr| {
        fs::read(Path::new("/proc/self/task").join(number).join("comm")).unwrap_or_default()
    };
    let own_name = name(OsStr::new(&own));
    let threads = fs::read_dir("/proc/self/task").ok()?.filter_map(Result::ok);
    let mut others = threads.map(|thread| thread.file_name()).filter(|thread| *thread != *own);
    Some(own_name.starts_with(b"ecru-sim#") && others.any(|other| name(&other) == own_name))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SimulationThread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_has_not_begun_has_not_waited() {
        let thread = SimulationThread::new();
        assert_eq!((thread.waited(), thread.has_begun()), (Duration::ZERO, false));
        thread.begin();
        assert!(thread.has_begun());
        let first = thread.waited();
        assert!(thread.waited() >= first);
    }

    #[test]
    fn threads_that_were_started_by_a_thread_are_known() {
        std::thread::spawn(|| {
            let thread = SimulationThread::new();
            thread.begin();
            assert!(!thread.has_started_others());
            let (tx, rx) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || rx.recv());
            assert!(thread.has_started_others());
            // Those of another thread of this kind do not count.
            std::thread::spawn(|| {
                let thread = SimulationThread::new();
                thread.begin();
                assert!(!thread.has_started_others());
            })
            .join()
            .unwrap();
            drop(tx);
            assert!(other.join().unwrap().is_err());
        })
        .join()
        .unwrap();
    }
}
