//! Models that no permit is lost or duplicated, whichever waiter gives up at whichever moment. A
//! lost wake-up is a deadlock, which loom reports. A time limit counts as expired as soon as a wait
//! would have to park.

use loom::thread;
use std::sync::Arc;
use std::time::Duration;

use super::super::notify::Notify;
use super::super::semaphore::Semaphore;
use super::{A_PERMIT, Permits};
use crate::base::sync::Checked;
use crate::scope::timeout;
use crate::source::{Source, race};

#[test]
fn what_the_last_holder_did_is_seen_by_the_next() {
    loom::model(|| {
        let shared = Arc::new((Permits::new(1), Checked::new(0)));
        let enter = |shared: &(Permits, Checked)| {
            shared.0.acquire(1, &A_PERMIT).unwrap();
            shared.1.add_one();
            shared.0.release(1);
        };
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || enter(&shared))
        });
        enter(&shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.1.get(), 3);
        assert_eq!(shared.0.free(), 1);
    });
}

#[test]
fn one_that_gives_up_leaves_the_permit_to_the_next() {
    loom::model(|| {
        let permits = Arc::new(Permits::new(0));
        let first = Arc::clone(&permits);
        let hasty = thread::spawn(move || {
            let acquired = timeout(Duration::from_secs(3600), || first.acquire(1, &A_PERMIT));
            if matches!(acquired, Ok(Ok(()))) {
                first.release(1);
            }
        });
        let second = Arc::clone(&permits);
        let patient = thread::spawn(move || second.acquire(1, &A_PERMIT).unwrap());
        permits.release(1);
        patient.join().unwrap();
        hasty.join().unwrap();
        assert_eq!(permits.free(), 0);
    });
}

#[test]
fn one_that_gives_up_halfway_gives_back_what_it_has() {
    loom::model(|| {
        let permits = Arc::new(Permits::new(0));
        let first = Arc::clone(&permits);
        let hasty = thread::spawn(move || {
            let acquired = timeout(Duration::from_secs(3600), || first.acquire(2, &A_PERMIT));
            if matches!(acquired, Ok(Ok(()))) {
                first.release(2);
            }
        });
        permits.release(1);
        permits.release(1);
        hasty.join().unwrap();
        assert_eq!(permits.free(), 2);
    });
}

#[test]
fn a_race_takes_from_one() {
    loom::model(|| {
        let semaphores = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
        let other = Arc::clone(&semaphores);
        let thread = thread::spawn(move || race(&*other).wait().unwrap().forget());
        semaphores[0].add_permits(1);
        semaphores[1].add_permits(1);
        thread.join().unwrap();
        assert_eq!(semaphores.iter().map(Semaphore::available_permits).sum::<usize>(), 1);
    });
}

/// A source as users write it: it is notified and then looks.
struct Stranger(Semaphore);

impl Source for Stranger {
    type Item = super::super::semaphore::Permit;

    fn try_take(&self) -> Option<Self::Item> {
        self.0.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a crate::park::WaitList)) {
        self.0.waiters(each);
    }
}

#[test]
fn a_stranger_in_line_is_seen() {
    loom::model(|| {
        let semaphore = Semaphore::new(0);
        let stranger = Stranger(semaphore.clone());
        let thread = thread::spawn(move || drop(stranger.wait().unwrap()));
        semaphore.add_permits(1);
        thread.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn a_notification_is_not_missed() {
    loom::model(|| {
        let notify = Arc::new(Notify::new());
        let other = Arc::clone(&notify);
        let thread = thread::spawn(move || other.wait().unwrap());
        notify.notify_one();
        notify.notify_all();
        thread.join().unwrap();
    });
}

#[test]
fn closing_ends_a_wait_that_has_some_permits() {
    loom::model(|| {
        let permits = Arc::new(Permits::new(1));
        let first = Arc::clone(&permits);
        let waiting = thread::spawn(move || first.acquire(2, &A_PERMIT).is_err());
        permits.close();
        assert!(waiting.join().unwrap());
        assert_eq!(permits.free(), 1);
    });
}
