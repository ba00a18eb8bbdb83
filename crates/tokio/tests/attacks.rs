//! `wait` and `inside`, used in ways that their documents do not describe.
#![expect(clippy::mem_forget, reason = "a future that is forgotten is one of the attacks")]

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{HOUR, OnDrop, begin, each_run, ms, panic_text, quiet_panic};
use ecru_tokio::{InTokio, enter, inside, wait};
use tokio::runtime::Handle;
use tokio::time::sleep;

fn is_inside() -> bool {
    Handle::try_current().is_ok()
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that notes where it is made, polled and dropped.
fn noted(places: &Rc<RefCell<Vec<bool>>>) -> impl Future<Output = ()> + use<> {
    let drops = OnDrop({
        let places = Rc::clone(places);
        move || places.borrow_mut().push(is_inside())
    });
    let places = Rc::clone(places);
    async move {
        let _drops = drops;
        places.borrow_mut().push(is_inside());
        pending::<()>().await;
    }
}

/// In each other, on plain threads, and under `wait`: the context is there for each poll and each
/// drop, and is left afterwards.
#[test]
fn nested() {
    let body = || {
        let places = Rc::default();
        let mut future = Box::pin(inside(inside(noted(&places))));
        assert!(poll_once(future.as_mut()).is_pending() && !is_inside());
        drop(future);
        assert!(!is_inside());
        let limited = ecru::timeout(ms(1), || wait(inside(noted(&places))));
        assert!(limited.is_err() && !is_inside());
        assert!(places.borrow().iter().all(|inside| *inside), "{places:?}");
        assert_eq!(wait(inside(async { 7 })), Ok(7));
        // Direct style inside of it is refused, as in any future, and the context is left.
        for call in
            [|| _ = wait(async {}), || _ = ecru::sleep(ms(1)), || _ = enter(ecru::yield_now)]
        {
            let text = panic_text(|| ecru::block_on(inside(async { call() })));
            assert!(text.contains("no_suspend"), "{text}");
            assert!(!is_inside());
        }
    };
    each_run(body);
    thread::scope(|s| _ = s.spawn(body));
}

/// A future that panics when it is made, polled or dropped leaves the context, and the runtime
/// works on.
#[test]
fn panics() {
    struct Made(u8);

    impl IntoFuture for Made {
        type Output = ();
        type IntoFuture = Pin<Box<dyn Future<Output = ()>>>;

        fn into_future(self) -> Self::IntoFuture {
            let part = self.0;
            if part == 0 {
                quiet_panic("made");
            }
            Box::pin(async move {
                let _last = OnDrop(move || {
                    if part == 2 {
                        quiet_panic("dropped");
                    }
                });
                if part == 1 {
                    quiet_panic("polled");
                }
                sleep(ms(1)).await;
            })
        }
    }
    each_run(|| {
        for (part, text) in ["made", "polled", "dropped"].into_iter().enumerate() {
            let part = part.try_into().unwrap();
            assert_eq!(panic_text(|| wait(Made(part))), text);
            assert!(!is_inside());
            assert_eq!(panic_text(|| ecru::block_on(inside(Made(part)))), text);
            assert!(!is_inside());
        }
        // A drop that panics while the wait is cancelled is the panic of the caller.
        let text = panic_text(|| {
            ecru::timeout(ms(1), || {
                wait(async {
                    let _last = OnDrop(|| quiet_panic("given up"));
                    sleep(HOUR).await;
                })
            })
        });
        assert_eq!(text, "given up");
        assert!(!is_inside());
        assert_eq!(wait(async { sleep(ms(1)).await }), Ok(()));
    });
}

/// Futures that travel: polled by a task, by a thread and by tokio, and dropped elsewhere.
#[test]
fn on_other_threads() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        let mut future = Box::pin(inside(async {
            let _last = OnDrop(|| _ = ended.fetch_add(usize::from(is_inside()), SeqCst));
            sleep(HOUR).await;
        }));
        assert!(poll_once(future.as_mut()).is_pending());
        let mut future = ecru::unblock(move || {
            assert!(poll_once(future.as_mut()).is_pending());
            future
        });
        assert!(poll_once(future.as_mut()).is_pending());
        thread::scope(|s| _ = s.spawn(move || drop(future)));
        assert_eq!(ended.load(SeqCst), 1);
        let by_tokio = enter(|| tokio::spawn(inside(async { sleep(ms(1)).await })));
        wait(by_tokio).unwrap().unwrap();
    });
}

type Waits = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    static KEPT: RefCell<Option<Pin<Box<InTokio<Waits>>>>> = const { RefCell::new(None) };
}

/// A future that is dropped at the end of its thread, when tokio's context may be gone already.
#[test]
fn at_the_end_of_a_thread() {
    for first in [true, false] {
        let ended = thread::spawn(move || {
            let keep = || {
                let future: Waits = Box::pin(async {
                    sleep(HOUR).await;
                });
                let mut kept = Box::pin(inside(future));
                assert!(poll_once(kept.as_mut()).is_pending());
                KEPT.with(|place| *place.borrow_mut() = Some(kept));
            };
            // Destructors of a thread run in the reverse order, or in this one.
            if first {
                KEPT.with(|_| ());
                keep();
            } else {
                enter(|| ());
                keep();
            }
        });
        ended.join().unwrap();
    }
}

/// Forgotten, polled after its end, and dropped while its task is cancelled or panics.
#[test]
fn misuse() {
    each_run(|| {
        let mut forgotten = Box::pin(inside(async { sleep(HOUR).await }));
        assert!(poll_once(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
        let mut over = Box::pin(inside(async { 7 }));
        assert_eq!(poll_once(over.as_mut()), Poll::Ready(7));
        let text = panic_text(|| poll_once(over.as_mut()));
        assert!(text.contains("resumed after completion"), "{text}");
        assert!(!is_inside());
        ecru::scope(|s| {
            let waits = begin(s, || {
                // A wait in a destructor ends as well, while its task is cancelled and panics.
                let result = Cell::new(None);
                {
                    let _last = OnDrop(|| result.set(Some(wait(async { sleep(HOUR).await }))));
                    let _ = ecru::sleep(HOUR);
                }
                result.take()
            });
            waits.cancel();
            assert!(matches!(waits.join(), Ok(Some(Err(_)))));
            let panics = s.spawn(|| {
                let _last = OnDrop(|| {
                    _ = ecru::timeout(ms(5), || wait(async { sleep(HOUR).await }));
                });
                quiet_panic("on purpose");
            });
            assert!(panics.join().is_err());
        });
        assert!(!is_inside());
    });
}

/// Wakers that are kept beyond their `wait` and called by another one's future, many times.
#[test]
fn wakers_of_others() {
    each_run(|| {
        let kept = RefCell::new(Vec::new());
        for round in 0..100 {
            let mut polls = 0;
            let ended = wait(poll_fn(|cx| {
                polls += 1;
                let mut kept = kept.borrow_mut();
                for waker in &*kept {
                    Waker::wake_by_ref(waker);
                }
                kept.push(cx.waker().clone());
                // A stale wake-up may only cost a poll.
                cx.waker().wake_by_ref();
                if polls > round % 3 { Poll::Ready(()) } else { Poll::Pending }
            }));
            assert_eq!(ended, Ok(()));
            if round % 10 == 0 {
                let some = kept.borrow_mut().split_off(round / 20);
                thread::scope(|s| _ = s.spawn(|| some.into_iter().for_each(Waker::wake)));
            }
        }
    });
}
