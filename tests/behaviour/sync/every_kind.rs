//! Properties of all types of `sync`, and all of them under load.

use super::cancelled;
use crate::support::{Counted, each_run, panic_text, run_on};
use ecru::source::{self};
use ecru::sync::{
    Barrier, Condvar, Latch, LazyLock, Mutex, Notify, OnceLock, Pool, RwLock, Semaphore, SetOnce,
    Watch,
};
use ecru::{Cancelled, Source};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

fn ignore<T>(_: T) {}

/// - given: `Mutex`, `RwLock`, `OnceLock`
/// - when: std's traits are used
/// - then: they are implemented, also for unsized values
#[test]
fn sync_09_values_of_locks() {
    let mut mutex = Mutex::from(6);
    *mutex.get_mut() += 1;
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 7, .. }");
    let guard = mutex.lock();
    assert_eq!(format!("{guard} {guard:?}"), "7 7");
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked>, .. }");
    drop(guard);
    assert_eq!((mutex.into_inner(), Mutex::<u8>::default().into_inner()), (7, 0));

    let mut rwlock = RwLock::from(6);
    *rwlock.get_mut() += 1;
    let reading = rwlock.read();
    assert_eq!(format!("{rwlock:?} {reading}"), "RwLock { data: 7, .. } 7");
    drop(reading);
    let writing = rwlock.write();
    assert_eq!(format!("{rwlock:?} {writing:?}"), "RwLock { data: <locked>, .. } 7");
    drop(writing);
    assert_eq!((rwlock.into_inner(), RwLock::<u8>::default().into_inner()), (7, 0));

    let unsized_mutex: &Mutex<[i32]> = &Mutex::new([1, 2]);
    unsized_mutex.lock()[0] = 3;
    assert_eq!(*unsized_mutex.lock(), [3, 2]);
    let unsized_rwlock: &RwLock<dyn std::fmt::Debug> = &RwLock::new("any");
    assert_eq!(format!("{:?}", &*unsized_rwlock.read()), "\"any\"");

    let drops = AtomicUsize::new(0);
    let mut once = OnceLock::from(Counted(&drops));
    assert!(once.get_mut().is_some());
    drop(once.take());
    assert_eq!((drops.load(SeqCst), once.get().is_some()), (1, false));
    assert!(once.set(Counted(&drops)).is_ok());
    drop(once);
    assert_eq!(drops.load(SeqCst), 2);
    let once = OnceLock::from(7);
    assert_eq!(once.clone(), once);
    assert_ne!(once, OnceLock::new());
    assert_eq!(
        format!("{once:?} {:?}", OnceLock::<u8>::default()),
        "OnceLock(7) OnceLock(<uninit>)"
    );
    assert_eq!(once.into_inner(), Some(7));
}

/// - given: every call in `sync` that may wait
/// - when: it is called inside `no_suspend`, although it would not have to wait
/// - then: it panics; but the value of an initialized `OnceLock` may be used
#[test]
fn sync_10_no_suspend_refuses() {
    let mutex = Mutex::new(());
    let rwlock = RwLock::new(());
    let semaphore = Semaphore::new(1);
    let notify = Notify::new();
    notify.notify_one();
    let once = OnceLock::from(1);
    let lazy = LazyLock::new(|| 1);
    assert_eq!(*lazy, 1);
    let set = SetOnce::new();
    set.set(1).unwrap();
    let condvar = Condvar::new();
    let pool: Pool<u8> = Pool::new(1, || Ok(7));
    let watch = Watch::new(1);
    let watched = watch.subscribe();
    watch.set(2);
    let calls: [(&str, &(dyn Fn() + Sync)); 21] = [
        ("lock", &|| ignore(mutex.lock())),
        ("lock_cancellable", &|| ignore(mutex.lock_cancellable())),
        ("read", &|| ignore(rwlock.read())),
        ("read_cancellable", &|| ignore(rwlock.read_cancellable())),
        ("write", &|| ignore(rwlock.write())),
        ("write_cancellable", &|| ignore(rwlock.write_cancellable())),
        ("condvar", &|| ignore(condvar.wait(&mut mutex.try_lock().unwrap()))),
        ("acquire", &|| ignore(semaphore.acquire())),
        ("acquire_many", &|| ignore(semaphore.acquire_many(0))),
        ("barrier", &|| ignore(Barrier::new(1).wait())),
        ("latch", &|| ignore(Latch::new(0).wait())),
        ("notify", &|| ignore(notify.wait())),
        ("get_or_init", &|| ignore(*OnceLock::new().get_or_init(|| 2))),
        ("set", &|| ignore(OnceLock::new().set(2))),
        ("once wait", &|| ignore(*OnceLock::<u8>::new().wait())),
        ("lazy", &|| ignore(*LazyLock::force(&LazyLock::new(|| 2)))),
        ("set_once", &|| ignore(set.wait())),
        ("pool", &|| ignore(pool.get())),
        ("update", &|| watch.update(|value| *value = 3)),
        ("watch", &|| ignore(watched.wait())),
        ("wait_for", &|| ignore(watched.wait_for(|_| true))),
    ];
    each_run(|| {
        for (name, call) in calls {
            let text = panic_text(|| ecru::no_suspend(call));
            assert!(text.contains("no_suspend"), "{name}: {text}");
        }
        assert!(mutex.try_lock().is_ok() && rwlock.try_write().is_ok());
        ecru::no_suspend(|| assert_eq!((*once.get_or_init(|| 2), *once.wait(), *lazy), (1, 1, 1)));
        assert_eq!(semaphore.available_permits(), 1);
    });
}

