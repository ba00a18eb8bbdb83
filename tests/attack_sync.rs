//! Attacks by hostile but safe code on waits other than those for channels: user-defined sources,
//! locks, timers, deadlock detection, stack traces. They resemble those in `attack.rs`.

mod common;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ecru::source::WaitList;
use ecru::time::Timer;
use ecru::{Runtime, Source, channel};

use common::{HOUR, PATIENCE, begin, ms, run_on, until};

/// A source that has its item from the third look on. In the second look, which is made during the
/// registration of the wait, it waits itself.
#[derive(Default)]
struct Dawdler {
    looks: AtomicU32,
    waits: AtomicBool,
    slept: AtomicBool,
    list: WaitList,
}

impl Source for Dawdler {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        match self.looks.fetch_add(1, SeqCst) {
            0 => None,
            1 => {
                self.waits.store(true, SeqCst);
                let since = Instant::now();
                let slept = ecru::sleep(ms(20));
                self.slept.store(slept.is_ok() && since.elapsed() >= ms(20), SeqCst);
                None
            }
            _ => Some(()),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.list);
    }
}

#[test]
fn a_source_that_waits_while_its_own_wait_is_registered() {
    for workers in [1, 2] {
        let dawdler = Dawdler::default();
        run_on(workers, || {
            ecru::scope(|s| {
                let waiter = s.spawn(|| dawdler.wait());
                s.spawn(|| {
                    while !dawdler.waits.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                    dawdler.list.notify_one();
                });
                let waited = waiter.join_timeout(PATIENCE / 2);
                assert!(waited.expect("a lost wake-up").unwrap().is_ok());
            });
        });
        assert!(dawdler.slept.load(SeqCst), "the sleep ended early");
    }
}

/// A timer wrapped by a user.
struct Wrapper(Timer);

impl Source for Wrapper {
    type Item = bool;

    fn try_take(&self) -> Option<bool> {
        self.0.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.0.waiters(each);
    }
}

#[test]
fn who_waits_for_an_alarm_is_not_stuck() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).detect_deadlock(true).build().unwrap();
        runtime.run(|| {
            let timer = Timer::new(ms(5));
            timer.start().unwrap();
            assert_eq!(Wrapper(timer).wait(), Ok(true));
            ecru::block_on(channel::after(ms(5)).to_future()).unwrap().unwrap();
            let (sender, receiver) = channel::bounded(1);
            channel::after(ms(5)).on_ready(move |at| sender.try_send(at).unwrap()).detach();
            receiver.recv().unwrap().unwrap();
        });
    }
}

#[inline(never)]
fn deep(left: usize, body: &dyn Fn()) {
    let ballast = [const { Cell::new(1_u8) }; 64];
    if ecru::coroutine::remaining_stack() <= left {
        body();
    } else {
        deep(left, body);
    }
    std::hint::black_box(&ballast);
}

#[test]
fn a_dump_finds_room_on_whatever_stack_is_left() {
    run_on(1, || {
        let asleep = &AtomicU32::new(0);
        ecru::scope(|s| {
            // The sleep itself takes more than 2 KiB in a debug build.
            let (mut left, mut count) = (3 * 1024, 0);
            while left < 20 * 1024 {
                s.builder().stack_size(64 * 1024).spawn_daemon(move || {
                    deep(left, &|| {
                        asleep.fetch_add(1, SeqCst);
                        let _ = ecru::sleep(HOUR);
                    });
                });
                left += 128;
                count += 1;
            }
            until(|| asleep.load(SeqCst) == count);
            let tree = ecru::RuntimeHandle::current().dump();
            assert!(tree.tasks().count() > 100);
        });
    });
}

#[test]
fn a_wait_that_is_lent_twice_and_taken_once() {
    use ecru::JoinError;
    #[derive(Debug)]
    struct Failed(JoinError);
    impl From<JoinError> for Failed {
        fn from(error: JoinError) -> Failed {
            Failed(error)
        }
    }
    run_on(1, || {
        ecru::scope(|s| {
            let one = s.spawn(|| Ok::<_, Failed>(Arc::new(1)));
            assert!(matches!(ecru::zip((&one, &one)), Err(Failed(JoinError::Taken))));
            assert_eq!(*one.join().unwrap().unwrap(), 1);
            let many: Vec<_> = (0..10_000)
                .map(|n| {
                    s.spawn(move || if n == 9_999 { Ok(n) } else { Err(Failed(JoinError::Empty)) })
                })
                .collect();
            assert_eq!(ecru::first_ok(&many).unwrap(), 9_999);
        });
    });
}

