//! Wakers that are called, cloned and dropped at the worst moment, or in the wrong run.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use ecru::sim::Simulation;
use ecru::sync::Notify;
use ecru::{RuntimeHandle, Source, channel};

use super::{each_run, given_away, yield_once};
use crate::common::{self, OnDrop, Watchdog, quiet_panic, run_on, settle, until};

/// Calls its wakers when its thread ends.
#[derive(Default)]
struct AtThreadEnd(Vec<Waker>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            let clone = waker.clone();
            waker.wake_by_ref();
            clone.wake();
        }
    }
}

thread_local! {
    static AT_END: RefCell<AtThreadEnd> = RefCell::default();
}

/// A waker is called by the destructor of a thread-local: of a plain thread while its task is
/// pending, and of the worker's own thread when the run is over.
#[test]
fn in_the_destructor_of_a_thread_local() {
    let _watchdog = Watchdog::new();
    thread::spawn(|| {
        run_on(1, || {
            let wakers = Mutex::new(Vec::new());
            ecru::scope(|s| {
                let task = s.spawn_future(given_away(&wakers));
                until(|| !wakers.lock().unwrap().is_empty());
                let waker = wakers.lock().unwrap().pop().unwrap();
                let kept = waker.clone();
                AT_END.with(|at_end| at_end.borrow_mut().0.push(kept));
                let other = thread::spawn(move || {
                    AT_END.with(|at_end| at_end.borrow_mut().0.push(waker));
                });
                task.join().unwrap();
                other.join().unwrap();
            });
        });
    })
    .join()
    .unwrap();
}

/// A waker is in a static: the program returns from `main` with it, and calls it in a handler of
/// the process's end.
#[test]
fn at_the_end_of_the_process() {
    static KEPT: Mutex<Vec<Waker>> = Mutex::new(Vec::new());
    extern "C" fn at_exit() {
        let wakers = std::mem::take(&mut *KEPT.lock().unwrap());
        assert_eq!(wakers.len(), 3);
        wakers.into_iter().for_each(Waker::wake);
    }
    common::alone("futures::wakers::at_the_end_of_the_process", || {
        // SAFETY: the function takes no arguments, and exists for as long as the process.
        #[expect(unsafe_code, reason = "std has no handlers of the process's end")]
        let code = unsafe { libc::atexit(at_exit) };
        assert_eq!(code, 0);
        run_on(2, || {
            let woken = ecru::spawn_future(given_away(&KEPT));
            until(|| KEPT.lock().unwrap().len() == 1);
            KEPT.lock().unwrap()[0].wake_by_ref();
            woken.join().unwrap();
            let cancelled = ecru::spawn_future(async {
                given_away(&KEPT).await;
                pending::<()>().await;
            });
            until(|| KEPT.lock().unwrap().len() == 2);
            cancelled.cancel();
            assert!(cancelled.join().is_err());
            ecru::block_on(async {
                let mut again = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut again, true) {
                        return Poll::Ready(());
                    }
                    KEPT.lock().unwrap().push(cx.waker().clone());
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            })
            .unwrap();
        });
    });
}

/// Threads clone, call and drop wakers at all moments, also while the task ends.
#[test]
fn a_storm_of_clones_around_the_end() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 300 };
    each_run(|| {
        let drops = AtomicUsize::new(0);
        let (tx, rx) = mpsc::channel::<Waker>();
        let storm = thread::spawn(move || {
            for waker in rx {
                let clones: Vec<_> = (0..4).map(|_| waker.clone()).collect();
                for (n, clone) in clones.into_iter().enumerate() {
                    if n % 2 == 0 { clone.wake() } else { drop(clone) }
                }
                waker.wake();
            }
        });
        for round in 0..ROUNDS {
            ecru::scope(|s| {
                let (tx, counted) = (&tx, OnDrop(|| _ = drops.fetch_add(1, SeqCst)));
                let task = s.spawn_future(async move {
                    let _counted = counted;
                    let mut polls = 0;
                    poll_fn(|cx| {
                        tx.send(cx.waker().clone()).unwrap();
                        polls += 1;
                        if polls > round % 5 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                });
                if round % 3 == 0 {
                    task.cancel();
                }
            });
            assert_eq!(drops.load(SeqCst), round + 1, "a future is dropped once, in its scope");
        }
        drop(tx);
        storm.join().unwrap();
    });
}

/// A future that calls its own waker when it is dropped, and gives a clone to a thread that calls it
/// meanwhile.
struct WakesInDrop<'a> {
    own: Option<Waker>,
    polls: &'a AtomicUsize,
    drops: &'a AtomicUsize,
    is_last: bool,
}

