//! Models of a task's end against its handle: the result is taken or dropped exactly once, and the
//! box is freed after its last use.

use loom::thread;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::super::core::ScopeCore;
use super::super::core::loom_models::{Sent, with_core};
use super::super::scoped::Plain;
use super::{JoinError, JoinHandle};
use crate::base::sync::Checked;
use crate::scope::Options;

/// A result whose cell the task writes. The cell is accessed again when the result is dropped.
struct Product {
    cell: Arc<Checked>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Product {
    fn drop(&mut self) {
        assert_eq!(self.cell.get_alone(), 7);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn spawn(core: &ScopeCore, dropped: &Arc<AtomicUsize>) -> (Sent, JoinHandle<'static, Product>) {
    let product = Product { cell: Arc::new(Checked::new(7)), dropped: Arc::clone(dropped) };
    let body = Plain(move || {
        product.cell.set(7);
        product
    });
    let task = core.allocate(body, Options::default(), Location::caller());
    (Sent(task), unsafe { JoinHandle::new(task) })
}

fn check(user: fn(JoinHandle<'static, Product>)) {
    check_with(loom::model::Builder::new(), user);
}

fn check_with(model: loom::model::Builder, user: fn(JoinHandle<'static, Product>)) {
    model.check(move || {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut threads = vec![];
        with_core(|core| {
            let (task, handle) = spawn(core, &dropped);
            threads.push(thread::spawn(move || task.perform()));
            user(handle);
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn its_end_against_a_join() {
    check(|handle| assert!(handle.join().is_ok()));
}

#[test]
fn its_end_against_the_drop_of_the_handle() {
    check(drop);
}

#[test]
fn its_end_against_a_join_that_gives_up() {
    check(|handle| drop(handle.join_timeout(Duration::ZERO)));
}

#[test]
fn its_end_against_two_joins() {
    // With three threads and two preemptions, this model alone takes minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    check_with(model, |handle| {
        let handle = Arc::new(handle);
        let other = Arc::clone(&handle);
        let thread = thread::spawn(move || other.join().is_ok());
        let own = handle.join();
        assert!(matches!(own, Ok(_) | Err(JoinError::Taken)));
        assert!(own.is_ok() ^ thread.join().unwrap());
    });
}

#[test]
fn its_end_against_a_request() {
    check(|handle| {
        handle.cancel();
        match handle.join() {
            Ok(_) | Err(JoinError::Cancelled) => {}
            other => panic!("{:?}", other.err()),
        }
    });
}

/// The task ends inside the join that started it. Its end and the claim of the result are one step.
#[test]
fn its_end_inside_a_join_against_another_join() {
    loom::model(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        with_core(|core| {
            let (task, handle) = spawn(core, &dropped);
            let handle = Arc::new(handle);
            let other = Arc::clone(&handle);
            let thread = thread::spawn(move || {
                assert!(matches!(other.join(), Err(JoinError::Taken)));
            });
            // This is what `sched::run_if_unstarted` does.
            handle.header().claims.set(true);
            task.perform();
            assert!(handle.take_claimed().is_ok());
            // The handle must be dropped after its last use, but loom does not see the counts of
            // std's `Arc`.
            thread.join().unwrap();
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}
