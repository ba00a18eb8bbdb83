//! Wakers and callbacks that use the channel that calls them, value expressions of selects that use
//! their own channel, and polls in unusual places.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use ecru::channel::{self, Receiver, RecvError, Select, Sender, TryRecvError};
use ecru::source::{self, WaitList};
use ecru::{Source, select};

use crate::{HOUR, OnDrop, Watchdog, each_run, run_on, settle, text_of};

/// A waker whose every call, including its destructor, uses the channel that calls it.
#[test]
fn a_waker_uses_the_channel_that_calls_it() {
    struct Uses(Sender<u32>, Receiver<u32>, AtomicUsize);
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            self.2.fetch_add(1, SeqCst);
            _ = (self.0.try_send(99), self.1.len(), self.1.try_recv());
        }
    }
    impl Drop for Uses {
        fn drop(&mut self) {
            _ = (self.0.try_send(98), self.1.try_recv());
        }
    }
    each_run(|| {
        let (sender, receiver) = channel::bounded(2);
        let uses = Arc::new(Uses(sender.clone(), receiver.clone(), AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&uses));
        let mut future = Box::pin(receiver.clone().to_future());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sender.send(1).unwrap();
        assert_eq!(uses.2.load(SeqCst), 1);
        // Another waker replaces the first, which is dropped.
        while receiver.try_recv().is_ok() {}
        let mut again = Box::pin(receiver.to_future());
        assert!(again.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop((waker, uses));
        _ = again.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop((future, again));
        sender.close_now();
    });
}

/// A future that clones its waker, calls it too often, and keeps it after its end.
#[test]
fn a_waker_is_called_after_the_end_of_its_run() {
    static LATE: OnceLock<Waker> = OnceLock::new();
    struct Keeps;
    impl Future for Keeps {
        type Output = ();
        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            _ = LATE.set(context.waker().clone());
            context.waker().wake_by_ref();
            let another = context.waker().clone();
            another.wake();
            Poll::Ready(())
        }
    }
    run_on(1, || assert_eq!(ecru::block_on(Keeps), Ok(())));
    LATE.get().unwrap().wake_by_ref();
}

/// Each callback sends to the channel of the next. A task on the default stack calls the first.
#[test]
fn a_chain_of_a_hundred_callbacks_on_the_stack_of_a_task() {
    run_on(1, || {
        let (first, mut last) = channel::unbounded::<u32>();
        for _ in 0..100 {
            let (sender, receiver) = channel::unbounded();
            last.on_ready(move |n| sender.try_send(n.unwrap() + 1).unwrap()).detach();
            last = receiver;
        }
        ecru::scope(|s| s.spawn(move || first.send(0).unwrap()).join()).unwrap();
        assert_eq!(last.try_recv(), Ok(100));
    });
}

/// A callback drops its own subscription, subscribes again, closes its channel, and panics with a
/// payload that panics when it is dropped.
#[test]
fn a_callback_turns_on_its_own_subscription() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic::resume_unwind(Box::new("the payload"));
        }
    }
    each_run(|| {
        let (sender, receiver) = channel::bounded(0);
        let own = Arc::new(Mutex::new(None));
        let (theirs, again, closes) = (Arc::clone(&own), receiver.clone(), sender.clone());
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let subscription = receiver.clone().on_ready(move |n| {
            assert_eq!(n, Ok(4));
            count.fetch_add(1, SeqCst);
            drop(theirs.lock().unwrap().take());
            let subscription = again.on_ready(move |n| {
                assert_eq!(n, Err(RecvError::Disconnected));
                count.fetch_add(1, SeqCst);
            });
            subscription.detach();
            closes.close();
            panic::resume_unwind(Box::new(Bomb));
        });
        *own.lock().unwrap() = Some(subscription);
        assert_eq!(sender.send(4), Ok(()));
        assert_eq!(calls.load(SeqCst), 2);
        assert!(sender.send(5).is_err());
    });
}

