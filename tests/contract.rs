//! What programs rely on and `cargo xtask public` cannot see: that closures and results need no
//! types, that a helper may take a scope, what the macros accept, and that code for std's locks
//! compiles with `sync::poison`. This code must continue to compile. Other tests show what it does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ecru::channel;
use ecru::source::{self, WaitList};
use ecru::{JoinError, JoinHandle, Scope, Source, TryScope};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

fn helper<'scope>(s: &'scope Scope<'scope, '_>) -> JoinHandle<'scope, u32> {
    s.spawn(|| 7)
}

fn failing<'scope>(s: &'scope TryScope<'scope, '_, String>) {
    s.builder().spawn(|| Err::<(), _>("no".to_owned()));
}

#[test]
fn types_of_scopes_are_inferred() {
    ecru::run(|| {
        let borrowed = String::from("x");
        let seven = ecru::scope(|s| {
            s.spawn_daemon(|| ecru::sleep(LONG));
            let name =
                s.builder().name("n").spawn(|| ecru::task::current().name().map(String::from));
            assert!(name.join().unwrap().is_some());
            s.builder().near().spawn_local(|| borrowed.len());
            let (one, task) = s
                .start(|started| {
                    started.ready(1);
                    2
                })
                .unwrap();
            assert_eq!((one, task.join().unwrap()), (1, 2));
            let shared = helper(s).shared();
            assert_eq!(shared.clone().join().unwrap(), 7);
            helper(s).join().unwrap()
        });
        assert_eq!(seven, 7);
        let failed: Result<(), String> = ecru::try_scope(|s| {
            let started = s.start(|started| {
                started.ready(1);
                Ok(())
            });
            assert!(started.is_ok());
            failing(s);
            ecru::sleep(LONG).map_err(|cancelled| cancelled.to_string())
        });
        assert_eq!(failed.unwrap_err(), "no");
        ecru::scope(|s| {
            let ok = |n| move || Ok::<_, JoinError>(n);
            assert_eq!(ecru::zip((s.spawn(ok(1)), s.spawn(ok(2)))).unwrap(), (1, 2));
            assert_eq!(ecru::first_ok([s.spawn(ok(3))]).unwrap(), 3);
            assert_eq!(ecru::try_join_all([s.spawn(ok(5))]).unwrap(), [5]);
            let set = ecru::JoinSet::new(s);
            set.spawn(|| 6);
            assert_eq!(set.join_next().unwrap().unwrap(), 6);
            assert!(s.map([1], |n| n).all(|one| one.is_ok()));
            assert!(s.map_chunks(2, [1], |n| n).all(|one| one.join().is_ok()));
        });
    });
}

/// Errors of every call become those of `io` by `?`.
fn with_question_marks() -> io::Result<u8> {
    ecru::checkpoint()?;
    ecru::timeout(LONG, || ecru::sleep(MS))??;
    let tried = ecru::try_timeout(LONG, || Ok::<_, io::Error>(1))?;
    let (tx, rx) = channel::bounded(1);
    tx.send(tried)?;
    let sum = ecru::spawn(move || rx.recv()).join()??;
    Ok(ecru::cancel_scope(|c| {
        ecru::on_cancel(|| (), || c.clone().cancel());
        ecru::shield(|| sum)
    }))
}

#[test]
fn errors_travel() {
    assert_eq!(ecru::run(with_question_marks).unwrap(), 1);
}

ecru::task_local! {
    static DEPTH: u32;
    static WIDTH: u32
}

#[derive(Default)]
struct Bell {
    rung: AtomicUsize,
    list: WaitList,
}

impl Source for Bell {
    type Item = usize;

    fn try_take(&self) -> Option<usize> {
        let rung = self.rung.load(SeqCst);
        (rung > 0).then_some(rung)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.list);
    }
}

