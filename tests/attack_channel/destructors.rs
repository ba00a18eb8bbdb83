//! Destructors that use the channel again, wait or panic.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use ecru::channel::{self, Receiver, RecvError, Sender};
use ecru::select;

use crate::{Counted, OnDrop, at_once, run_on, settle, text_of};

#[test]
fn values_that_use_their_channel_when_they_are_dropped() {
    struct Busy {
        sender: Sender<Option<Box<Busy>>>,
        receiver: Receiver<Option<Box<Busy>>>,
        runs: Arc<AtomicUsize>,
    }
    impl Drop for Busy {
        fn drop(&mut self) {
            self.runs.fetch_add(1, SeqCst);
            let _ = self.sender.try_send(None);
            let _ = self.receiver.try_recv();
            let (_s, _r) = (self.sender.clone(), self.receiver.clone());
            let _ = (self.sender.len(), self.receiver.is_full(), format!("{:?}", self.sender));
            let _ = self.receiver.try_iter().next();
            self.sender.close();
            self.receiver.close_now();
        }
    }
    at_once(1, |_| {
        let makers: [fn() -> (Sender<_>, Receiver<_>); 5] = [
            || channel::bounded(3),
            channel::unbounded,
            || channel::dropping(1),
            || channel::sliding(1),
            channel::oneshot,
        ];
        for make in makers {
            for how in 0..4 {
                let runs = Arc::new(AtomicUsize::new(0));
                let (sender, receiver) = make();
                for _ in 0..3 {
                    let busy = Busy {
                        sender: sender.clone(),
                        receiver: receiver.clone(),
                        runs: Arc::clone(&runs),
                    };
                    drop(sender.try_send(Some(Box::new(busy))));
                }
                match how {
                    0 => drop(receiver.recv()),
                    1 => sender.close_now(),
                    2 => drop(select! { recv(receiver) -> value => value }),
                    _ => receiver.try_iter().for_each(drop),
                }
                receiver.close_now();
                drop((sender, receiver));
                assert_eq!(runs.load(SeqCst), 3);
            }
        }
    });
}

#[test]
fn a_value_that_waits_on_another_channel_when_it_is_evicted() {
    run_on(1, || {
        let (gate, opened) = channel::bounded::<()>(0);
        let (sender, receiver) = channel::sliding(1);
        ecru::scope(|s| {
            let opened = &opened;
            sender
                .send(OnDrop(Box::new(move || _ = opened.recv()) as Box<dyn FnMut() + Send>))
                .unwrap();
            let evicting = s.spawn_local(|| {
                sender.send(OnDrop(Box::new(|| ()) as Box<dyn FnMut() + Send>)).unwrap();
            });
            settle();
            assert!(!evicting.is_finished());
            // The channel is not locked at this time.
            assert_eq!(receiver.len(), 1);
            gate.send(()).unwrap();
            evicting.join().unwrap();
        });
    });
}

#[test]
fn a_value_whose_destructor_panics_leaves_the_channel_whole() {
    run_on(1, || {
        let armed = &Cell::new(true);
        for make in [channel::sliding, channel::dropping] {
            armed.set(true);
            let (sender, receiver) = make(1);
            let bomb = |n: u32| {
                (
                    n,
                    OnDrop(move || {
                        if armed.replace(false) {
                            panic::resume_unwind(Box::new("on purpose"));
                        }
                    }),
                )
            };
            sender.send(bomb(1)).unwrap();
            let boom = panic::catch_unwind(AssertUnwindSafe(|| sender.send(bomb(2)).is_ok()));
            assert!(boom.is_err());
            assert_eq!(receiver.len(), 1);
            assert!(receiver.recv().is_ok());
            sender.send(bomb(3)).unwrap();
            assert_eq!(receiver.recv().unwrap().0, 3);
        }
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel::unbounded();
        for n in 0..5 {
            let value = Counted::new(&alive);
            sender
                .send(OnDrop(move || {
                    let _ = &value;
                    if n == 2 {
                        panic::resume_unwind(Box::new("on purpose"));
                    }
                }))
                .unwrap();
        }
        let boom = panic::catch_unwind(AssertUnwindSafe(|| receiver.close_now()));
        assert!(boom.is_err());
        drop((sender, receiver));
        assert_eq!(alive.load(SeqCst), 0);
    });
}

#[test]
fn a_destructor_of_a_thread_local_may_still_send() {
    thread_local! {
        static LAST: Cell<Option<Sender<&'static str>>> = const { Cell::new(None) };
        static WILL: OnDrop<fn()> = const { OnDrop(|| {
            // Either destructor may run first.
            if let Ok(Some(sender)) = LAST.try_with(Cell::take) {
                let _ = sender.send("last words");
            }
        }) };
    }
    let (sender, receiver) = channel::bounded(0);
    let thread = thread::spawn(move || {
        WILL.with(|_| ());
        LAST.set(Some(sender));
    });
    // If the sender was dropped first, no value will come.
    let heard = receiver.recv();
    assert!(matches!(heard, Ok("last words") | Err(RecvError::Disconnected)), "{heard:?}");
    thread.join().unwrap();
}

#[test]
fn waits_while_unwinding_do_not_park() {
    struct SendsOnDrop<'a>(&'a Sender<u8>, &'a Receiver<u8>);
    impl Drop for SendsOnDrop<'_> {
        fn drop(&mut self) {
            assert!(self.0.send(1).unwrap_err().is_cancelled());
            assert!(self.1.recv().unwrap_err().is_cancelled());
            select! {
                send(self.0, 2) -> sent => assert!(sent.unwrap_err().is_cancelled()),
                recv(self.1) -> value => assert!(value.unwrap_err().is_cancelled()),
            }
        }
    }
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        let boom = panic::catch_unwind(AssertUnwindSafe(|| {
            let _last = SendsOnDrop(&sender, &receiver);
            panic::resume_unwind(Box::new("on purpose"));
        }));
        assert_eq!(text_of(&*boom.unwrap_err()), "on purpose");
    });
}
