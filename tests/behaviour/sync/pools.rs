//! Pools: limits, the order of waiters, values that fail, expire and are left behind.

use super::{Log, cancelled, everywhere};
use crate::support::{
    Counted, HOUR, OnDrop, begin, each_run, forever, ms, panic_text, quiet_panic, run_on, settle,
    until,
};
use ecru::sync::{Latch, Pool, PoolError, Pooled};
use ecru::{CancelReason, Cancelled, JoinError};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// Counts the values that exist, those that were made, and the most at a time.
#[derive(Clone, Default)]
struct Count(Arc<[AtomicUsize; 3]>);

impl Count {
    fn value(&self) -> Value {
        let number = self.0[1].fetch_add(1, SeqCst);
        self.0[2].fetch_max(self.0[0].fetch_add(1, SeqCst) + 1, SeqCst);
        Value { number, count: self.clone() }
    }

    fn live(&self) -> usize {
        self.0[0].load(SeqCst)
    }

    fn made(&self) -> usize {
        self.0[1].load(SeqCst)
    }

    fn most(&self) -> usize {
        self.0[2].load(SeqCst)
    }

    /// Makes a pool of counted values.
    fn pool(&self, limit: usize) -> Pool<Value, Infallible> {
        let count = self.clone();
        Pool::new(limit, move || Ok(count.value()))
    }
}

/// A value with the number of those made before it.
#[derive(Debug)]
struct Value {
    number: usize,
    count: Count,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.count.0[0].fetch_sub(1, SeqCst);
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Count")
    }
}

/// - given: a `Pool` of three, tasks on one and on two workers, and plain threads
/// - when: they use its values
/// - then: values are made when they are needed, at most three exist, and they are used again
#[test]
fn sync_54_pool_limits() {
    let count = Count::default();
    let three = count.pool(3);
    assert_eq!((count.made(), three.limit(), three.idle()), (0, 3, 0));
    everywhere(10, || {
        for _ in 0..20 {
            let _value = three.get().unwrap();
            ecru::yield_now().unwrap();
        }
    });
    assert!(count.most() <= 3 && count.made() == three.idle(), "{count:?} {three:?}");
    let idle = count.made();
    assert_eq!(
        format!("{three:?}"),
        format!("Pool {{ limit: 3, idle: {idle}, closed: false, .. }}")
    );
    drop(three);
    assert_eq!(count.live(), 0);
}

/// - given: a pool with idle values
/// - when: one is needed
/// - then: the one that was returned last is lent
#[test]
fn sync_55_pool_lends_the_last_one() {
    let pool = Count::default().pool(3);
    let all = [pool.get().unwrap(), pool.get().unwrap(), pool.get().unwrap()];
    assert_eq!(all.each_ref().map(|value| value.number), [0, 1, 2]);
    let [zero, one, two] = all;
    drop((one, two, zero));
    assert_eq!(pool.get().unwrap().number, 0);
    let (zero, two) = (pool.get().unwrap(), pool.get().unwrap());
    assert_eq!((zero.number, two.number, pool.idle()), (0, 2, 1));
}

/// - given: a pool whose values are all lent, and tasks that wait for one
/// - when: one of the tasks is cancelled, one passes its time limit, and values are returned
/// - then: those two get `Cancelled` and nothing is lost; the others are served in order
#[test]
fn sync_56_pool_in_order() {
    run_on(1, || {
        let (pool, log) = (Count::default().pool(1), Log::default());
        let lent = pool.get().unwrap();
        ecru::scope(|s| {
            let (pool, log) = (&pool, &log);
            let wait = |name| {
                let task = s.spawn_local(move || {
                    let value = pool.get()?;
                    log.note(name);
                    drop(value);
                    Ok::<_, PoolError<Infallible>>(())
                });
                settle();
                task
            };
            wait("first");
            let second = wait("second");
            wait("third");
            let limited = ecru::timeout(ms(1), || pool.get().map(drop));
            assert!(limited.is_err());
            wait("fourth");
            second.cancel();
            let Err(PoolError::Cancelled(why)) = second.join().unwrap() else { panic!() };
            assert_eq!(why.reason(), CancelReason::Explicit);
            drop(lent);
            let last = pool.get().unwrap();
            log.assert(&["first", "third", "fourth"]);
            assert_eq!(last.number, 0);
        });
        // A cancelled task gets none, although one is free.
        assert!(matches!(cancelled(|| pool.get()), Err(PoolError::Cancelled(_))));
        assert_eq!(pool.idle(), 1);
    });
}

