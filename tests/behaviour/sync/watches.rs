//! Values that are watched: `Watch` and its subscribers.

use super::cancelled;
use crate::simulated;
use crate::support::{
    Counted, OnDrop, each_run, everywhere, ms, panic_text, payload_of, quiet_panic, run_on, settle,
};
use ecru::channel::select;
use ecru::sync::{Semaphore, Subscriber, Watch};
use ecru::{Source, channel, source};
use std::cell::RefCell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::thread;

/// Waits until `subscriber` has no new value any more, and returns the values.
fn values(subscriber: &Subscriber<u32>) -> Vec<u32> {
    let mut values = Vec::new();
    while let Some(value) = subscriber.wait().unwrap() {
        values.push(value);
    }
    values
}

/// - given: a `Watch` and its subscribers
/// - when: it is set, once or more than once, before a subscriber looks
/// - then: the subscriber gets the latest value, once; a value from before `subscribe` is not new
#[test]
fn sync_67_watch_latest() {
    let body = || {
        let watch = Watch::new(1);
        let early = watch.subscribe();
        assert_eq!((early.try_take(), early.get(), early.has_changed()), (None, 1, false));
        watch.set(2);
        let late = watch.subscribe();
        watch.set(3);
        let (copy, debug) = (early.clone(), format!("{early:?} {watch:?}"));
        assert_eq!(debug, "Subscriber { latest: 3, has_changed: true } Watch(3)");
        for subscriber in [&early, &late, &copy] {
            assert_eq!((subscriber.get(), subscriber.has_changed()), (3, true));
            assert_eq!((subscriber.wait(), subscriber.try_take()), (Ok(Some(3)), None));
        }
        assert!(ecru::timeout(ms(1), || early.wait()).is_err());
        watch.set(3);
        assert_eq!((early.wait(), watch.get(), watch.with(|value| *value)), (Ok(Some(3)), 3, 3));
    };
    body();
    each_run(body);
}

/// - given: subscribers that wait, in tasks on one and on two workers, and on threads
/// - when: another task or thread sets values, and drops the `Watch`
/// - then: each gets later and later values, the last one in any case, and then `None`, every time
#[test]
fn sync_68_watch_until_the_end() {
    const LAST: u32 = 200;
    let check = |subscriber: &Subscriber<u32>| {
        let values = values(subscriber);
        assert!(values.is_sorted_by(|one, next| one < next));
        assert_eq!(values.last(), Some(&LAST));
        assert_eq!((subscriber.wait(), subscriber.try_take()), (Ok(None), Some(None)));
        assert_eq!(subscriber.get(), LAST);
    };
    let set = |watch: Watch<u32>| (1..=LAST).for_each(|value| watch.set(value));
    each_run(|| {
        let watch = Watch::new(0);
        ecru::scope(|s| {
            for subscriber in [(); 3].map(|()| watch.subscribe()) {
                s.spawn(move || check(&subscriber));
            }
            s.spawn(move || {
                ecru::yield_now().unwrap();
                set(watch);
            });
        });
    });
    let watch = Watch::new(0);
    let subscribers = [(); 2].map(|()| watch.subscribe());
    thread::scope(|t| {
        for subscriber in subscribers {
            t.spawn(move || check(&subscriber));
        }
        set(watch);
    });
}

/// - given: a wait for a value that a predicate accepts
/// - when: the present value is accepted, a later one is, none is before the `Watch` is dropped
/// - then: it returns at once; returns that value, which then counts as seen; returns `None`
#[test]
fn sync_69_watch_wait_for() {
    everywhere(|side| {
        let watch = Watch::new(1);
        let (subscriber, other) = (watch.subscribe(), watch.subscribe());
        assert_eq!(subscriber.wait_for(|value| *value == 1), Ok(Some(1)));
        let set = || {
            (2..=10).for_each(|value| watch.set(value));
            drop(watch);
        };
        let in_vain = || other.wait_for(|value| *value > 10);
        let ten = || subscriber.wait_for(|value| *value >= 10);
        let (got, (got_none, ())) = side.both(ten, || side.both(in_vain, set));
        assert_eq!((got, got_none), (Ok(Some(10)), Ok(None)));
        assert_eq!(subscriber.try_take(), Some(None));
        // What is refused has not been seen.
        assert_eq!((other.try_take(), other.try_take()), (Some(Some(10)), Some(None)));
    });
}

