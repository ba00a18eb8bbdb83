//! A second round of attacks on coroutines: what a body may hold across a suspension, and what
//! other code may do meanwhile.
#![expect(clippy::mem_forget, reason = "a coroutine that is forgotten is one of the attacks")]

mod limits;
mod processes;
mod support;
mod tasks;
use support::{OnDrop, each_run, ms, panic_of, run_on};

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder, generate, scoped};
use ecru::source::WaitList;
use ecru::{Source, channel};

use crate::common::HOUR;

ecru::task_local! { static NAME: String }

/// A coroutine suspends inside `LocalKey::with`, its resumer's binding ends, and the coroutine then
/// reads the value.
#[test]
fn a_binding_ends_while_a_coroutine_reads_it() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        NAME.with(|name| {
            yielder.suspend(());
            name.clone()
        })
    });
    let first = panic::catch_unwind(AssertUnwindSafe(|| {
        NAME.scope("a value on the heap, long enough".to_owned(), || coroutine.resume(()))
    }));
    // Either the suspension panics, or the value is still alive.
    if let Ok(CoroutineState::Yielded(())) = first {
        let _other = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX".to_owned();
        match coroutine.resume(()) {
            CoroutineState::Complete(name) => {
                assert_eq!(name, "a value on the heap, long enough")
            }
            CoroutineState::Yielded(()) => unreachable!(),
        }
        panic!("the coroutine was suspended with a reference to a binding that has ended");
    }
}

/// As above, with a generator that is read in a task and left over when the binding's body has
/// ended.
#[test]
fn a_binding_ends_while_a_generator_reads_it_in_a_task() {
    run_on(1, || {
        let kept: RefCell<Option<Generator<usize>>> = RefCell::default();
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            NAME.scope("abc".repeat(20), || {
                let mut letters = Generator::new(|yielder: &Yielder<(), usize>| {
                    NAME.with(|name| name.bytes().for_each(|b| yielder.suspend(b.into())));
                });
                assert_eq!(letters.next(), Some(b'a'.into()));
                kept.replace(Some(letters));
            });
        }));
        assert!(result.is_err(), "the generator reads a binding that has ended");
    });
}

/// The function passed to `suspend_with` suspends the outer coroutine, which is then dropped.
#[test]
fn the_function_of_a_suspension_suspends_the_outer_coroutine() {
    let noted = Rc::new(Cell::new(0));
    let outer_yielder_used = Rc::clone(&noted);
    let outer = Coroutine::new(move |outer: &Yielder<(), u8>, ()| {
        scoped(
            |yielder: &Yielder<(), u8>, ()| {
                let used = &outer_yielder_used;
                yielder.suspend_with(2, || {
                    outer.suspend(1);
                    used.set(used.get() + 1);
                });
                yielder.suspend(3);
            },
            |inner| {
                assert_eq!(inner.resume(()), CoroutineState::Yielded(2));
                assert_eq!(inner.resume(()), CoroutineState::Yielded(3));
            },
        );
        9
    });
    let first = panic_of(|| {
        assert_eq!(outer.resume(()), CoroutineState::Yielded(1));
        assert_eq!(outer.resume(()), CoroutineState::Complete(9));
    });
    assert!(first.is_none() || first.as_deref().unwrap().contains("suspend"), "{first:?}");
    // The coroutine is dropped while suspended.
    let dropped = Rc::new(Cell::new(0));
    let count = Rc::clone(&dropped);
    let outer = Coroutine::new(move |outer: &Yielder<(), u8>, ()| {
        let count = &count;
        scoped(
            |yielder: &Yielder<(), u8>, ()| {
                let _counted = OnDrop(|| count.set(count.get() + 1));
                yielder.suspend_with(2, || outer.suspend(1));
            },
            |inner| {
                _ = inner.resume(());
            },
        );
    });
    if panic_of(|| outer.resume(())).is_none() {
        drop(outer);
    }
    assert_eq!(dropped.get(), 1);
}

/// A future suspends the coroutine when it is polled, and another task resumes that coroutine.
#[test]
fn a_future_is_polled_in_one_task_and_goes_on_in_another() {
    struct Suspends<'a>(&'a Yielder<(), u8>, u32, Arc<std::sync::Mutex<Option<Waker>>>);
    impl Future for Suspends<'_> {
        type Output = u32;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
            self.1 += 1;
            *self.2.lock().unwrap() = Some(context.waker().clone());
            if self.1 == 3 {
                return Poll::Ready(3);
            }
            self.0.suspend(7);
            Poll::Pending
        }
    }
    each_run(|| {
        let waker = Arc::new(std::sync::Mutex::new(None::<Waker>));
        let theirs = Arc::clone(&waker);
        let coroutine = Rc::new(Coroutine::new(move |yielder: &Yielder<(), u8>, ()| {
            ecru::block_on(Suspends(yielder, 0, theirs))
        }));
        let wakes = || waker.lock().unwrap().clone().unwrap().wake();
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(7));
        let other = Rc::clone(&coroutine);
        ecru::scope(|s| {
            let child = s.spawn_local(move || other.resume(()));
            let waker = Arc::clone(&waker);
            s.spawn_local(move || {
                ecru::sleep(ms(1)).unwrap();
                waker.lock().unwrap().clone().unwrap().wake();
            });
            assert_eq!(child.join().unwrap(), CoroutineState::Yielded(7));
        });
        wakes();
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(Ok(3)));
    });
}

struct Mischief<'a> {
    list: &'a WaitList,
    take: &'a dyn Fn(),
    each: &'a dyn Fn(),
    taken: Cell<u32>,
}