/// - given: a pool of one, a task that makes its value, and one that waits
/// - when: the first one's function fails, panics, or is cancelled while it waits
/// - then: its caller gets the error or the panic, and the other task makes the value
#[test]
fn sync_57_pool_whose_maker_fails() {
    each_run(|| {
        for how in ["fails", "panics", "waits"] {
            let calls = AtomicUsize::new(0);
            let may_fail = Arc::new(Latch::new(1));
            let pool: Pool<usize> = Pool::new(1, {
                let may_fail = Arc::clone(&may_fail);
                move || match calls.fetch_add(1, SeqCst) {
                    0 if how == "waits" => Err(forever().into()),
                    0 => {
                        may_fail.wait()?;
                        if how == "panics" {
                            quiet_panic("the maker");
                        }
                        Err(io::ErrorKind::ConnectionRefused.into())
                    }
                    call => Ok(call),
                }
            });
            ecru::scope(|s| {
                let first = begin(s, || pool.get().map(drop));
                let second = begin(s, || pool.get().map(|value| *value));
                may_fail.count_down();
                if how == "waits" {
                    first.cancel();
                }
                match (how, first.join()) {
                    ("fails", Ok(Err(error))) => {
                        let error = io::Error::from(error);
                        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
                    }
                    ("panics", Err(JoinError::Panicked(payload))) => {
                        assert_eq!(payload.message(), Some("the maker"));
                    }
                    ("waits", Ok(Err(PoolError::Make(error)))) => {
                        assert!(Cancelled::find(&error).is_some(), "{error}");
                    }
                    (_, other) => panic!("{how}: {other:?}"),
                }
                assert_eq!(second.join().unwrap().unwrap(), 1);
            });
            assert_eq!(pool.idle(), 1);
        }
    });
}

/// - given: a pool with idle values and a validator
/// - when: it refuses some of them, and panics for one
/// - then: refused values are dropped, and the next one is lent, or one is made; the caller gets the
///   panic, and that value is dropped, too
#[test]
fn sync_58_pool_validates() {
    let count = Count::default();
    let own = count.clone();
    let pool: Pool<Value, Infallible> = Pool::builder(3)
        .validate(|value: &mut Value| match value.number {
            1 | 2 => false,
            3 => quiet_panic("the validator"),
            _ => true,
        })
        .build(move || Ok(own.value()));
    let all = [pool.get().unwrap(), pool.get().unwrap(), pool.get().unwrap()];
    drop(all);
    assert_eq!((pool.get().unwrap().number, count.live()), (0, 1));
    let (zero, three) = (pool.get().unwrap(), pool.get().unwrap());
    assert_eq!((zero.number, three.number), (0, 3));
    drop((zero, three));
    assert_eq!(panic_text(|| pool.get()), "the validator");
    assert_eq!((count.live(), pool.idle()), (1, 1));
    let all = [pool.get().unwrap(), pool.get().unwrap(), pool.get().unwrap()];
    assert_eq!(all.map(|value| value.number), [0, 4, 5]);
}

/// - given: a pool with idle values, whose validator waits
/// - when: the caller is cancelled meanwhile, so that the validator refuses the value
/// - then: the caller gets `Cancelled`, and the other idle values stay
#[test]
fn sync_59_pool_whose_validator_is_cancelled() {
    each_run(|| {
        let pool: Pool<u32, Infallible> = Pool::builder(3)
            .validate(|value: &mut u32| *value != 7 || ecru::sleep(HOUR).is_ok())
            .build(|| Ok(1));
        let mut all = [pool.get().unwrap(), pool.get().unwrap(), pool.get().unwrap()];
        all.iter_mut().for_each(|value| **value = 7);
        drop(all);
        assert_eq!(pool.idle(), 3);
        ecru::scope(|s| {
            let waits = begin(s, || pool.get().map(drop));
            waits.cancel();
            assert!(matches!(waits.join().unwrap(), Err(PoolError::Cancelled(_))));
        });
        assert_eq!(pool.idle(), 2);
    });
}

