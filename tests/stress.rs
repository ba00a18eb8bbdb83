//! Scopes, handles, cancel requests and panics from all sides at once, on two workers and more. The
//! seeds are the same every time, but the interleaving of threads is not. Afterwards every live
//! block of memory has been freed.

#![expect(unsafe_code, reason = "counts the blocks of the global allocator")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ecru::{CancelHandle, JoinError, Runtime};
use fastrand::Rng;

use common::Watchdog;

/// Counts live blocks.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Relaxed);
        // SAFETY: the caller's obligation is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Relaxed);
        // SAFETY: the caller's obligation is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The tests of this file run one at a time, because blocks are counted for the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// The length of each test. On a busy machine it has fewer rounds.
const LENGTH: Duration = Duration::from_millis(900);
/// The maximum number of rounds of a test.
const ROUNDS: u64 = 400;

/// Waits for the test's turn. Ends the process and names the test if it is not over in time.
struct Turn {
    _turn: MutexGuard<'static, ()>,
    _watchdog: Watchdog,
}

#[track_caller]
fn take_turn() -> Turn {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = panic::take_hook();
        // A scope's own panic about a panic of a task is normal here.
        panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
            if !text.starts_with("a task of this scope panicked") {
                print(info);
            }
        }));
    });
    Turn { _turn: turn, _watchdog: Watchdog::new() }
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs rounds, each with a seed of its own, until the time or the number is reached.
fn rounds(mut round: impl FnMut(Rng)) {
    let start = Instant::now();
    for seed in 0..ROUNDS {
        round(Rng::with_seed(seed));
        if start.elapsed() > LENGTH {
            return;
        }
    }
}

/// A value that must be dropped as often as it is created. Some panic when they are dropped.
struct Tracked<'c> {
    dropped: &'c AtomicUsize,
    panics: bool,
}

impl<'c> Tracked<'c> {
    fn new(counts: &'c Counts, rng: &mut Rng) -> Tracked<'c> {
        counts.made.fetch_add(1, Relaxed);
        Tracked { dropped: &counts.dropped, panics: rng.u8(..20) == 0 && !counts.calm }
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
        if self.panics && !thread::panicking() {
            resume_unwind(Box::new("dropped"));
        }
    }
}

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
    /// If set, destructors do not panic.
    calm: bool,
}

impl Counts {
    fn check(&self) {
        assert_eq!(self.made.load(SeqCst), self.dropped.load(SeqCst));
    }
}

/// Waits in a random way. Some waits are cancelled, and some never end by themselves within a test.
fn wait(rng: &mut Rng) {
    match rng.u8(..8) {
        0 => _ = ecru::sleep(Duration::from_micros(rng.u64(..300))),
        1 | 2 => _ = ecru::yield_now(),
        3 => {
            _ = ecru::timeout(Duration::from_micros(rng.u64(..100)), || {
                ecru::sleep(Duration::from_secs(3600))
            })
        }
        4 => {
            _ = ecru::timeout(Duration::from_micros(rng.u64(..100)), || {
                ecru::sleep(Duration::from_micros(rng.u64(..100)))
            })
        }
        5 => _ = ecru::shield(|| ecru::sleep(Duration::from_micros(rng.u64(..100)))),
        6 => _ = ecru::checkpoint(),
        _ => {}
    }
}

/// Spawns, joins, cancels, leaks and panics, all at random, and does the same in its children.
fn tangle(mut rng: Rng, depth: u32, counts: &Counts) {
    let body = AssertUnwindSafe(|| {
        ecru::scope(|s| {
            let mut handles = Vec::new();
            for _ in 0..rng.u8(1..5) {
                let (mut own, capture) = (rng.fork(), Tracked::new(counts, &mut rng));
                let body = move || {
                    let capture = capture;
                    wait(&mut own);
                    if depth > 0 {
                        tangle(own.fork(), depth - 1, counts);
                    }
                    wait(&mut own);
                    if own.u8(..10) == 0 {
                        resume_unwind(Box::new("on purpose"));
                    }
                    drop(capture);
                    Tracked::new(counts, &mut own)
                };
                match rng.u8(..6) {
                    0 => s.spawn_daemon(body),
                    1 => handles.push(s.spawn_local_or_not(&mut rng, body)),
                    _ => handles.push(s.spawn(body)),
                }
                if rng.u8(..12) == 0 {
                    s.cancel();
                }
            }
            for handle in handles {
                match rng.u8(..7) {
                    0 => handle.cancel(),
                    1 => drop(handle.join_timeout(Duration::from_micros(rng.u64(..100)))),
                    2 => drop(s.spawn(move || drop(handle.join()))),
                    3 => thread::scope(|threads| {
                        // A foreign thread cancels, or drops the handle. It does not wait for this
                        // worker.
                        let cancels = rng.bool();
                        threads.spawn(move || {
                            if cancels {
                                handle.cancel();
                            }
                            let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
                        });
                    }),
                    4 => drop(handle),
                    _ => drop(handle.join()),
                }
            }
            if rng.u8(..15) == 0 {
                resume_unwind(Box::new("the body's"));
            }
        });
    });
    // A scope passes panics on, and they end here.
    let _ = catch_unwind(body);
}