#[test]
fn a_future_is_refused_where_nobody_may_wait() {
    let refused = std::panic::catch_unwind(|| ecru::no_suspend(|| ecru::block_on(async { 1 })));
    assert!(refused.is_err());
    run_on(1, || {
        assert_eq!(ecru::block_on(async { ecru::block_on(async { 1 }).unwrap() }), Ok(1));
    });
}

struct Bell(ecru::sync::Notify);

impl Source for Bell {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.0.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.0.waiters(each);
    }
}

#[test]
fn a_wrapper_around_a_notify_is_told_when_everybody_is() {
    let bell = Bell(ecru::sync::Notify::new());
    run_on(1, || {
        ecru::scope(|s| {
            // With one worker, a task that has begun is at its wait.
            let waiter = begin(s, || bell.wait());
            bell.0.notify_all();
            assert!(waiter.join_timeout(PATIENCE / 2).is_some(), "never woken");
        });
    });
}

/// Forwards another source's list, and never takes the item that is there.
struct Refuses<S>(S, AtomicU32);

impl<S: Source> Source for Refuses<S> {
    type Item = S::Item;

    fn try_take(&self) -> Option<S::Item> {
        self.1.fetch_add(1, SeqCst);
        None
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.0.waiters(each);
    }
}

/// Two waiters of this kind, which might notify each other for ever, and behind them a waiter that
/// would take the item.
fn behind_two_who_refuse<S: Source + Clone + Send + Sync, T: Send>(
    source: &S,
    take: impl Fn() -> T + Send + Sync,
    give: impl Fn(),
) {
    for workers in [1, 2] {
        run_on(workers, || {
            ecru::scope(|s| {
                let fussy = [(); 2].map(|()| Refuses(source.clone(), AtomicU32::new(0)));
                let fussy = Arc::new(fussy);
                for which in 0..2 {
                    let fussy = Arc::clone(&fussy);
                    s.spawn_daemon(move || drop(fussy[which].wait()));
                }
                while fussy.iter().any(|one| one.1.load(SeqCst) < 2) {
                    ecru::sleep(ms(1)).unwrap();
                }
                let taker = s.spawn(&take);
                ecru::sleep(ms(2)).unwrap();
                give();
                let taken = taker.join_timeout(Duration::from_secs(30));
                assert!(matches!(taken, Some(Ok(_))), "it waits although there is something");
                let looks = fussy.iter().map(|one| one.1.load(SeqCst)).sum::<u32>();
                ecru::sleep(ms(2)).unwrap();
                let later = fussy.iter().map(|one| one.1.load(SeqCst)).sum::<u32>();
                assert!(later - looks < 10, "they tell each other for ever: {looks}, {later}");
            });
        });
    }
}

#[test]
fn a_source_that_refuses_a_value_does_not_keep_it_from_a_receiver() {
    let (sender, receiver) = channel::unbounded();
    behind_two_who_refuse(&receiver, || receiver.recv().unwrap(), || sender.send(7).unwrap());
}

#[test]
fn a_source_that_refuses_a_permit_does_not_keep_it_from_others() {
    let semaphore = ecru::sync::Semaphore::new(0);
    let take = || semaphore.acquire().unwrap().forget();
    behind_two_who_refuse(&semaphore, take, || semaphore.add_permits(1));
}

/// A coroutine is suspended while it initializes the value, and its task ends. Another task, which
/// may reuse the task's memory, waits like any other.
#[test]
fn the_maker_of_a_value_is_not_mistaken_for_a_stranger() {
    use ecru::coroutine::Coroutine;
    use ecru::sync::OnceLock;
    let value = Arc::new(OnceLock::new());
    run_on(1, || {
        ecru::scope(|s| {
            let value = Arc::clone(&value);
            let begins = s.spawn_local(move || {
                let making = Coroutine::new(move |yielder, ()| {
                    *value.get_or_init(|| {
                        yielder.suspend(());
                        7
                    })
                });
                let _ = making.resume(());
                // It is kept until the end of the test, so that it is not unwound.
                let _ = std::mem::ManuallyDrop::new(making);
            });
            begins.join().unwrap();
        });
        for _ in 0..20 {
            let value = Arc::clone(&value);
            ecru::scope(|s| {
                let waits = s.spawn_local(move || {
                    ecru::timeout(ms(1), || value.wait_cancellable().map(drop))
                });
                assert!(waits.join().is_ok(), "it panicked as if it were the maker");
            });
        }
    });
}