/// - given: pools whose values expire by age, or by being idle
/// - when: values are older than that, or not
/// - then: they are dropped instead of lent, by `get`, by `prune`, or when another value is returned;
///   or they are lent
#[test]
fn sync_60_pool_values_expire() {
    run_on(1, || {
        for by_age in [true, false] {
            let count = Count::default();
            let pool = |limit| {
                let own = count.clone();
                let builder = Pool::<Value>::builder(3);
                let builder = if by_age { builder.max_age(limit) } else { builder.max_idle(limit) };
                builder.build(move || Ok::<_, Infallible>(own.value()))
            };
            let lasting = pool(HOUR);
            drop(lasting.get().unwrap());
            lasting.prune();
            assert_eq!(lasting.get().unwrap().number, 0);
            drop(lasting);

            let brief = pool(ms(2));
            let all = [brief.get().unwrap(), brief.get().unwrap(), brief.get().unwrap()];
            drop(all);
            ecru::sleep(ms(3)).unwrap();
            // The value that is new, and the return of it, find the others too old.
            assert_eq!(brief.get().unwrap().number, 4);
            assert!(brief.idle() <= 1, "{brief:?}");
            ecru::sleep(ms(3)).unwrap();
            brief.prune();
            assert_eq!((brief.idle(), count.live()), (0, 0));
            assert!(count.most() <= 3);
        }
    });
}

/// - given: a pool of one, whose value is lent
/// - when: it is discarded, or taken out
/// - then: the pool makes another one; the value is dropped before that, or is the caller's
#[test]
fn sync_61_pool_without_the_value() {
    let count = Count::default();
    let pool = count.pool(1);
    Pooled::discard(pool.get().unwrap());
    assert_eq!((count.live(), pool.idle()), (0, 0));
    let mine = Pooled::into_inner(pool.get().unwrap());
    let mut next = pool.get().unwrap();
    assert_eq!((mine.number, next.number, count.live()), (1, 2, 2));
    next.number = 9;
    assert!(format!("{next:?}").contains("number: 9"));
    drop(next);
    assert_eq!(pool.get().unwrap().number, 9);
}

/// - given: a value that is lent to a task which panics, or to a destructor of one which unwinds
/// - when: it is given up
/// - then: it is dropped in the first case, and returned in the second
#[test]
fn sync_62_pool_and_panics() {
    each_run(|| {
        let count = Count::default();
        let pool = count.pool(1);
        let text = panic_text(|| {
            let _value = pool.get().unwrap();
            quiet_panic("the holder");
        });
        assert_eq!((text.as_str(), count.live()), ("the holder", 0));
        let text = panic_text(|| {
            let _borrows = OnDrop(|| drop(ecru::shield(|| pool.get()).unwrap()));
            quiet_panic("not the holder");
        });
        assert_eq!((text.as_str(), pool.idle()), ("not the holder", 1));
        assert_eq!(pool.get().unwrap().number, 1);
    });
}

/// - given: a pool with a waiter, a task that makes a value, and values that are idle and lent
/// - when: it is closed, and closed again
/// - then: the waiter and later calls get `Closed`, idle values are dropped at once, lent ones when
///   they are returned, and the value that is being made is lent
#[test]
fn sync_63_pool_closes() {
    each_run(|| {
        let count = Count::default();
        let (own, go_on) = (count.clone(), Arc::new(Latch::new(1)));
        let wait = Arc::clone(&go_on);
        let pool: Pool<Value> = Pool::new(2, move || {
            if own.made() == 1 {
                wait.wait()?;
            }
            Ok(own.value())
        });
        let lent = pool.get().unwrap();
        ecru::scope(|s| {
            let makes = begin(s, || pool.get());
            let waits = begin(s, || pool.get().map(drop));
            let other = pool.clone();
            other.close();
            assert!(matches!(waits.join().unwrap(), Err(PoolError::Closed)));
            assert!(matches!(pool.get(), Err(PoolError::Closed)));
            go_on.count_down();
            let made = makes.join().unwrap().unwrap();
            assert_eq!((made.number, count.live(), pool.is_closed()), (1, 2, true));
            pool.close();
            drop((lent, made));
            assert_eq!((count.live(), pool.idle()), (0, 0));
        });
        let error = io::Error::from(pool.get().unwrap_err());
        assert_eq!(error.to_string(), "the pool is closed");

        let pool = count.pool(2);
        let lent = pool.get().unwrap();
        drop(pool.get().unwrap());
        assert_eq!(count.live(), 2);
        pool.close();
        assert_eq!(count.live(), 1);
        drop(lent);
    });
}