/// - given: a predicate of `wait_for`
/// - when: it waits, sets the value, panics, or its task is cancelled
/// - then: it may; the value that it has set is examined next; the caller gets the panic, or
///   `Cancelled`, and has seen nothing
#[test]
fn sync_70_watch_predicate_is_free() {
    each_run(|| {
        let watch = Watch::new(1);
        let subscriber = watch.subscribe();
        let doubling = subscriber.wait_for(|value| {
            ecru::yield_now().unwrap();
            watch.set(value * 2);
            *value == 64
        });
        // The one that was accepted is older than the one that was set then.
        assert_eq!((doubling, subscriber.try_take()), (Ok(Some(64)), Some(Some(128))));
        watch.set(7);
        payload_of(|| subscriber.wait_for(|_| quiet_panic("refused")));
        assert!(cancelled(|| subscriber.wait_for(|_| true)).is_err());
        assert!(cancelled(|| subscriber.wait()).is_err());
        assert!(ecru::timeout(ms(1), || subscriber.wait_for(|_| false)).is_err());
        assert_eq!(subscriber.wait(), Ok(Some(7)));
        ecru::scope(|s| {
            let waits = [
                s.spawn(|| subscriber.wait()),
                s.spawn(|| subscriber.wait_for(|value| *value == 8)),
                s.spawn(|| (&subscriber).or(source::never()).wait()),
            ];
            settle();
            waits.iter().for_each(|wait| wait.cancel());
            assert!(waits.iter().all(|wait| !matches!(wait.join(), Ok(Ok(_)))));
        });
        watch.set(8);
        assert_eq!(subscriber.wait(), Ok(Some(8)));
    });
}

/// - given: many updates, by tasks on one and on two workers, and by threads
/// - when: they are made at the same time
/// - then: each sees the result of the one before, and returns what its function returns
#[test]
fn sync_71_watch_updates() {
    const EACH: usize = 100;
    let watch = Watch::new(0);
    let update = || {
        for _ in 0..EACH {
            let (before, after) = watch.update(|value| {
                *value += 1;
                (*value - 1, *value)
            });
            assert_eq!(after, before + 1);
        }
    };
    let tasks = || {
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn(update);
            }
        });
    };
    each_run(tasks);
    if simulated::is_on() {
        return;
    }
    let before = watch.get();
    thread::scope(|t| {
        t.spawn(update);
        t.spawn(update);
        run_on(2, tasks);
    });
    assert_eq!(watch.get(), before + 6 * EACH);
}

/// - given: an update
/// - when: its function sets the value, updates it, waits, or panics; the caller is cancelled
/// - then: the value that was set stays; it panics, as in `no_suspend`, and so does the wait; the
///   value is unchanged, and the next update is made; it is made
#[test]
fn sync_72_watch_update_alone() {
    let body = || {
        let watch = Watch::new(1);
        let subscriber = watch.subscribe();
        watch.update(|value| {
            *value = 2;
            assert_eq!(watch.get(), 1);
            watch.set(3);
            assert_eq!(watch.get(), 3);
        });
        assert_eq!((watch.get(), subscriber.wait()), (3, Ok(Some(3))));
        for text in [
            panic_text(|| watch.update(|_| watch.update(|value| *value = 4))),
            panic_text(|| watch.update(|_| ecru::sleep(ms(1)))),
            panic_text(|| ecru::no_suspend(|| watch.update(|value| *value = 4))),
        ] {
            assert!(text.contains("no_suspend"), "{text}");
        }
        payload_of(|| {
            watch.update(|value| {
                *value = 4;
                quiet_panic("in an update")
            })
        });
        assert_eq!((watch.get(), subscriber.try_take()), (3, None));
        cancelled(|| watch.update(|value| *value += 1));
        ecru::no_suspend(|| assert_eq!(watch.get(), 4));
        ecru::no_suspend(|| watch.set(5));
        assert_eq!(subscriber.wait(), Ok(Some(5)));
    };
    body();
    each_run(body);
}

thread_local! {
    /// Reads the watch whose value is [`Entangled`].
    static READER: RefCell<Option<Subscriber<Entangled>>> = const { RefCell::new(None) };
}

/// A value whose clone and destructor read the watch that it is the value of.
struct Entangled(Arc<AtomicUsize>);

impl Entangled {
    fn look(&self) {
        self.0.fetch_add(1, SeqCst);
        READER.with_borrow(|reader| {
            if let Some(reader) = reader {
                reader.with(|value| assert!(Arc::ptr_eq(&value.0, &self.0)));
            }
        });
    }
}

impl Clone for Entangled {
    fn clone(&self) -> Entangled {
        self.look();
        Entangled(Arc::clone(&self.0))
    }
}

impl Drop for Entangled {
    fn drop(&mut self) {
        self.look();
    }
}