impl Source for Mischief<'_> {
    type Item = ();
    fn try_take(&self) -> Option<()> {
        self.taken.set(self.taken.get() + 1);
        (self.take)();
        None
    }
    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.list);
        (self.each)();
    }
}

/// A user-defined source suspends the coroutine in the middle of a wait: before the wait is
/// registered, while it is registered, and between two lists.
#[test]
fn a_source_suspends_in_the_middle_of_a_wait() {
    for place in [1, 2, 3] {
        for how in 0..2 {
            each_run(|| {
                let list = Rc::new(WaitList::new());
                let theirs = Rc::clone(&list);
                let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                    let looks = Cell::new(0);
                    let source = Mischief {
                        list: &theirs,
                        take: &|| {
                            looks.set(looks.get() + 1);
                            if looks.get() == place {
                                yielder.suspend(());
                            }
                        },
                        each: &|| {
                            if place == 3 {
                                yielder.suspend(());
                            }
                        },
                        taken: Cell::new(0),
                    };
                    _ = source.wait();
                });
                let mut resumed = vec![];
                // Only a wait that was suspended at its first look is resumed, and then waits.
                let limit = if place == 1 { ms(5) } else { HOUR };
                let result = panic_of(|| {
                    for _ in 0..6 {
                        let state = ecru::timeout(limit, || coroutine.resume(()));
                        resumed.push(state);
                        list.notify_all();
                        if state != Ok(CoroutineState::Yielded(())) {
                            break;
                        }
                    }
                });
                // At its first look the wait is not in any list yet.
                assert!(
                    place == 1 || result.as_deref().is_some_and(|text| text.contains("suspend")),
                    "{place}: {result:?}"
                );
                if how == 0 {
                    drop(coroutine);
                } else {
                    std::mem::forget(coroutine);
                }
                list.notify_all();
            });
        }
    }
}

/// The value expression of a send suspends. Meanwhile the receiver gives up, and the coroutine is
/// resumed, dropped or forgotten.
#[test]
fn a_coroutine_is_suspended_with_a_reservation() {
    for how in 0..3 {
        for capacity in [0, 1] {
            each_run(|| {
                let (sender, receiver) = channel::bounded::<u32>(capacity);
                let theirs = sender.clone();
                let coroutine = Coroutine::new(move |yielder: &Yielder<u32, ()>, _| {
                    ecru::select! {
                        send(theirs, yielder.suspend(())) -> result => result.is_ok(),
                    }
                });
                ecru::scope(|s| {
                    let child_receiver = receiver.clone();
                    let child = s.spawn_local(move || child_receiver.recv());
                    // The child runs on the same worker, so it waits when this returns.
                    ecru::yield_now().unwrap();
                    let first = panic_of(|| coroutine.resume(0));
                    if let Some(text) = first {
                        assert!(text.contains("suspend"), "{text}");
                        drop(coroutine);
                        child.cancel();
                    } else {
                        child.cancel();
                        assert!(child.join().unwrap().is_err(), "nothing was sent");
                        match how {
                            0 => {
                                let sent = s.spawn_local(move || coroutine.resume(7));
                                assert_eq!(receiver.recv_timeout(ms(60_000)), Ok(7));
                                assert_eq!(sent.join().unwrap(), CoroutineState::Complete(true));
                            }
                            1 => drop(coroutine),
                            _ => std::mem::forget(coroutine),
                        }
                    }
                    if how != 2 {
                        // The room is available again.
                        let child = s.spawn_local(move || receiver.recv_timeout(ms(60_000)));
                        ecru::yield_now().unwrap();
                        assert_eq!(sender.try_send(8), Ok(()), "{how} {capacity}");
                        assert_eq!(child.join().unwrap(), Ok(8));
                    }
                });
            });
        }
    }
}

/// A future over two lists is forgotten, one list is freed, and the other is notified.
#[test]
fn a_future_over_two_lists_is_forgotten_and_one_list_is_freed() {
    struct Lists<'a>(&'a WaitList, &'a WaitList);
    impl Source for Lists<'_> {
        type Item = ();
        fn try_take(&self) -> Option<()> {
            None
        }
        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
            each(self.0);
            each(self.1);
        }
    }
    let stays = WaitList::new();
    for _ in 0..3 {
        let goes = Box::new(WaitList::new());
        let mut future = Box::pin(Lists(&goes, &stays).to_future());
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        std::mem::forget(future);
        _ = panic_of(|| drop(goes));
        stays.notify_one();
    }
    stays.notify_all();
}

/// A coroutine with generators inside generators, each of which has a yielder of an outer one. All
/// are dropped at once, at any depth.
#[test]
fn generators_in_generators_are_dropped_at_any_depth() {
    fn nest(depth: u32, dropped: &Cell<u32>, yielder: &Yielder<(), u32>) {
        let _counted = OnDrop(|| dropped.set(dropped.get() + 1));
        if depth == 0 {
            (0..1000).for_each(|n| yielder.suspend(n));
        }
        generate(
            |inner| nest(depth - 1, dropped, inner),
            |items| items.for_each(|item| yielder.suspend(item)),
        );
    }
    for stop in 0..4 {
        let dropped = Cell::new(0);
        generate(
            |yielder| nest(6, &dropped, yielder),
            |mut items| {
                for n in 0..stop {
                    assert_eq!(items.next(), Some(n));
                }
            },
        );
        assert_eq!(dropped.get(), if stop == 0 { 0 } else { 7 });
    }
}
