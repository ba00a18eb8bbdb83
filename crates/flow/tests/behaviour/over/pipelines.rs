//! `pipeline` and `pipeline_unordered`.

use crate::common::{forever, panic_text, quiet_panic, settle, until};
use crate::simulated::{each_run, run_on};
use ecru::channel::{self};
use ecru_flow as flow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Workers and values, as in core.async's tests.
const TABLE: [(usize, usize); 5] = [(1, 0), (1, 10), (10, 10), (20, 10), (5, 1000)];

/// - given: 1, 1, 10, 20 and 5 workers for 0, 10, 10, 10 and 1000 values that take different times
/// - when: `pipeline` is called
/// - then: all outputs, in the order of the values
#[test]
fn over_23_pipeline_ordered() {
    each_run(|| {
        for (workers, values) in TABLE {
            let (to, there) = channel::unbounded();
            let dawdle = |n: usize| {
                for _ in 0..(n * 7919) % 13 {
                    let _ = ecru::yield_now();
                }
                [n * 2]
            };
            flow::pipeline(workers, dawdle).run(flow::from_iter(0..values), to).unwrap();
            let expected: Vec<_> = (0..values).map(|n| n * 2).collect();
            assert_eq!(flow::collect(&there), Ok(expected));
        }
    });
}

/// - given: zero to many outputs for a value, and a target without a buffer
/// - when: `pipeline` is called
/// - then: all outputs, in order
#[test]
fn over_24_pipeline_outputs() {
    each_run(|| {
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn(|| {
                flow::pipeline(3, |n: u32| (0..n).map(move |m| (n, m)))
                    .run(flow::from_iter(0..20), to)
                    .unwrap();
            });
            let expected: Vec<_> = (0..20).flat_map(|n| (0..n).map(move |m| (n, m))).collect();
            assert_eq!(flow::collect(&there), Ok(expected));
        });
    });
}

/// - given: n workers and a target that is not read
/// - when: `pipeline` is called
/// - then: n + 2 values are received, and no more until one has been sent on
#[test]
fn over_25_pipeline_read_ahead() {
    each_run(|| {
        for workers in [1, 3] {
            let source = flow::from_iter(0..100);
            let (to, there) = channel::bounded(0);
            ecru::scope(|s| {
                s.spawn(|| flow::pipeline(workers, |n: u32| [n]).run(&source, to).unwrap());
                until(|| source.len() <= 100 - workers - 2);
                settle();
                assert_eq!(source.len(), 100 - workers - 2);
                assert_eq!(flow::collect(&there).unwrap().len(), 100);
            });
        }
    });
}

/// - given: 4 workers
/// - when: either pipeline runs
/// - then: at most 4 values are processed at a time, and 4 are reached
#[test]
fn over_26_pipeline_at_a_time() {
    each_run(|| {
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |n: u32| {
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            if n < 4 {
                until(|| most.load(SeqCst) >= 4);
            }
            settle();
            inside.fetch_sub(1, SeqCst);
            [n]
        };
        for unordered in [false, true] {
            let (to, there) = channel::unbounded();
            let source = flow::from_iter(0..40);
            if unordered {
                flow::pipeline_unordered(4, work).run(source, to).unwrap();
            } else {
                flow::pipeline(4, work).run(source, to).unwrap();
            }
            assert_eq!(there.len(), 40);
            assert_eq!(most.swap(0, SeqCst), 4);
        }
    });
}

/// - given: a source that does not end
/// - when: `to` closes
/// - then: the call ends with an error, and the source keeps the remaining values; also if no
///   output is ever produced
#[test]
fn over_27_pipeline_target_closes() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        flow::send_all(&from, 0..100).unwrap();
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            let line = s.spawn(|| flow::pipeline(2, |n: u32| [n]).run(&source, to));
            assert_eq!(there.recv(), Ok(0));
            drop(there);
            assert!(line.join().unwrap().unwrap_err().is_disconnected());
        });
        // It ended although the source has not, and took no more than the allowed read-ahead.
        assert!(source.len() >= 100 - 6, "{} are left", source.len());
        let (to, there) = channel::bounded::<u32>(0);
        drop(there);
        let none = flow::pipeline(2, |_: u32| []).run(&source, &to);
        assert!(none.unwrap_err().is_disconnected());
        let none = flow::pipeline_unordered(2, |_: u32| []).run(&source, &to);
        assert!(none.unwrap_err().is_disconnected());
        drop(from);
    });
}