/// A spawn whose task may be local to the worker.
trait SpawnLocalOrNot<'scope> {
    fn spawn_local_or_not<U: Send + 'scope>(
        &'scope self,
        rng: &mut Rng,
        body: impl FnOnce() -> U + Send + 'scope,
    ) -> ecru::JoinHandle<'scope, U>;
}

impl<'scope> SpawnLocalOrNot<'scope> for ecru::Scope<'scope, '_> {
    fn spawn_local_or_not<U: Send + 'scope>(
        &'scope self,
        rng: &mut Rng,
        body: impl FnOnce() -> U + Send + 'scope,
    ) -> ecru::JoinHandle<'scope, U> {
        if rng.bool() { self.spawn_local(body) } else { self.spawn(body) }
    }
}

/// Nested scopes with everything that may happen to a task. Each closure and each result is dropped
/// once.
#[test]
fn slow_tangled_scopes_end() {
    let _turn = take_turn();
    for workers in [2, 3] {
        let runtime = runtime(workers);
        rounds(|mut rng| {
            let counts = Counts::default();
            runtime.run(|| {
                ecru::scope(|s| {
                    for _ in 0..4 {
                        let (rng, counts) = (rng.fork(), &counts);
                        s.spawn(move || tangle(rng, 2, counts));
                    }
                });
            });
            counts.check();
        });
    }
}

/// Foreign threads cancel sections at random moments, while hooks open and close and children join
/// from other workers.
#[test]
fn slow_foreign_threads_cancel() {
    let _turn = take_turn();
    let runtime = runtime(2);
    let stop = AtomicBool::new(false);
    let sections: Mutex<Vec<CancelHandle>> = Mutex::new(Vec::new());
    thread::scope(|threads| {
        for seed in 0..2 {
            let (stop, sections) = (&stop, &sections);
            threads.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                while !stop.load(SeqCst) {
                    let handle = {
                        let mut sections = sections.lock().unwrap();
                        match sections.len() {
                            0 => None,
                            many if rng.bool() => Some(sections.swap_remove(rng.usize(..many))),
                            many => Some(sections[rng.usize(..many)].clone()),
                        }
                    };
                    match handle {
                        Some(handle) => handle.cancel(),
                        None => thread::yield_now(),
                    }
                    for _ in 0..rng.u16(..2000) {
                        std::hint::spin_loop();
                    }
                }
            });
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            rounds(|mut rng| {
                let (began, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
                runtime.run(|| {
                    ecru::scope(|s| {
                        for _ in 0..20 {
                            let mut rng = rng.fork();
                            let (began, over, sections) = (&began, &over, &sections);
                            s.spawn(move || {
                                ecru::cancel_scope(|c| {
                                    sections.lock().unwrap().push(c);
                                    let calls = AtomicUsize::new(0);
                                    let hook = || {
                                        began.fetch_add(1, SeqCst);
                                        calls.fetch_add(1, SeqCst);
                                        over.fetch_add(1, SeqCst);
                                    };
                                    ecru::on_cancel(hook, || {
                                        ecru::scope(|inner| {
                                            for _ in 0..rng.u8(..3) {
                                                let mut rng = rng.fork();
                                                inner.spawn(move || wait(&mut rng));
                                            }
                                            wait(&mut rng);
                                        });
                                    });
                                    // A hook never runs after its frame has ended, nor twice.
                                    let seen = calls.load(SeqCst);
                                    assert!(seen <= 1);
                                    wait(&mut rng);
                                    assert_eq!(calls.load(SeqCst), seen);
                                });
                                // A request to the section ends with it.
                                assert!(ecru::checkpoint().is_ok());
                            });
                        }
                    });
                });
                assert_eq!(began.load(SeqCst), over.load(SeqCst));
                // The remaining sections are cancelled after their end.
                if rng.bool() {
                    sections.lock().unwrap().truncate(10);
                }
            });
        }));
        stop.store(true, SeqCst);
        result.unwrap_or_else(|payload| resume_unwind(payload));
    });
}

