//! Models of the count: the scope returns after its last child, and no child touches the scope's
//! frame after that.

use loom::thread;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::super::scoped::Plain;
use super::{Options, ScopeCore};
use crate::base::sync::Checked;
use crate::task::Header;

/// Does what a worker does with a task that never parks; see `Worker::start`.
pub(in crate::scope) fn perform(task: *const Header) {
    let header = unsafe { &*task };
    header.started.store(true, Ordering::Relaxed);
    let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.upcalls.ended);
    let released = unsafe { (header.vtable.run)(task) };
    if !released {
        unsafe { Header::release(task) };
    }
    unsafe { ended(scope, daemon) };
}

/// A pointer that may be sent to another thread.
pub(in crate::scope) struct Sent(pub(in crate::scope) *const Header);
unsafe impl Send for Sent {}

impl Sent {
    pub(in crate::scope) fn perform(self) {
        perform(self.0);
    }
}

/// Runs `body` with a core, and checks the core's memory when it is freed.
pub(in crate::scope) fn with_core(body: impl FnOnce(&'static ScopeCore)) {
    let core = Box::into_raw(Box::new(ScopeCore::new(ptr::null())));
    let shared: &'static ScopeCore = unsafe { &*core };
    body(shared);
    shared.finish();
    assert!(shared.is_over());
    let mut core = unsafe { Box::from_raw(core) };
    // Loom reports an error if an access by a child is not ordered before this one.
    core.count.with_mut(|_| ());
}

fn spawn<F: FnOnce()>(core: &ScopeCore, daemon: bool, body: F) -> Sent {
    let options = if daemon { Options::daemon() } else { Options::default() };
    let task = core.allocate(Plain(body), options, Location::caller());
    // The handle is dropped at once.
    unsafe { Header::detach(task) };
    Sent(task)
}

fn check(daemons: [bool; 2]) {
    loom::model(move || {
        let cells = [(); 2].map(|()| Arc::new(Checked::new(0)));
        let mut threads = vec![];
        with_core(|core| {
            for (cell, daemon) in cells.iter().zip(daemons) {
                let written = Arc::clone(cell);
                let task = spawn(core, daemon, move || written.add_one());
                threads.push(thread::spawn(move || task.perform()));
            }
        });
        // The scope has returned, so everything that its children did has happened and is visible.
        for cell in &cells {
            assert_eq!(cell.get_alone(), 1);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn two_children() {
    check([false, false]);
}

#[test]
fn a_child_and_a_daemon() {
    check([false, true]);
}

#[test]
fn two_daemons() {
    check([true, true]);
}

#[test]
fn a_daemon_that_spawns_a_child_and_ends() {
    loom::model(|| {
        let cell = Arc::new(Checked::new(0));
        let mut threads = vec![];
        with_core(|core| {
            let written = Arc::clone(&cell);
            let place = Arc::new(AtomicPtr::new(ptr::null_mut()));
            let child = Arc::clone(&place);
            let daemon = spawn(core, true, move || {
                let task = spawn(core, false, move || written.add_one());
                child.store(task.0.cast_mut(), Ordering::Relaxed);
            });
            threads.push(thread::spawn(move || {
                daemon.perform();
                perform(place.load(Ordering::Relaxed));
            }));
        });
        assert_eq!(cell.get_alone(), 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