/// - given: `f` panics for one value, and the source does not end
/// - when: either pipeline runs
/// - then: the call ends with that panic
#[test]
fn over_28_pipeline_panics() {
    each_run(|| {
        let (_from, source) = channel::unbounded();
        _from.send(1).unwrap();
        let (to, there) = channel::unbounded();
        let line = flow::pipeline(2, |n: u32| if n == 1 { quiet_panic("one") } else { [n] });
        assert_eq!(panic_text(|| line.run(&source, &to)), "one");
        let line =
            flow::pipeline_unordered(2, |n: u32| if n == 1 { quiet_panic("one") } else { [n] });
        _from.send(1).unwrap();
        assert_eq!(panic_text(|| line.run(&source, to)), "one");
        assert!(there.recv().is_err());
    });
}

/// - given: `on_panic`
/// - when: `f` panics
/// - then: the handler's result, or nothing, takes the value's place; the other values are
///   processed
#[test]
fn over_29_pipeline_handler() {
    each_run(|| {
        let (to, there) = channel::unbounded();
        flow::pipeline(3, |n: u32| if n % 2 == 1 { quiet_panic("odd") } else { [n] })
            .on_panic(|payload| (payload.message() == Some("odd")).then_some(1000))
            .run(flow::from_iter(0..6), to)
            .unwrap();
        assert_eq!(flow::collect(&there), Ok(vec![0, 1000, 2, 1000, 4, 1000]));
        let (to, there) = channel::unbounded();
        flow::pipeline_unordered(3, |n: u32| if n == 1 { quiet_panic("odd") } else { [n] })
            .on_panic(|_| None)
            .run(flow::from_iter(0..3), to)
            .unwrap();
        let mut left = flow::collect(&there).unwrap();
        left.sort_unstable();
        assert_eq!(left, [0, 2]);
    });
}

/// - given: a value being processed
/// - when: the pipeline is cancelled
/// - then: the waits of its function are cancelled too, and the call returns the cancellation
#[test]
fn over_30_pipeline_cancelled() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, _there) = channel::unbounded::<u32>();
        let begun = AtomicBool::new(false);
        let work = |_: u32| {
            begun.store(true, SeqCst);
            forever();
            []
        };
        ecru::scope(|s| {
            for unordered in [false, true] {
                let (source, to) = (source.clone(), to.clone());
                let line = s.spawn(move || {
                    if unordered {
                        flow::pipeline_unordered(2, work).run(&source, &to)
                    } else {
                        flow::pipeline(2, work).run(&source, &to)
                    }
                });
                from.send(1).unwrap();
                until(|| begun.swap(false, SeqCst));
                line.cancel();
                assert!(line.join().unwrap().unwrap_err().is_cancelled());
            }
        });
    });
}

/// - given: 0 workers
/// - when: either pipeline is made
/// - then: it panics, naming the workers
#[test]
fn over_31_pipeline_of_none() {
    assert!(panic_text(|| flow::pipeline(0, |n: u32| [n])).contains("0 workers"));
    assert!(panic_text(|| flow::pipeline_unordered(0, |n: u32| [n])).contains("0 workers"));
}

/// - given: a slow first value
/// - when: `pipeline_unordered` is called
/// - then: the other outputs come before it
#[test]
fn over_32_unordered_overtakes() {
    run_on(2, || {
        let (to, there) = channel::unbounded();
        let slow = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| {
                flow::pipeline_unordered(2, |n: u32| {
                    if n == 0 {
                        until(|| slow.load(SeqCst));
                    }
                    [n]
                })
                .run(flow::from_iter(0..5), to)
                .unwrap();
            });
            let fast: Vec<_> = flow::take(&there, 4).collect();
            assert_eq!(fast, [1, 2, 3, 4]);
            slow.store(true, SeqCst);
            assert_eq!(there.recv(), Ok(0));
        });
    });
}