/// - given: a pool with values that are idle and lent
/// - when: its last handle is dropped
/// - then: idle values are dropped at once, and lent ones when they are given up
#[test]
fn sync_64_pool_dropped() {
    let count = Count::default();
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Makes(Arc<AtomicUsize>);
    impl Drop for Makes {
        fn drop(&mut self) {
            drop(Counted(&self.0));
        }
    }
    let (own, makes) = (count.clone(), Makes(Arc::clone(&dropped)));
    let pool: Pool<Value, Infallible> = Pool::new(2, move || {
        let _ = &makes;
        Ok(own.value())
    });
    let lent = pool.get().unwrap();
    drop(pool.clone().get().unwrap());
    assert_eq!((count.live(), pool.is_closed()), (2, false));
    drop(pool);
    assert_eq!((count.live(), dropped.load(SeqCst)), (1, 1));
    assert_eq!(lent.number, 0);
    drop(lent);
    assert_eq!(count.live(), 0);
}

/// - given: a pool of one, whose value's destructor waits
/// - when: the value is discarded, is refused, or expires, and another task wants one
/// - then: it is made when the destructor has ended
#[test]
fn sync_65_pool_with_slow_destructors() {
    struct Slow(Count);
    impl Drop for Slow {
        fn drop(&mut self) {
            ecru::shield(|| ecru::sleep(ms(1))).unwrap();
            self.0.0[0].fetch_sub(1, SeqCst);
        }
    }
    each_run(|| {
        for refuses in [true, false] {
            let count = Count::default();
            let own = count.clone();
            let pool: Pool<Slow, Infallible> =
                Pool::builder(1).validate(move |_| !refuses).build(move || {
                    let number = own.0[0].fetch_add(1, SeqCst) + 1;
                    own.0[2].fetch_max(number, SeqCst);
                    Ok(Slow(own.clone()))
                });
            ecru::scope(|s| {
                for _ in 0..5 {
                    s.spawn(|| {
                        let value = pool.get().unwrap();
                        if !refuses {
                            Pooled::discard(value);
                        }
                    });
                }
            });
            assert_eq!(count.most(), 1);
        }
    });
}

/// - given: a pool of two, tasks on two workers, and some that are cancelled at random
/// - when: they use values, discard them, and fail to make them
/// - then: never more than two exist, and in the end two can be lent
#[test]
fn sync_66_pool_stress() {
    let count = Count::default();
    let own = count.clone();
    let calls = AtomicUsize::new(0);
    let pool: Pool<Value> = Pool::builder(2)
        .validate(|value: &mut Value| !value.number.is_multiple_of(7) && ecru::yield_now().is_ok())
        .build(move || {
            ecru::yield_now()?;
            if calls.fetch_add(1, SeqCst).is_multiple_of(5) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Ok(own.value())
        });
    each_run(|| {
        ecru::scope(|s| {
            let tasks: Vec<_> = (0..40)
                .map(|task| {
                    let pool = &pool;
                    s.spawn(move || {
                        for round in 0..10 {
                            let Ok(value) = pool.get() else { continue };
                            let _ = ecru::yield_now();
                            if (task + round) % 3 == 0 {
                                Pooled::discard(value);
                            }
                        }
                    })
                })
                .collect();
            ecru::yield_now().unwrap();
            for task in tasks.iter().step_by(2) {
                task.cancel();
                ecru::yield_now().unwrap();
            }
        });
    });
    assert!(count.most() <= 2, "{}", count.most());
    run_on(1, || {
        let some = || std::iter::repeat_with(|| pool.get()).find_map(Result::ok).unwrap();
        let both = (some(), some());
        assert!(ecru::timeout(ms(1), || pool.get().map(drop)).is_err());
        drop(both);
        until(|| pool.idle() == 2);
    });
}