#[test]
fn sources_and_macros() {
    ecru::run(|| {
        assert_eq!(DEPTH.scope(1, || DEPTH.with(|depth| *depth)), 1);
        assert_eq!(WIDTH.scope(2, || WIDTH.get()), 2);
        let bell = Arc::new(Bell { rung: AtomicUsize::new(1), ..Bell::default() });
        assert_eq!(bell.wait(), Ok(1));
        let (tx, rx) = channel::unbounded();
        tx.send(4).unwrap();
        assert_eq!(rx.clone().filter(|n| *n > 3).map(|got| got.unwrap() + 1).wait(), Ok(5));
        assert_eq!(source::ready(1).or(source::never()).wait(), Ok(1));
        assert_eq!(source::race([source::ready(2)]).wait(), Ok(2));
        assert!(source::either(source::ready(1), source::never::<u8>()).wait().is_ok());
        let _subscription = source::ready(1).on_ready(|_| ());
        ecru::scope(|s| {
            assert_eq!(ecru::block_on(s.spawn(|| 1)).unwrap().unwrap(), 1);
            assert_eq!(ecru::block_on(s.spawn(|| 3).to_future()).unwrap().unwrap(), 3);
        });
        tx.send(9).unwrap();
        let (other, _kept) = channel::bounded(1);
        let got = ecru::select! {
            recv(rx) -> message => message.unwrap(),
            wait(source::never::<u8>()) -> _ => unreachable!(),
            cancelled => unreachable!(),
            default(LONG) => unreachable!(),
        };
        assert_eq!(got, 9);
        channel::select! {
            recv(rx) -> _ => unreachable!(),
            default => (),
        }
        channel::select_biased! {
            recv(rx) -> _ => unreachable!(),
            default(MS) => (),
        }
        ecru::select_biased! {
            send(other, 1) -> sent => sent.unwrap(),
            default => unreachable!(),
        }
        let (one, two) = ecru::join!(1, "two");
        assert_eq!((one.unwrap(), two.unwrap()), (1, "two"));
        assert_eq!(ecru::par::map([1, 2], |n| n + 1), [2, 3]);
        let until: Vec<Option<u8>> = ecru::par::map_until(Instant::now(), [1], |n| n);
        assert_eq!(until, [None]);
        assert_eq!(ecru::par_for!(x in [1, 2], y in [10], let z = x + y, if z > 11 => z), [12]);
        assert_eq!(ecru::Schedule::until_ok(MS).max_runs(2).run(|| Ok::<_, u8>(1)), Ok(Ok(1)));
    });
}

#[test]
fn types_of_coroutines_are_inferred() {
    use ecru::coroutine::{self, Coroutine, CoroutineState, Generator, Yielder};
    let coroutine = Coroutine::new(|yielder: &Yielder<_, _>, first| {
        assert_eq!(yielder.suspend(first + 1), 9);
        "end"
    });
    assert_eq!(coroutine.resume(1), CoroutineState::Yielded(2));
    assert_eq!(coroutine.resume(9), CoroutineState::Complete("end"));
    let numbers = Generator::new(|yielder| (1..3).for_each(|n| yielder.suspend(n)));
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2]);
    let borrowed = vec![1, 2];
    let all = coroutine::generate(
        |yielder| borrowed.iter().for_each(|n| yielder.suspend(*n)),
        |items| items.collect::<Vec<_>>(),
    );
    assert_eq!(all, borrowed);
}

