//! User-defined sources among channels that panic, wait, or forward another source's lists.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Receiver, RecvError, Sender};
use ecru::{Source, select_biased, source};

use crate::common::PATIENCE;
use crate::{Watchdog, at_once, ms, run_on, settle};

#[test]
fn a_source_that_panics_while_others_are_registered_loses_nothing() {
    struct Bomb(Cell<u32>);
    impl Source for Bomb {
        type Item = Result<i32, RecvError>;
        fn try_take(&self) -> Option<Self::Item> {
            None
        }
        fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a source::WaitList)) {
            self.0.set(self.0.get() + 1);
            if self.0.get() == 3 {
                // Leaves time for the other source to receive an item.
                thread::sleep(ms(1));
                panic::resume_unwind(Box::new("on purpose"));
            }
        }
    }
    let _watchdog = Watchdog::new();
    for _ in 0..30 {
        let (sender, receiver) = channel::unbounded();
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_micros(500));
                sender.send(7).unwrap();
            });
            let both = (&receiver).or(Bomb(Cell::new(0)));
            let result = panic::catch_unwind(AssertUnwindSafe(|| both.wait()));
            match result {
                Ok(value) => assert_eq!(value, Ok(Ok(7))),
                Err(_) => {
                    let left = receiver.recv_timeout(PATIENCE / 2);
                    assert_eq!(left, Ok(7), "the value is still there for others");
                }
            }
        });
    }
}

#[test]
fn a_source_that_uses_the_channel_it_races_with() {
    struct Nosy<'a>(&'a Sender<i32>, &'a Receiver<i32>, Cell<bool>);
    impl Source for Nosy<'_> {
        type Item = Result<i32, RecvError>;
        fn try_take(&self) -> Option<Self::Item> {
            let _ = (self.0.len(), self.1.is_full());
            None
        }
        fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a source::WaitList)) {
            if !self.2.replace(true) {
                self.0.try_send(5).unwrap();
            }
        }
    }
    at_once(1, |_| {
        let (sender, receiver) = channel::unbounded();
        let nosy = Nosy(&sender, &receiver, Cell::new(false));
        assert_eq!((&receiver).or(nosy).wait(), Ok(Ok(5)));
    });
}

#[test]
fn an_iterator_of_a_source_that_waits() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::bounded::<i32>(0);
    let shared = source::from_iter(receiver.iter());
    let sum = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..10 {
                    let n = shared.wait().unwrap();
                    sum.fetch_add(n as usize, SeqCst);
                }
            });
        }
        (0..30).for_each(|n| sender.send(n).unwrap());
    });
    assert_eq!(sum.load(SeqCst), 29 * 30 / 2);
}

/// A receiver inside a user-defined source.
struct Forward<'a>(&'a Receiver<i32>);

impl Source for Forward<'_> {
    type Item = Result<i32, RecvError>;
    fn try_take(&self) -> Option<Self::Item> {
        self.0.try_take()
    }
    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a source::WaitList)) {
        self.0.waiters(each);
    }
}

#[test]
fn a_race_with_a_wrapper_of_the_same_receiver_loses_nothing() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let racing = s.spawn_local(|| Forward(&receiver).or(&receiver).wait());
            settle();
            for n in [1, 2] {
                let sender = &sender;
                s.spawn_local(move || sender.send(n).unwrap());
            }
            let first = racing.join().unwrap().unwrap().unwrap();
            let second = receiver.recv_timeout(PATIENCE / 2);
            assert_eq!((first, second), (1, Ok(2)));
        });
    });
}

#[test]
fn a_filter_beside_a_wrapper_of_the_same_receiver_is_asked() {
    for filter_first in [true, false] {
        run_on(1, || {
            let (sender, receiver) = channel::unbounded();
            ecru::scope(|s| {
                let racing = s.spawn_local(|| {
                    let odd = (&receiver).filter(|n: &i32| n % 2 == 1).map(|n| (n, "odd"));
                    let any = Forward(&receiver).map(|n| (n, "any"));
                    if filter_first { odd.or(any).wait() } else { any.or(odd).wait() }
                });
                settle();
                sender.send(2).unwrap();
                assert_eq!(racing.join().unwrap(), Ok((Ok(2), "any")));
            });
        });
    }
}

#[test]
fn a_notification_for_an_arm_that_waits_for_more_than_that_is_not_lost() {
    struct Mailbox {
        letter: Mutex<Option<i32>>,
        readers: source::WaitList,
    }
    impl Source for Mailbox {
        type Item = Result<i32, RecvError>;
        fn try_take(&self) -> Option<Self::Item> {
            self.letter.lock().unwrap().take().map(Ok)
        }
        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a source::WaitList)) {
            each(&self.readers);
        }
    }
    run_on(1, || {
        let mailbox = Mailbox { letter: Mutex::new(None), readers: source::WaitList::new() };
        let (_sender, receiver) = channel::unbounded();
        let (other, from_other) = channel::unbounded();
        ecru::scope(|s| {
            let first = s.spawn_local(|| {
                select_biased! {
                    recv(from_other) -> n => n,
                    wait((&mailbox).or(&receiver)) -> n => n.unwrap(),
                }
            });
            settle();
            *mailbox.letter.lock().unwrap() = Some(1);
            mailbox.readers.notify_one();
            other.send(2).unwrap();
            // It was notified of the letter, which is still there, so it takes that.
            assert_eq!(first.join().unwrap(), Ok(1));
            assert_eq!(from_other.try_recv(), Ok(2));
        });
    });
}
