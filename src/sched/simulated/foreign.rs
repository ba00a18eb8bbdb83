//! What other threads do to a simulated run.
//!
//! The time at which they do it is not determined, so the run ends, and its failure names the
//! thread. A thread that ends a wait is noted before the task arrives in the inbox of its worker.
#![expect(unsafe_code, reason = "handles tasks by pointer")]

use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::words::{about, has_ended};
use crate::base::simulated;
use crate::base::sync::atomic::Ordering;
use crate::sched::host;
use crate::sched::interrupt::interrupt;
use crate::sched::shared::WorkerShared;
use crate::sched::simulation::Simulation;
use crate::sched::worker::{Worker, current};
use crate::task::Header;

/// The threads outside of simulations that have ended a wait of a simulated task, with the
/// addresses of its worker's shared state. The worker takes them when the task arrives.
static FOREIGN: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

/// `Host::unpark`.
pub(super) unsafe fn unpark(owner: *const ()) {
    // SAFETY: P2: a parked task lives until it has been run again.
    note_unparker(unsafe { &*owner.cast::<Header>() });
    // SAFETY: P2, the caller's promise.
    unsafe { host::unpark(owner) };
}

/// Notes which thread ends the wait of a simulated task, if it is not the thread of its simulation.
fn note_unparker(header: &Header) {
    let home = header.worker.load(Ordering::Relaxed);
    if !current().is_some_and(|worker| ptr::eq(ptr::from_ref(worker.shared).cast(), home)) {
        let name = thread::current()
            .name()
            .map_or(String::from("a thread without a name"), |name| format!("the thread '{name}'"));
        FOREIGN.lock().unwrap_or_else(PoisonError::into_inner).push((home.addr(), name));
    }
}

/// Does the same for a task whose future is woken. It may belong to no simulation.
pub(in crate::sched) fn note_waker(header: &Header) {
    if simulated::has_number(header.id()) {
        note_unparker(header);
    }
}

impl Worker {
    /// Empties the inboxes. What other threads have put there ends the run.
    #[cold]
    pub(super) fn receive_simulated(&self, simulation: &Simulation) {
        let mut foreign = None;
        self.shared.receive_woken(|task| {
            // SAFETY: T1: it came through the inbox of this worker, so it lives and is in no queue.
            let header = unsafe { &*task };
            // Hidden tasks of this run come this way, too.
            if header.started.load(Ordering::Relaxed) {
                foreign =
                    Some(format!("{} ended the wait of {}", thread_of(self.shared), about(header)));
            }
            // SAFETY: T1: it came through the inbox of this worker, so it lives and is in no queue.
            unsafe { self.ready.push(task) };
        });
        self.shared.receive_cancelled(|task| {
            // SAFETY: T2: the message's reference.
            let header = unsafe { &*task };
            // The task may have ended, perhaps with an earlier run that had this inbox. Then the
            // request changes nothing.
            if !has_ended(header) {
                foreign = Some(format!("another thread cancelled {}", header.description()));
            }
            interrupt(header);
            // SAFETY: T2: the message's reference.
            unsafe { Header::release(task) };
        });
        self.shared.take_inbound(|task| {
            // SAFETY: T1: it came from the list of inbound tasks with that queue's reference, so it
            // lives.
            let header = unsafe { &*task };
            foreign = Some(format!("another thread spawned {}", header.description()));
            // SAFETY: T1: it has been taken out of the list of inbound tasks, so it is in no queue, and
            // the reference passes to this one.
            unsafe { self.ready.push(task) };
        });
        if let Some(call) = foreign {
            simulation.director.borrow_mut().foreign(call);
            self.end_run(simulation);
        }
    }
}

/// Returns the name of the thread that has sent a woken task to this worker.
fn thread_of(shared: &WorkerShared) -> String {
    let address = ptr::from_ref(shared).addr();
    let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    match foreign.iter().position(|(home, _)| *home == address) {
        Some(place) => foreign.remove(place).1,
        None => String::from("another thread"),
    }
}