/// In three ways, the value expression of a select sends to the channel in which a place is
/// reserved for it, and closes it.
#[test]
fn a_value_uses_the_channel_that_it_is_for() {
    for capacity in [0, 1, 2] {
        each_run(|| {
            let (sender, receiver) = channel::bounded(capacity);
            ecru::scope(|s| {
                let receives = s.spawn(|| {
                    let mut got = vec![];
                    while !got.contains(&5) {
                        got.push(receiver.recv().unwrap());
                    }
                    got
                });
                let sent = RefCell::new(vec![]);
                let note = |ok: bool| sent.borrow_mut().push(ok);
                select! {
                    send(sender, {
                        note(sender.send_timeout(1, crate::ms(1)).is_ok());
                        note(sender.try_send(2).is_ok());
                        select! { send(sender, 3) -> r => note(r.is_ok()), default => note(false) }
                        4
                    }) -> r => assert_eq!(r, Ok(())),
                }
                sender.send(5).unwrap();
                let mut got = receives.join().unwrap();
                got.extend(receiver.try_iter());
                got.sort_unstable();
                let expected: Vec<_> = (1..).zip(sent.into_inner()).filter(|n| n.1).collect();
                let expected = expected.iter().map(|n| n.0).chain([4, 5]).collect::<Vec<_>>();
                assert_eq!(got, expected, "{capacity}");
            });
            ecru::scope(|s| {
                let receives = s.spawn_local(|| receiver.recv());
                settle();
                let sent = select! { send(sender, { sender.close(); 9 }) -> r => r.is_ok() };
                assert_eq!(receives.join().unwrap().is_ok(), sent, "{capacity}");
            });
        });
    }
}

/// A poll in a destructor during unwinding finds a select with a send arm, and so does a poll under
/// `no_suspend`. Neither makes the select evaluate its value.
#[test]
fn a_poll_that_may_not_wait_leaves_a_select_alone() {
    each_run(|| {
        let (sender, receiver) = channel::bounded::<u32>(0);
        let made = AtomicUsize::new(0);
        ecru::scope(|s| {
            let (sender, receiver, made) = (&sender, &receiver, &made);
            let sends = s.spawn_local(move || {
                let value = || {
                    made.fetch_add(1, SeqCst);
                    panic::resume_unwind(Box::new("the value"))
                };
                let attempt = || select! { send(sender, value()) -> _ => () };
                panic::catch_unwind(AssertUnwindSafe(attempt)).unwrap_err()
            });
            settle();
            let polls = s.spawn_local(move || {
                let unwinds = || {
                    let _polls = OnDrop(|| {
                        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
                        select! { recv(receiver) -> n => panic!("{n:?}"), default => () }
                    });
                    panic::resume_unwind(Box::new("the destructor's"));
                };
                panic::catch_unwind(AssertUnwindSafe(unwinds)).unwrap_err()
            });
            assert_eq!(text_of(&*polls.join().unwrap()), "the destructor's");
            assert_eq!(ecru::no_suspend(|| receiver.try_recv()), Err(TryRecvError::Empty));
            assert_eq!(made.load(SeqCst), 0);
            // The value is evaluated when a poll may wait, and panics where it is evaluated.
            while made.load(SeqCst) == 0 {
                assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
                settle();
            }
            assert_eq!(text_of(&*sends.join().unwrap()), "the value");
        });
    });
}

/// A value circulates among three channels, and is in the next one before it leaves the previous
/// one. A look at all three finds it.
#[test]
fn a_look_at_three_channels_finds_the_value_that_goes_round() {
    let _watchdog = Watchdog::new();
    let channels: Vec<_> = (0..3).map(|_| channel::bounded(1)).collect();
    channels[0].0.send(1).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            let mut at = 0;
            while !stop.load(SeqCst) {
                let next = (at + 1) % 3;
                channels[next].0.send(1).unwrap();
                channels[at].1.recv().unwrap();
                at = next;
            }
        });
        let missed = (0..5_000).find(|_| {
            let mut looks = Select::new();
            for (_, receiver) in &channels {
                looks.recv(receiver);
            }
            looks.try_ready().is_err()
        });
        stop.store(true, SeqCst);
        assert_eq!(missed, None);
    });
}

/// One arm is a filter that drops the last sender when it refuses. The other arm notifies its own
/// list at each look, and is in it twice.
#[test]
fn a_race_of_hostile_arms_ends() {
    struct Restless<'a>(&'a WaitList, &'a AtomicUsize);
    impl Source for Restless<'_> {
        type Item = Result<u32, RecvError>;
        fn try_take(&self) -> Option<Self::Item> {
            self.0.notify_all();
            (self.1.fetch_add(1, SeqCst) > 50).then_some(Ok(0))
        }
        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            each(self.0);
            each(self.0);
            self.0.notify_all();
        }
    }
    each_run(|| {
        let (list, looks) = (WaitList::new(), AtomicUsize::new(0));
        let (sender, receiver) = channel::bounded::<u32>(1);
        sender.send(1).unwrap();
        let last = Mutex::new(Some(sender));
        let drops = (&receiver).filter(|_| {
            drop(last.lock().unwrap().take());
            false
        });
        let racing = source::either(drops, Restless(&list, &looks));
        let ended = ecru::timeout(HOUR, || racing.wait());
        assert!(matches!(ended, Ok(Ok(source::Either::Right(Ok(0))))));
        list.notify_one();
        assert!(last.lock().unwrap().is_none());
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Err(RecvError::Disconnected)));
    });
}