/// - given: a value whose clone and destructor read the same `Watch`
/// - when: it is read, set and updated
/// - then: nothing is locked meanwhile
#[test]
fn sync_73_watch_runs_user_code_unlocked() {
    let looks = Arc::new(AtomicUsize::new(0));
    let new = || Entangled(Arc::clone(&looks));
    let watch = Watch::new(new());
    READER.set(Some(watch.subscribe()));
    drop(watch.get());
    watch.set(new());
    watch.update(|value| *value = new());
    let last = READER.take();
    assert_eq!(looks.load(SeqCst), 6);
    drop((watch, last));
    assert_eq!(looks.load(SeqCst), 7);
}

/// - given: values with destructors
/// - when: they are replaced, and the watch and its subscribers are dropped or forgotten
/// - then: each is dropped once; the last one with the last of these, and never if a subscriber is
///   forgotten; a watch that is forgotten does not end
#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn sync_74_watch_drops_values() {
    let drops = AtomicUsize::new(0);
    let watch = Watch::new(Counted(&drops));
    let subscriber = watch.subscribe();
    watch.set(Counted(&drops));
    subscriber.with(|_| {
        watch.set(Counted(&drops));
        // The second one is being read.
        assert_eq!(drops.load(SeqCst), 1);
    });
    assert_eq!(drops.load(SeqCst), 2);
    drop(watch);
    assert_eq!(drops.load(SeqCst), 2);
    drop(subscriber);
    assert_eq!(drops.load(SeqCst), 3);

    let watch = Watch::new(Counted(&drops));
    std::mem::forget(watch.subscribe());
    watch.set(Counted(&drops));
    drop(watch);
    assert_eq!(drops.load(SeqCst), 4);

    let watch = Watch::new(1);
    let subscriber = watch.subscribe();
    std::mem::forget(watch);
    assert_eq!(subscriber.try_take(), None);
    assert!(ecru::timeout(ms(1), || subscriber.wait()).is_err());
}

/// - given: a setter whose old value's destructor panics
/// - when: it sets a value
/// - then: it gets the panic, and the new value has been set, and the subscribers woken
#[test]
fn sync_75_watch_panicking_destructor() {
    run_on(1, || {
        let armed = AtomicBool::new(true);
        let bomb = || {
            OnDrop(|| {
                if armed.swap(false, SeqCst) {
                    quiet_panic("dropped");
                }
            })
        };
        let watch = Watch::new(Arc::new(bomb()));
        let subscriber = watch.subscribe();
        ecru::scope(|s| {
            let waiting = s.spawn_local(|| subscriber.wait().unwrap().is_some());
            settle();
            payload_of(|| watch.set(Arc::new(bomb())));
            assert!(waiting.join().unwrap());
        });
    });
}

/// - given: subscribers as arms of races and selects, as futures, and with callbacks
/// - when: the value is set, and the watch is dropped
/// - then: the arm is taken once for each new value, and then for the end
#[test]
fn sync_76_watch_as_source() {
    everywhere(|side| {
        let watch = Watch::new(0);
        let subscriber = watch.subscribe();
        let (sender, receiver) = channel::unbounded::<u32>();
        let either = || {
            select! {
                wait(&subscriber) -> value => value.unwrap().map(|value| ("watch", value)),
                recv(receiver) -> value => Some(("channel", value.unwrap())),
            }
        };
        watch.set(1);
        assert_eq!(either(), Some(("watch", 1)));
        sender.send(2).unwrap();
        assert_eq!(either(), Some(("channel", 2)));
        assert_eq!(side.both(either, || watch.set(3)), (Some(("watch", 3)), ()));
        let (tell, told) = mpsc::channel();
        let subscription = subscriber.clone().on_ready(move |item| tell.send(item).unwrap());
        let future = subscriber.clone().to_future();
        watch.set(4);
        assert_eq!(told.recv().unwrap(), Some(4));
        assert_eq!(ecru::block_on(future), Ok(Some(4)));
        drop((subscription, watch));
        assert_eq!((either(), either()), (Some(("watch", 4)), None));
    });
}

/// - given: tasks that wait with one subscriber
/// - when: values are set one by one, and the watch is dropped
/// - then: each value goes to one of them, and all get the end
#[test]
fn sync_77_watch_shared_subscriber() {
    const VALUES: u32 = 50;
    each_run(|| {
        let watch = Watch::new(0);
        let subscriber = watch.subscribe();
        let taken = Semaphore::new(0);
        let total = AtomicU32::new(0);
        ecru::scope(|s| {
            let takers = [(); 3].map(|()| {
                s.spawn(|| {
                    let mut took = 0;
                    while subscriber.wait().unwrap().is_some() {
                        took += 1;
                        taken.add_permits(1);
                    }
                    total.fetch_add(took, SeqCst);
                })
            });
            for value in 1..=VALUES {
                watch.set(value);
                taken.acquire().unwrap().forget();
            }
            drop(watch);
            takers.iter().for_each(|taker| taker.join().unwrap());
        });
        assert_eq!(total.into_inner(), VALUES);
    });
}