/// - given: `pipeline` and `pipeline_unordered`
/// - when: a function of theirs makes a dump
/// - then: their tasks are spawned at the place of the call of `run`
#[test]
fn over_36_pipeline_is_spawned_at_its_call() {
    run_on(1, || {
        let lines = |_: u32| {
            let dump = ecru::RuntimeHandle::current().dump();
            let places = dump.tasks().filter(|task| !task.is_root()).map(|task| {
                let at = task.spawned_at();
                assert_eq!(at.file(), file!(), "{at}");
                at.line()
            });
            places.collect::<Vec<_>>()
        };
        let (to, there) = channel::unbounded();
        let here = line!() + 1;
        flow::pipeline(2, lines).run(flow::from_iter([1]), &to).unwrap();
        let seen: Vec<_> = there.try_iter().collect();
        assert!(!seen.is_empty() && seen.iter().all(|line| *line == here), "{seen:?}");
        let here = line!() + 1;
        flow::pipeline_unordered(2, lines).run(flow::from_iter([1]), &to).unwrap();
        let seen: Vec<_> = there.try_iter().collect();
        assert!(!seen.is_empty() && seen.iter().all(|line| *line == here), "{seen:?}");
    });
}

/// - given: `usize::MAX` workers
/// - when: `pipeline` or `pipeline_unordered` is called for ten values
/// - then: only the workers that have a value begin, and all outputs are sent
#[test]
fn over_38_workers_begin_as_values_come() {
    each_run(|| {
        let (to, there) = channel::unbounded();
        flow::pipeline(usize::MAX, |n: u32| [n]).run(flow::from_iter(0..10), to).unwrap();
        assert_eq!(flow::collect(&there), Ok((0..10).collect::<Vec<_>>()));
        let (to, there) = channel::unbounded();
        flow::pipeline_unordered(usize::MAX, |n: u32| [n]).run(flow::from_iter(0..10), to).unwrap();
        let mut outputs = flow::collect(&there).unwrap();
        outputs.sort_unstable();
        assert_eq!(outputs, (0..10).collect::<Vec<_>>());
    });
}

/// - given: `usize::MAX` workers, one value, and a source that does not end
/// - when: the time limit around the call passes
/// - then: the call returns an error, and the output has been sent
#[test]
fn over_39_endless_workers_see_a_limit() {
    each_run(|| {
        for is_ordered in [true, false] {
            let (values, from) = channel::bounded(2);
            let (to, there) = channel::bounded(9);
            values.send(1).unwrap();
            let call = || match is_ordered {
                true => flow::pipeline(usize::MAX, |n: u32| Some(n)).run(&from, to),
                false => flow::pipeline_unordered(usize::MAX, |n: u32| Some(n)).run(&from, to),
            };
            let seen = ecru::cancel_scope(|c| {
                ecru::scope(|s| {
                    s.spawn(|| {
                        let first = there.recv();
                        c.cancel();
                        assert_eq!(first, Ok(1));
                    });
                    call()
                })
            });
            assert!(seen.is_err());
            let limited = ecru::timeout(std::time::Duration::from_millis(1), || {
                let (to, _there) = channel::bounded::<u32>(9);
                flow::pipeline(usize::MAX, |n: u32| Some(n)).run(&from, to)
            });
            assert!(!matches!(limited, Ok(Ok(()))));
        }
    });
}

/// - given: eight workers, values for all of them, and a first call that panics
/// - when: `pipeline` or `pipeline_unordered` is called on one worker thread
/// - then: no further call begins
#[test]
fn over_40_no_call_begins_after_a_panic() {
    run_on(1, || {
        for is_ordered in [true, false] {
            let begun = AtomicUsize::new(0);
            let f = |_: u32| -> Option<u32> {
                begun.fetch_add(1, SeqCst);
                quiet_panic("the first one")
            };
            let text = panic_text(|| {
                let (from, (to, _there)) = (flow::from_iter(0..100), channel::unbounded());
                let _ = match is_ordered {
                    true => flow::pipeline(8, f).run(from, to),
                    false => flow::pipeline_unordered(8, f).run(from, to),
                };
            });
            assert!(text.contains("the first one"), "{text}");
            assert_eq!(begun.load(SeqCst), 1);
        }
    });
}
