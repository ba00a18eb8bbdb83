//! Models of the service's threads. They check that each call that is due is made, although the
//! calls before it block, and that no wake-up of the watcher is lost.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::{Arc, Weak};

use super::{Due, Ring, Service};
use crate::base::clock;
use std::time::Duration;

fn model(preemptions: usize, body: impl Fn(&'static Service) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let service: &'static Service = Box::leak(Box::new(Service::new(Duration::ZERO)));
        body(service);
        service.lock().ends = true;
        service.news.notify_all();
        service.spare.notify_all();
    });
}

/// Sets an alarm that is due.
fn set(service: &'static Service, what: &Arc<impl Ring + 'static>) {
    let what: Weak<dyn Ring> = Arc::<_>::downgrade(what) as Weak<dyn Ring>;
    service.set_alarm(clock::now(), Due { what, is_awaited: true }).unwrap();
}

/// A number of calls, each of which blocks until all of them are being made.
struct Meeting {
    absent: Mutex<u32>,
    all: Condvar,
}

impl Meeting {
    fn of(count: u32) -> Arc<Meeting> {
        Arc::new(Meeting { absent: Mutex::new(count), all: Condvar::new() })
    }

    fn wait(&self) {
        *self.absent.lock().unwrap() -= 1;
        self.all.notify_all();
        self.until_over();
    }

    /// Waits until all calls are being made.
    fn until_over(&self) {
        let mut absent = self.absent.lock().unwrap();
        while *absent > 0 {
            absent = self.all.wait(absent).unwrap();
        }
    }
}

impl Ring for Meeting {
    fn ring(&self) {
        self.wait();
    }
}

#[test]
fn loom_a_call_that_blocks_stops_no_other() {
    // There are five threads in this model, so it takes minutes with two preemptions.
    model(1, |service| {
        let meeting = Meeting::of(3);
        let mut state = service.lock();
        for _ in 0..3 {
            let what: Weak<Meeting> = Arc::downgrade(&meeting);
            state.push(what, None);
        }
        service.ensure_started(&mut state).unwrap();
        drop(state);
        meeting.until_over();
    });
}

#[test]
fn loom_a_spare_thread_succeeds() {
    model(2, |service| {
        let (counted, meeting) = (Arc::new(Counted::default()), Meeting::of(3));
        set(service, &counted);
        for _ in 0..2 {
            set(service, &meeting);
        }
        meeting.wait();
    });
}

/// Counts its calls.
#[derive(Default)]
struct Counted(AtomicU32);

impl Ring for Counted {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn loom_each_alarm_rings_once() {
    model(2, |service| {
        let (counted, meeting) = (Arc::new(Counted::default()), Meeting::of(2));
        set(service, &counted);
        let thread = thread::spawn({
            let meeting = Arc::clone(&meeting);
            move || set(service, &meeting)
        });
        // The call before this one has been made by then, or is being made.
        meeting.wait();
        thread.join().unwrap();
        while service.lock().next_due().is_some() {
            thread::yield_now();
        }
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    });
}
