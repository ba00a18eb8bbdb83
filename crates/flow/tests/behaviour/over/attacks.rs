//! Attacks on pipelines: panics at every place, odd numbers of workers, cancellation at each
//! moment, and functions that use the pipeline's own channels.

use crate::common::{HOUR, OnDrop, panic_text, quiet_panic, run_on, run_placed};
use ecru::channel::{self, SendError};
use ecru::sync::Barrier;
use ecru::{Placement, timeout};
use ecru_flow as flow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn on_all(body: impl Fn()) {
    for workers in [1, 2, 4] {
        run_on(workers, &body);
        run_placed(workers, Placement::Spread, &body);
    }
}

/// A limit beyond all numbers is none.
#[test]
fn attack_endless_workers() {
    on_all(|| {
        for most in [usize::MAX, usize::MAX - 1, usize::MAX / 2 + 1] {
            let (to, there) = channel::unbounded();
            flow::pipeline(most, |n: u32| [n]).run(flow::from_iter(0..50), to).unwrap();
            assert_eq!(flow::collect(&there), Ok((0..50).collect()));
            let (to, there) = channel::unbounded();
            flow::pipeline_unordered(most, |n: u32| [n]).run(flow::from_iter(0..50), to).unwrap();
            let mut all = flow::collect(&there).unwrap();
            all.sort_unstable();
            assert_eq!(all, (0..50).collect::<Vec<_>>());
        }
    });
}

/// All `n` workers are there when they are needed: each call waits for the `n - 1` others. There
/// are never more.
#[test]
fn attack_calls_that_wait_for_each_other() {
    on_all(|| {
        for most in [1, 2, 5] {
            let now = AtomicUsize::new(0);
            let barrier = Barrier::new(most);
            let call = |n: usize| {
                let _end = OnDrop(|| _ = now.fetch_sub(1, SeqCst));
                assert!(now.fetch_add(1, SeqCst) < most);
                _ = barrier.wait().unwrap();
                [n]
            };
            let values = most * 7;
            let (to, there) = channel::bounded(0);
            ecru::scope(|s| {
                s.spawn(|| flow::pipeline(most, call).run(flow::from_iter(0..values), to).unwrap());
                assert_eq!(flow::collect(&there), Ok((0..values).collect()));
            });
            let (to, there) = channel::bounded(0);
            ecru::scope(|s| {
                let run =
                    || flow::pipeline_unordered(most, call).run(flow::from_iter(0..values), to);
                s.spawn(|| run().unwrap());
                let mut all = flow::collect(&there).unwrap();
                all.sort_unstable();
                assert_eq!(all, (0..values).collect::<Vec<_>>());
            });
        }
    });
}

struct Counted<'c>(usize, &'c AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

/// An iterator that panics where it is told to: at its making, at an item, or when it is dropped.
struct Panics {
    at: usize,
    left: usize,
}

impl Iterator for Panics {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        if self.at == 1 {
            quiet_panic("at an item");
        }
        self.left = self.left.checked_sub(1)?;
        Some(self.left)
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if self.at == 2 && !std::thread::panicking() {
            quiet_panic("when dropped");
        }
    }
}

/// A panic at any place ends the call with that panic. Each value is dropped once.
#[test]
fn attack_panics_at_every_place() {
    on_all(|| {
        for (at, text) in [(0, "at the call"), (1, "at an item"), (2, "when dropped")] {
            for most in [1, 3, 100] {
                let (made, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let values = || {
                    let (from, values) = channel::unbounded();
                    for n in 0..10 {
                        made.fetch_add(1, SeqCst);
                        from.send(Counted(n, &dropped)).unwrap();
                    }
                    values
                };
                let call = |value: Counted<'_>| {
                    _ = ecru::yield_now();
                    let at = if value.0 == 4 { at } else { 3 };
                    if at == 0 {
                        quiet_panic("at the call");
                    }
                    Panics { at, left: 2 }
                };
                let (to, _there) = channel::unbounded();
                let said = panic_text(|| flow::pipeline(most, call).run(values(), &to));
                assert_eq!(said, text);
                assert_eq!(made.load(SeqCst), dropped.load(SeqCst));
                let said = panic_text(|| flow::pipeline_unordered(most, call).run(values(), &to));
                assert_eq!(said, text);
                assert_eq!(made.load(SeqCst), dropped.load(SeqCst));

                // A handler takes the place of what is missing, and itself may panic.
                let (to, there) = channel::unbounded();
                flow::pipeline(most, call).on_panic(|_| Some(77)).run(values(), to).unwrap();
                let expected: Vec<_> = (0..10)
                    .flat_map(|n| match (n, at) {
                        (4, 0 | 1) => vec![77],
                        (4, _) => vec![1, 0, 77],
                        _ => vec![1, 0],
                    })
                    .collect();
                assert_eq!(flow::collect(&there), Ok(expected));
                let (to, _there) = channel::unbounded();
                let said = panic_text(|| {
                    flow::pipeline(most, call)
                        .on_panic(|_| -> Option<usize> { quiet_panic("in the handler") })
                        .run(values(), to)
                });
                assert_eq!(said, "in the handler");
                assert_eq!(made.load(SeqCst), dropped.load(SeqCst));
            }
        }
    });
}

fn passed_on(value: Counted<'_>) -> [Counted<'_>; 1] {
    (0..value.0 % 3).for_each(|_| _ = ecru::yield_now());
    [value]
}