/// Joins from other workers and from plain threads race with completions, time limits and cancel
/// requests. A value arrives once.
#[test]
fn slow_joins_race() {
    let _turn = take_turn();
    let runtime = runtime(2);
    rounds(|mut rng| {
        let counts = Counts::default();
        let arrived = AtomicUsize::new(0);
        let (limit, work) = (Duration::from_micros(rng.u64(..60)), rng.u64(..60));
        runtime.run(|| {
            ecru::scope(|s| {
                let value = s.spawn(|| {
                    let _ = ecru::sleep(Duration::from_micros(work));
                    counts.made.fetch_add(1, SeqCst);
                    Tracked { dropped: &counts.dropped, panics: false }
                });
                let note = |joined: Option<Result<_, JoinError>>| match joined {
                    Some(Ok(_)) => _ = arrived.fetch_add(1, SeqCst),
                    Some(Err(JoinError::Cancelled)) if value.is_finished() => {
                        // The task never began, which counts as its arrival.
                        arrived.fetch_add(1, SeqCst);
                    }
                    Some(Err(JoinError::Panicked(payload))) => panic!("{payload:?}"),
                    _ => {}
                };
                thread::scope(|threads| {
                    let foreign = threads.spawn(|| {
                        note(Some(value.join()));
                    });
                    let in_time = threads.spawn(|| note(value.join_timeout(limit)));
                    let stopper = rng.bool().then(|| threads.spawn(|| value.cancel()));
                    ecru::scope(|inner| {
                        for _ in 0..2 {
                            inner.spawn(|| note(value.join_timeout(limit)));
                            inner.spawn(|| _ = ecru::timeout(limit, || note(Some(value.join()))));
                        }
                        if rng.bool() {
                            inner.cancel();
                        }
                    });
                    while !foreign.is_finished()
                        || !in_time.is_finished()
                        || stopper.as_ref().is_some_and(|stopper| !stopper.is_finished())
                    {
                        let _ = ecru::yield_now();
                    }
                });
                assert_eq!(arrived.load(SeqCst), 1);
            });
        });
        counts.check();
    });
}

/// Leaked handles leak only a box each, and nothing waits for them.
#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn slow_leaked_handles_harm_nobody() {
    let _turn = take_turn();
    let runtime = runtime(2);
    rounds(|mut rng| {
        let ran = AtomicUsize::new(0);
        let spawned = rng.usize(1..50);
        runtime.run(|| {
            ecru::scope(|s| {
                for _ in 0..spawned {
                    let (mut rng, ran) = (rng.fork(), &ran);
                    let handle = s.spawn(move || {
                        wait(&mut rng);
                        ran.fetch_add(1, SeqCst);
                        vec![1_u8; 10]
                    });
                    std::mem::forget(handle);
                }
            });
            assert_eq!(ran.load(SeqCst), spawned);
        });
    });
}

/// At the end, as many blocks are live as before.
#[test]
fn slow_blocks_are_given_back() {
    let _turn = take_turn();
    let round = |seed: u64| {
        let runtime = runtime(2);
        let counts = Counts { calm: true, ..Counts::default() };
        runtime.run(|| {
            ecru::scope(|s| {
                for task in 0..8_u64 {
                    let counts = &counts;
                    s.spawn(move || tangle(Rng::with_seed(seed * 100 + task), 2, counts));
                }
            });
        });
        counts.check();
    };
    // Structures that are created once for the process are created now.
    for seed in 0..20 {
        round(seed);
    }
    // Ending threads still hold a block or two.
    let settled = || {
        let mut live = LIVE.load(SeqCst);
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(2));
            live = live.min(LIVE.load(SeqCst));
        }
        live
    };
    let before = settled();
    for seed in 20..100 {
        round(seed);
    }
    let after = settled();
    // A pool that grows (of workers' state, of stacks) takes some fifty blocks at once. It is less than
    // one block for each round.
    assert!(after - before < 80, "{before} blocks before, {after} after");
}