impl Future for WakesInDrop<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, SeqCst);
        assert_eq!(self.drops.load(SeqCst), 0, "it is not polled after its drop");
        if self.own.is_some() && self.is_last {
            return Poll::Ready(());
        }
        self.own = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for WakesInDrop<'_> {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        let own = self.own.take().unwrap();
        let clone = own.clone();
        thread::spawn(move || clone.wake()).join().unwrap();
        own.wake_by_ref();
        // The last clone ends where its task does.
        drop(own);
    }
}

/// The destructor of a future wakes its own task: at its end, and when it is cancelled.
#[test]
fn in_the_destructor_of_the_own_future() {
    each_run(|| {
        for is_last in [true, false] {
            let (polls, drops) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                let future = WakesInDrop { own: None, polls: &polls, drops: &drops, is_last };
                let task = s.spawn_future(future);
                until(|| polls.load(SeqCst) == 1);
                task.cancel();
                assert_eq!(task.join().is_ok(), is_last);
            });
            settle();
            assert_eq!((polls.into_inner(), drops.into_inner()), (2, 1));
        }
    });
}

/// Tasks of two runs wake each other, as do those of a run and of a simulation that has ended.
#[test]
fn of_other_runs() {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };
    /// A place for the waker of one side, and the number of its turns.
    #[derive(Default)]
    struct Side {
        waker: Mutex<Option<Waker>>,
        turns: AtomicUsize,
    }
    let _watchdog = Watchdog::new();
    let sides = Arc::new([Side::default(), Side::default()]);
    let play = |own: usize| {
        let sides = Arc::clone(&sides);
        move || {
            run_on(1, || {
                let task = ecru::spawn_future(async move {
                    for turn in 0..ROUNDS {
                        poll_fn(|cx| {
                            *sides[own].waker.lock().unwrap() = Some(cx.waker().clone());
                            // Side 0 begins, and each turn answers one of the other side.
                            let others = sides[1 - own].turns.load(SeqCst);
                            if others + 1 - own > turn { Poll::Ready(()) } else { Poll::Pending }
                        })
                        .await;
                        sides[own].turns.fetch_add(1, SeqCst);
                        let waker = sides[1 - own].waker.lock().unwrap().take();
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                });
                task.join().unwrap();
            });
        }
    };
    let threads = [thread::spawn(play(0)), thread::spawn(play(1))];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let left = Arc::new(Mutex::new(Vec::new()));
    for seed in 0..10 {
        let left = Arc::clone(&left);
        Simulation::new(seed)
            .run(|| {
                // Those of the simulations before are called in this one.
                left.lock().unwrap().drain(..).for_each(Waker::wake);
                ecru::scope(|s| {
                    let task = s.spawn_future(given_away(&left));
                    until(|| !left.lock().unwrap().is_empty());
                    left.lock().unwrap()[0].wake_by_ref();
                    task.join().unwrap();
                });
            })
            .unwrap();
    }
    left.lock().unwrap().drain(..).for_each(Waker::wake);
}

