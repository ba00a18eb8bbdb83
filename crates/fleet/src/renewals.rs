//! The thread that renews leases. Code of the program cannot block it.
//!
//! It has a runtime of its own with one worker, and the engine opens a connection of its own there.
//! It starts when a fleet begins to take jobs, and ends with the fleet. Nothing that the program
//! has written runs on it: work whose lease has ended is cancelled by a task of the program's
//! runtime, which also calls the program's function for warnings.
//!
//! In a simulation, all threads of a program are one. Renewals are ordinary tasks there.
//!
//! A renewal and the return of a job to the queue take different connections. If the renewal
//! arrives last, the server hands the job out again after a lease instead of the pause.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Receiver, RecvTimeoutError, Sender};
use ecru::{CancelHandle, Runtime};

use crate::core::Core;
use crate::errors::disconnected;
use crate::held::Holding;
use crate::keeper;

/// How long one wait for the thread lasts. It is repeated, and has a limit at all so that a check
/// for deadlocks does not take it for a wait that no task can end.
const WAIT: Duration = Duration::from_secs(3600);

/// The thread of a fleet, if it has been started.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    New,
    Running(Running),
    Ended,
}

struct Running {
    requests: Sender<Request>,
    /// Disconnected when the thread has done its work.
    ended: Receiver<()>,
    /// Cancels everything on the thread. It is there soon after the start.
    cancel: Option<CancelHandle>,
    thread: thread::JoinHandle<()>,
}

/// Asks the thread to renew the leases of a holding.
struct Request {
    holding: Arc<Holding>,
    /// Tells whether it does.
    accepted: Sender<io::Result<()>>,
    /// Dropped when the holding is over.
    over: Sender<()>,
}

/// Disconnected when the thread looks after a holding no more.
pub(crate) struct Over(Receiver<()>);

impl Over {
    /// Waits until the leases of the holding are not renewed any more.
    pub(crate) fn wait(&self) {
        while let Err(RecvTimeoutError::Timeout) = self.0.recv_timeout(WAIT) {}
    }
}

/// Has the thread renew the leases of a holding until it is over. Starts the thread if this is the
/// first one.
pub(crate) fn begin(holding: &Arc<Holding>) -> io::Result<Over> {
    let (accepted, is_accepted) = channel::bounded(1);
    let (over, is_over) = channel::bounded(1);
    let request = Request { holding: Arc::clone(holding), accepted, over };
    let requests = holding.core.renewals.requests(&holding.core)?;
    requests.try_send(request).map_err(|_| disconnected())?;
    drop(requests);
    loop {
        match is_accepted.recv_timeout(WAIT) {
            Ok(accepted) => return accepted.map(|()| Over(is_over)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(disconnected()),
            Err(RecvTimeoutError::Cancelled) => return Err(channel::RecvError::Cancelled.into()),
        }
    }
}

impl Renewals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self, core: &Arc<Core>) -> io::Result<Sender<Request>> {
        let mut state = self.state();
        match &*state {
            State::Running(running) => return Ok(running.requests.clone()),
            State::Ended => return Err(disconnected()),
            State::New => {}
        }
        let runtime = Runtime::builder()
            .workers(1)
            .name("fleet-leases")
            // Tasks of the program's runtime wake those of this one.
            .detect_deadlock(false)
            .watchdog(Duration::ZERO)
            .build()?;
        let (requests, to_do) = channel::unbounded();
        let (end, ended) = channel::bounded(1);
        let core = Arc::clone(core);
        let thread = thread::Builder::new().name("fleet-leases".to_owned()).spawn(move || {
            let _end = end;
            runtime.run(|| run(&core, &to_do));
        })?;
        *state =
            State::Running(Running { requests: requests.clone(), ended, cancel: None, thread });
        Ok(requests)
    }

    /// Notes how to cancel what the thread does. Returns `false` if it need not begin.
    fn set_cancel(&self, handle: CancelHandle) -> bool {
        match &mut *self.state() {
            State::Running(running) => {
                running.cancel = Some(handle);
                true
            }
            State::New | State::Ended => false,
        }
    }

    /// Lets the thread end.
    fn end(&self) -> Option<Running> {
        let State::Running(running) = std::mem::replace(&mut *self.state(), State::Ended) else {
            return None;
        };
        if let Some(cancel) = &running.cancel {
            cancel.cancel();
        }
        Some(running)
    }

    /// Lets the thread end without waiting for it.
    pub(crate) fn abandon(&self) {
        drop(self.end());
    }

    /// Ends the thread. No lease is to be renewed any more.
    pub(crate) fn stop(&self) {
        let Some(Running { requests, ended, thread, .. }) = self.end() else { return };
        drop(requests);
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WAIT) {}
        // It has done its work. If it has panicked, it has said so.
        let _ = thread.join();
    }
}

/// Renews leases until the fleet ends.
fn run(core: &Core, requests: &Receiver<Request>) {
    ecru::cancel_scope(|handle| {
        if !core.renewals.set_cancel(handle) {
            return;
        }
        ecru::scope(|s| {
            let mut is_ready = false;
            while let Ok(Request { holding, accepted, over }) = requests.recv() {
                if !is_ready && let Err(error) = core.attend(s) {
                    let _ = accepted.try_send(Err(error));
                    continue;
                }
                is_ready = true;
                let _ = accepted.try_send(Ok(()));
                let _ = s.builder().name("fleet-renewals").spawn(move || {
                    let _over = over;
                    keeper::renew_until_over(&holding);
                });
            }
        });
    });
}