/// The signatures of a module with std's locks, for `T = u8`.
macro_rules! signatures {
    ($name:ident, $($module:ident)::+) => {
        #[test]
        fn $name() {
            use $($module)::+::{
                Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, RwLock,
                RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
            };
            use std::sync::{LockResult, TryLockResult};
            let _: fn(u8) -> Mutex<u8> = Mutex::new;
            let _: for<'a> fn(&'a Mutex<u8>) -> LockResult<MutexGuard<'a, u8>> = Mutex::lock;
            let _: for<'a> fn(&'a Mutex<u8>) -> TryLockResult<MutexGuard<'a, u8>> = Mutex::try_lock;
            let _: fn(&Mutex<u8>) -> bool = Mutex::is_poisoned;
            let _: fn(&Mutex<u8>) = Mutex::clear_poison;
            let _: fn(Mutex<u8>) -> LockResult<u8> = Mutex::into_inner;
            let _: for<'a> fn(&'a mut Mutex<u8>) -> LockResult<&'a mut u8> = Mutex::get_mut;
            let _: fn(u8) -> Mutex<u8> = Mutex::from;
            let _: fn() -> Mutex<u8> = Mutex::default;
            let _: fn(u8) -> RwLock<u8> = RwLock::new;
            let _: for<'a> fn(&'a RwLock<u8>) -> LockResult<RwLockReadGuard<'a, u8>> = RwLock::read;
            let _: for<'a> fn(&'a RwLock<u8>) -> TryLockResult<RwLockReadGuard<'a, u8>>
                = RwLock::try_read;
            let _: for<'a> fn(&'a RwLock<u8>) -> LockResult<RwLockWriteGuard<'a, u8>>
                = RwLock::write;
            let _: for<'a> fn(&'a RwLock<u8>) -> TryLockResult<RwLockWriteGuard<'a, u8>>
                = RwLock::try_write;
            let _: fn(&RwLock<u8>) -> bool = RwLock::is_poisoned;
            let _: fn(&RwLock<u8>) = RwLock::clear_poison;
            let _: fn(RwLock<u8>) -> LockResult<u8> = RwLock::into_inner;
            let _: for<'a> fn(&'a mut RwLock<u8>) -> LockResult<&'a mut u8> = RwLock::get_mut;
            let _: fn(u8) -> RwLock<u8> = RwLock::from;
            let _: fn() -> RwLock<u8> = RwLock::default;
            let _: fn(RwLockWriteGuard<'static, u8>) -> RwLockReadGuard<'static, u8>
                = RwLockWriteGuard::downgrade;
            let _: fn() -> Condvar = Condvar::new;
            let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>) -> LockResult<MutexGuard<'a, u8>>
                = Condvar::wait;
            let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, fn(&mut u8) -> bool)
                -> LockResult<MutexGuard<'a, u8>>
                = Condvar::wait_while;
            let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, Duration)
                -> LockResult<(MutexGuard<'a, u8>, WaitTimeoutResult)>
                = Condvar::wait_timeout;
            let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, Duration, fn(&mut u8) -> bool)
                -> LockResult<(MutexGuard<'a, u8>, WaitTimeoutResult)>
                = Condvar::wait_timeout_while;
            let _: fn(&Condvar) = Condvar::notify_one;
            let _: fn(&Condvar) = Condvar::notify_all;
            let _: fn() -> Condvar = Condvar::default;
            let _: fn(&WaitTimeoutResult) -> bool = WaitTimeoutResult::timed_out;
            let _: fn(usize) -> Barrier = Barrier::new;
            let _: fn(&Barrier) -> BarrierWaitResult = Barrier::wait;
            let _: fn(&BarrierWaitResult) -> bool = BarrierWaitResult::is_leader;
            let _: fn() -> OnceLock<u8> = OnceLock::new;
            let _: for<'a> fn(&'a OnceLock<u8>) -> Option<&'a u8> = OnceLock::get;
            let _: for<'a> fn(&'a mut OnceLock<u8>) -> Option<&'a mut u8> = OnceLock::get_mut;
            let _: for<'a> fn(&'a OnceLock<u8>) -> &'a u8 = OnceLock::wait;
            let _: fn(&OnceLock<u8>, u8) -> Result<(), u8> = OnceLock::set;
            let _: for<'a> fn(&'a OnceLock<u8>, fn() -> u8) -> &'a u8 = OnceLock::get_or_init;
            let _: fn(OnceLock<u8>) -> Option<u8> = OnceLock::into_inner;
            let _: fn(&mut OnceLock<u8>) -> Option<u8> = OnceLock::take;
            let _: fn() -> OnceLock<u8> = OnceLock::default;
            let _: fn(fn() -> u8) -> LazyLock<u8> = LazyLock::new;
            let _: for<'a> fn(&'a LazyLock<u8>) -> &'a u8 = LazyLock::force;
            let _: for<'a> fn(&'a mut LazyLock<u8>) -> &'a mut u8 = LazyLock::force_mut;
            let _: for<'a> fn(&'a LazyLock<u8>) -> Option<&'a u8> = LazyLock::get;
            let _: for<'a> fn(&'a mut LazyLock<u8>) -> Option<&'a mut u8> = LazyLock::get_mut;
        }
    };
}

signatures!(signatures_of_std, std::sync);
signatures!(signatures_of_poison, ecru::sync::poison);