/// A future that was polled in one run is polled to its end in another, and the waker of the first
/// task is not the one that is called.
#[test]
fn a_future_that_moves_to_another_run() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u32>(0);
        let notify = Arc::new(Notify::new());
        let mut items = Box::pin(rx.to_future());
        let mut notified = Box::pin(Arc::clone(&notify).to_future());
        let (end, ended) = channel::bounded::<()>(0);
        let mut task = Box::pin(ecru::spawn(move || ended.recv().is_err()).into_future());
        let polls = AtomicUsize::new(0);
        let once = ecru::scope(|s| {
            s.spawn_future(async {
                poll_fn(|cx| {
                    polls.fetch_add(1, SeqCst);
                    assert!(items.as_mut().poll(cx).is_pending());
                    assert!(notified.as_mut().poll(cx).is_pending());
                    assert!(task.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                (items, notified, task)
            })
            .join()
            .unwrap()
        });
        let other = thread::spawn(move || {
            run_on(1, || {
                let (items, notified, task) = once;
                ecru::scope(|s| {
                    let item = s.spawn_future(items);
                    let told = s.spawn_future(notified);
                    let other = s.spawn_future(task);
                    tx.send(7).unwrap();
                    notify.notify_one();
                    assert_eq!(item.join().unwrap(), Ok(7));
                    told.join().unwrap();
                    drop(end);
                    assert!(other.join().unwrap().unwrap());
                });
            });
        });
        ecru::unblock(|| other.join().unwrap());
        assert_eq!(polls.into_inner(), 1);
    });
}

/// A waker whose call panics, and whose destructor does.
struct Hostile(Arc<AtomicUsize>);

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        quiet_panic("in the waker");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("in the destructor of the waker");
        }
    }
}

/// Wakers that panic are called by a worker, by the code that sends, and by the end of a task. Each
/// of them may pass the panic on, but loses no item and no task.
#[test]
fn that_panic() {
    each_run(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let hostile = || Waker::from(Arc::new(Hostile(Arc::clone(&calls))));
        let caught = |body: &mut dyn FnMut()| {
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        };
        let (tx, rx) = channel::unbounded::<u32>();
        let mut items = pin!((&rx).to_future());
        caught(&mut || {
            let waker = hostile();
            assert!(items.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        });
        caught(&mut || tx.send(7).unwrap());
        assert_eq!(ecru::block_on(items).unwrap(), Ok(7));
        ecru::scope(|s| {
            let task = s.spawn_future(yield_once());
            let mut joined = pin!(task.into_future());
            caught(&mut || {
                let waker = hostile();
                assert!(joined.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            });
            settle();
            ecru::block_on(joined).unwrap().unwrap();
            // The worker goes on.
            s.spawn_future(yield_once()).join().unwrap();
        });
        assert!(calls.load(SeqCst) >= 1);
    });
}

/// A waker that spawns, cancels, and drops the last handle of the task that it wakes.
#[test]
fn that_act_on_their_own_run() {
    struct Acts {
        handle: RuntimeHandle,
        has_run: Arc<AtomicBool>,
        inner: Mutex<Option<Waker>>,
    }
    impl Wake for Acts {
        fn wake(self: Arc<Self>) {
            let has_run = Arc::clone(&self.has_run);
            drop(self.handle.spawn_future(async move { has_run.store(true, SeqCst) }).unwrap());
            if let Some(inner) = self.inner.lock().unwrap().take() {
                inner.wake();
            }
        }
    }
    each_run(|| {
        let has_run = Arc::new(AtomicBool::new(false));
        let (tx, rx) = channel::bounded::<u32>(1);
        let acts = Arc::new(Acts {
            handle: RuntimeHandle::current(),
            has_run: Arc::clone(&has_run),
            inner: Mutex::default(),
        });
        let waker = Waker::from(Arc::clone(&acts));
        ecru::scope(|s| {
            let (rx, (acts, waker)) = (&rx, (&acts, &waker));
            let task = s.spawn_future(async move {
                let mut items = pin!(rx.to_future());
                poll_fn(|cx| {
                    *acts.inner.lock().unwrap() = Some(cx.waker().clone());
                    items.as_mut().poll(&mut Context::from_waker(waker))
                })
                .await
            });
            until(|| acts.inner.lock().unwrap().is_some());
            tx.send(1).unwrap();
            assert_eq!(task.join().unwrap(), Ok(1));
            until(|| has_run.load(SeqCst));
        });
    });
}