/// - given: a cancelled task
/// - when: it waits for a value that is there
/// - then: `Cancelled`, and the value is still there
#[test]
fn sync_45_cancelled_from_the_start() {
    each_run(|| {
        let semaphore = Semaphore::new(1);
        let notify = Notify::new();
        notify.notify_one();
        let set = SetOnce::new();
        set.set(7).unwrap();
        let watch = Watch::new(1);
        let watched = watch.subscribe();
        watch.set(2);
        cancelled(|| {
            assert!(semaphore.acquire().is_err());
            assert!(Source::wait(&semaphore).is_err());
            assert!(notify.wait().is_err());
            assert!(Latch::new(0).wait().is_err());
            assert!(Barrier::new(1).wait().is_err());
            assert!(set.wait().is_err());
            assert!(watched.wait().is_err() && watched.wait_for(|_| true).is_err());
            assert!(semaphore.try_acquire().is_ok());
        });
        assert_eq!((semaphore.available_permits(), notify.try_take()), (1, Some(())));
        assert_eq!(watched.wait(), Ok(Some(2)));
    });
}

/// A random number generator without dependencies.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// - given: two workers and two threads
/// - when: they lock, acquire, notify and cancel each other at random
/// - then: no permit, notification or turn is lost
#[test]
fn sync_46_stress() {
    let (mutex, sum) = (Mutex::new(0), AtomicUsize::new(0));
    let rwlock = RwLock::new(0);
    let semaphore = Semaphore::new(3);
    let (notify, sent, got) = (Notify::new(), AtomicUsize::new(0), AtomicUsize::new(0));
    let step = |dice: &mut Dice| match dice.throw(8) {
        0 | 1 => {
            *mutex.lock() += 1;
            sum.fetch_add(1, SeqCst);
        }
        2 => {
            let limit = std::time::Duration::from_micros(dice.throw(50));
            if let Ok(Ok(mut guard)) = ecru::timeout(limit, || mutex.lock_cancellable()) {
                let _ = ecru::yield_now();
                *guard += 1;
                sum.fetch_add(1, SeqCst);
            }
        }
        3 => {
            let count = usize::try_from(dice.throw(4)).unwrap();
            let limit = std::time::Duration::from_micros(dice.throw(50));
            let _ = ecru::timeout(limit, || {
                let permit = semaphore.acquire_many(count)?;
                let _ = ecru::yield_now();
                drop(permit);
                Ok::<_, Cancelled>(())
            });
        }
        4 => {
            let race = || source::race([&semaphore, &semaphore]).wait().map(drop);
            let _ = ecru::timeout(std::time::Duration::from_micros(dice.throw(50)), race);
        }
        5 => {
            let before = *rwlock.read();
            let mut value = rwlock.write();
            assert!(*value >= before);
            *value += 1;
        }
        6 => {
            // Enough are sent that each is received by a waiter, or remembered.
            sent.fetch_add(1, SeqCst);
            notify.notify_one();
        }
        _ => {
            let limit = std::time::Duration::from_micros(dice.throw(50));
            if let Ok(Ok(())) = ecru::timeout(limit, || notify.wait()) {
                got.fetch_add(1, SeqCst);
            }
        }
    };
    let work = |seed: u64| {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for _ in 0..300 {
            step(&mut dice);
        }
    };
    thread::scope(|t| {
        t.spawn(|| work(1));
        t.spawn(|| work(2));
        run_on(2, || {
            ecru::scope(|s| {
                for seed in 3..11 {
                    s.spawn(move || work(seed));
                }
            });
        });
    });
    assert_eq!(mutex.into_inner(), sum.into_inner());
    assert_eq!(semaphore.available_permits(), 3);
    assert!(rwlock.try_write().is_ok());
    assert!(got.into_inner() <= sent.into_inner());
}