/// The call is cancelled after each number of steps, while values come, wait and are sent.
#[test]
fn attack_cancellation_at_each_moment() {
    on_all(|| {
        for steps in 0..40 {
            for ordered in [true, false] {
                let dropped = AtomicUsize::new(0);
                let sent = AtomicUsize::new(0);
                ecru::scope(|s| {
                    let (from, values) = channel::bounded(1);
                    let (to, there) = channel::bounded(1);
                    let call = passed_on;
                    let run = s.spawn(move || match ordered {
                        true => flow::pipeline(3, call)
                            .run(values, to)
                            .map_err(|error| error.is_cancelled()),
                        false => flow::pipeline_unordered(3, call)
                            .run(values, to)
                            .map_err(|error| error.is_cancelled()),
                    });
                    let (sent, dropped) = (&sent, &dropped);
                    s.spawn(move || {
                        for n in 0..100 {
                            sent.fetch_add(1, SeqCst);
                            if from.send(Counted(n, dropped)).is_err() {
                                break;
                            }
                        }
                    });
                    s.spawn(move || while there.recv().is_ok() {});
                    (0..steps).for_each(|_| _ = ecru::yield_now());
                    run.cancel();
                    match run.join() {
                        Ok(result) => assert!(result == Ok(()) || result == Err(true)),
                        Err(error) => assert!(matches!(error, ecru::JoinError::Cancelled)),
                    }
                });
                assert_eq!(sent.into_inner(), dropped.into_inner());
            }
        }
    });
}

/// A number, and the way back to the source.
struct Feed(u32, Option<channel::Sender<Feed>>);

/// The function closes the target, sends into the source, and runs pipelines of its own.
#[test]
fn attack_functions_that_use_the_channels() {
    on_all(|| {
        for ordered in [true, false] {
            // It feeds the source, whose only other sender is gone.
            let (from, values) = channel::unbounded();
            from.send(Feed(5, Some(from.clone()))).unwrap();
            drop(from);
            let feeds = |Feed(n, from)| {
                if let (Some(from), true) = (from, n > 0) {
                    from.send(Feed(n - 1, Some(from.clone()))).unwrap();
                }
                [n]
            };
            let (to, there) = channel::unbounded();
            match ordered {
                true => flow::pipeline(2, feeds).run(&values, to).unwrap(),
                false => flow::pipeline_unordered(2, feeds).run(&values, to).unwrap(),
            }
            let mut all = flow::collect(&there).unwrap();
            if !ordered {
                all.sort_unstable_by(|a, b| b.cmp(a));
            }
            assert_eq!(all, [5, 4, 3, 2, 1, 0]);

            // It closes the target. Nothing hangs, whatever has outputs.
            let (to, there) = channel::unbounded::<u32>();
            let there = std::sync::Mutex::new(Some(there));
            let closes = |n: u32| {
                if n == 3 {
                    there.lock().unwrap().take();
                }
                None
            };
            let endless = flow::from_iter(0..1000);
            let result = match ordered {
                true => flow::pipeline(2, closes).run(endless, to),
                false => flow::pipeline_unordered(2, closes).run(endless, to),
            };
            assert_eq!(result, Err(SendError::Disconnected(None)));
        }
        // Pipelines inside of a pipeline.
        let (to, there) = channel::unbounded();
        flow::pipeline(3, |n: u32| {
            let (to, there) = channel::bounded(1);
            ecru::scope(|s| {
                s.spawn(|| {
                    flow::pipeline_unordered(3, |n| [n]).run(flow::from_iter(0..n), to).unwrap()
                });
                [flow::fold(there, 0, |sum, n| sum + n).unwrap()]
            })
        })
        .run(flow::from_iter(0..6), to)
        .unwrap();
        assert_eq!(flow::collect(&there), Ok(vec![0, 0, 1, 3, 6, 10]));
    });
}

/// A time limit passes while all workers wait in shields. The call is awaited.
#[test]
fn attack_workers_in_shields() {
    on_all(|| {
        for ordered in [true, false] {
            let (ended, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (to, _there) = channel::unbounded();
            let call = |n: u32| {
                begun.fetch_add(1, SeqCst);
                let _end = OnDrop(|| _ = ended.fetch_add(1, SeqCst));
                ecru::shield(|| ecru::sleep(std::time::Duration::from_millis(3))).unwrap();
                _ = ecru::sleep(HOUR);
                [n]
            };
            let late = timeout(std::time::Duration::from_millis(1), || match ordered {
                true => flow::pipeline(4, call).run(flow::from_iter(0..100), to).is_err(),
                false => {
                    flow::pipeline_unordered(4, call).run(flow::from_iter(0..100), to).is_err()
                }
            });
            assert!(late.is_err());
            assert!(begun.load(SeqCst) <= 4);
            assert_eq!(begun.into_inner(), ended.into_inner());
        }
    });
}

/// Thousands of values through one place; workers that come and go hold up no others.
#[test]
fn attack_many_values_through_a_narrow_place() {
    for workers in [1, 2, 4] {
        run_on(workers, || {
            let (to, there) = channel::bounded(0);
            ecru::scope(|s| {
                s.spawn(|| {
                    let uneven = |n: u32| {
                        (0..n % 5).for_each(|_| _ = ecru::yield_now());
                        (0..n % 4).map(move |_| n).collect::<Vec<_>>()
                    };
                    flow::pipeline(7, uneven).run(flow::from_iter(0..800), to).unwrap();
                });
                let expected = (0..800).flat_map(|n| (0..n % 4).map(move |_| n));
                assert!(there.iter().eq(expected));
            });
        });
    }
}
