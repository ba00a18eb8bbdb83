//! Maps over items that panic, never end or change, and results that are not taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::sim;
use ecru_fleet::{Fleet, Function, Run};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, native, panic_quietly, reaches, served,
};

/// Opens a function that counts its runs.
fn counting<'s>(fleet: &Fleet<'s>, runs: &Arc<AtomicU32>) -> Function<'s, u32, u32> {
    let runs = Arc::clone(runs);
    let body = move |n: u32, _: &Run| {
        runs.fetch_add(1, Ordering::SeqCst);
        Ok(n + 1)
    };
    fleet.function("count", body).retry(RETRY).open().unwrap()
}

#[test]
fn a_run_that_goes_on_with_other_items_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 4, || {
            let all = |range: std::ops::Range<u32>| {
                count.map("run", range).unwrap().collect::<Result<Vec<_>, _>>()
            };
            assert_eq!(all(0..10).unwrap(), (1..=10).collect::<Vec<_>>());
            // The stored results are those of the indices.
            assert_eq!(all(100..105).unwrap(), (1..=5).collect::<Vec<_>>());
            let longer: Vec<_> = (1..=10).chain(111..=112).collect();
            assert_eq!(all(100..112).unwrap(), longer);
            assert!(all(0..0).unwrap().is_empty());
        });
        assert_eq!(runs.load(Ordering::SeqCst), 12);
        Ok(())
    });
}

#[test]
fn one_run_of_two_functions_slow() {
    both(|fleet| {
        let double = fleet.function("double", |n: u32, _: &Run| Ok(2 * n)).open()?;
        let triple = fleet.function("triple", |n: u32, _: &Run| Ok(3 * n)).open()?;
        served(&double, 2, || {
            served(&triple, 2, || {
                let doubles = double.map("run", 0..4).unwrap();
                let triples = triple.map("run", 0..4).unwrap();
                let all = doubles.zip(triples).map(|(d, t)| d.unwrap() + t.unwrap());
                assert_eq!(all.collect::<Vec<_>>(), [0, 5, 10, 15]);
            });
        });
        Ok(())
    });
}

#[test]
fn one_run_by_two_coordinators_at_once_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 3, || {
            let all = ecru::par::map(0..3, |_| {
                count.map("run", 0..30).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
            });
            for results in all {
                assert_eq!(results, (1..=30).collect::<Vec<_>>());
            }
        });
        Ok(())
    });
}

/// - given: an iterator that panics after some items
/// - when: a function is mapped over it
/// - then: results of the first items come, then an error with the text of the panic, and then
///   nothing; the fleet goes on
#[test]
fn fleet_204_items_that_panic_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 2, || {
            for by_completion in [false, true] {
                let name = format!("run {by_completion}");
                let items = (0..6).map(|n| if n == 4 { panic_quietly("an item") } else { n });
                let results = count.map(&name, items).unwrap();
                let results: Vec<_> = if by_completion {
                    results.results().iter().map(|(_, result)| result).collect()
                } else {
                    results.collect()
                };
                // What was sent before the panic may come, and then the error comes.
                let (error, before) = results.split_last().unwrap();
                assert!(before.len() <= 4 && before.iter().all(Result::is_ok), "{before:?}");
                let error = error.as_ref().unwrap_err().to_string();
                assert!(error.contains("an item"), "{error}");
            }
            // The fleet goes on.
            assert_eq!(count.call(1).unwrap(), 2);
        });
        Ok(())
    });
}

#[test]
fn items_that_never_come() {
    local(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 2, || {
            let items = std::iter::from_fn(|| ecru::sleep(Duration::MAX).ok().map(|()| 1));
            let taken = ecru::timeout(SECOND, || {
                count.map("never", items).map(Iterator::count).unwrap_or_default()
            });
            assert!(taken.is_err());
            let (stop, stopped) = ecru::channel::bounded::<u32>(0);
            let mut results = count.map("stopped", stopped).unwrap();
            stop.send(4).unwrap();
            assert_eq!(results.next().unwrap().unwrap(), 5);
            drop(stop);
            assert!(results.next().is_none() && results.next().is_none());
            // What is left is ended with the scope.
            std::mem::forget(
                count.map(
                    "left",
                    std::iter::from_fn(|| ecru::sleep(Duration::MAX).ok().map(|()| 1)),
                ),
            );
        });
        Ok(())
    });
}

#[test]
fn endless_items_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 8, || {
            let taken: Vec<_> = count.map("taken", 0..).unwrap().take(20).collect();
            assert!(taken.into_iter().map(Result::unwrap).eq(1..=20));
            let by_completion = count.map("by completion", 0..).unwrap().results();
            for (index, result) in by_completion.iter().take(20) {
                assert_eq!(result.unwrap() as usize, index + 1);
            }
        });
        Ok(())
    });
}

#[test]
fn results_that_are_not_taken_slow() {
    for by_completion in [false, true] {
        let run = || {
            ecru::scope(|s| {
                let pulled = Arc::new(AtomicU32::new(0));
                let counter = Arc::clone(&pulled);
                let echo = Fleet::local(s).function("echo", |n: u32, _: &Run| Ok(n));
                let echo = echo.open().unwrap();
                let items = (0..).inspect(move |_| {
                    counter.fetch_add(1, Ordering::SeqCst);
                });
                served(&echo, 64, || {
                    let mut results = Some(echo.map("run", items).unwrap());
                    let completed = by_completion.then(|| results.take().unwrap().results());
                    ecru::sleep(1000 * SECOND).unwrap();
                    let ahead = pulled.load(Ordering::SeqCst);
                    // The channel of results has taken some, and one item waits to be sent.
                    assert!(ahead <= 1024 + 20, "{ahead} were sent ahead");
                    // They are there when they are wanted.
                    for n in 0..100 {
                        if let Some(results) = &mut results {
                            assert_eq!(results.next().unwrap().unwrap(), n);
                        } else if let Some(results) = &completed {
                            let (index, result) = results.recv().unwrap();
                            assert_eq!(result.unwrap() as usize, index);
                        }
                    }
                });
            });
        };
        sim::Simulation::new(1).run(run).result.unwrap();
    }
}

#[test]
fn a_map_of_a_map_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 2, || {
            // Results of one run are the items of the next one, of the same function.
            let first = count.map("first", 0..10).unwrap().map(Result::unwrap);
            let second = count.map("second", first).unwrap().map(Result::unwrap);
            let third: Result<Vec<_>, _> = count.map("third", second).unwrap().collect();
            assert_eq!(third.unwrap(), (3..13).collect::<Vec<_>>());
        });
        Ok(())
    });
}

#[test]
fn a_map_inside_a_function_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        let inner = count.clone();
        let sum = fleet.function("sum", move |n: u32, run: &Run| {
            // The name of the run is that of the call, so a second attempt goes on.
            let results = inner.map(run.id().as_str(), 0..n)?;
            let sum = results.sum::<Result<u32, _>>()?;
            if run.attempt() == 1 {
                Err("not yet".parse::<u32>().unwrap_err().into())
            } else {
                Ok(sum)
            }
        });
        let sum = sum.retry(RETRY).open()?;
        served(&count, 3, || {
            served(&sum, 3, || {
                let sums: Result<Vec<_>, _> = sum.map("sums", 0..6).unwrap().collect();
                assert_eq!(sums.unwrap(), [0, 1, 3, 6, 10, 15]);
            });
        });
        assert_eq!(runs.load(Ordering::SeqCst), 15);
        Ok(())
    });
}

#[test]
fn results_after_the_caller_was_cancelled_slow() {
    both(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        let mut results = count.map("run", 0..5)?;
        ecru::cancel_scope(|handle| {
            handle.cancel();
            assert!(results.next().unwrap().is_err());
            assert!(results.next().is_none() && results.next().is_none());
        });
        assert!(results.next().is_none());
        let results = count.map("other", 0..5)?.results();
        ecru::cancel_scope(|handle| {
            handle.cancel();
            assert!(results.recv().is_err());
        });
        // The receiver lives: another task may have it.
        let all = served(&count, 2, || {
            results
                .iter()
                .take(5)
                .map(|(index, result)| (index as u32 + 1, result.unwrap()))
                .collect::<Vec<_>>()
        });
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|(right, result)| right == result));
        assert!(results.recv().is_err_and(|error| error.is_disconnected()));
        Ok(())
    });
}

#[test]
fn results_in_another_task_when_the_scope_ends_slow() {
    local(|_| {
        let ended = AtomicU32::new(0);
        ecru::scope(|s| {
            let fleet = Fleet::local(s);
            let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).open().unwrap();
            let ended = &ended;
            for by_completion in [false, true] {
                let results = echo.map("run", 0..).unwrap();
                s.spawn_daemon(move || {
                    if by_completion {
                        assert!(results.results().recv().is_err());
                    } else {
                        let mut results = results;
                        assert!(results.next().unwrap().is_err());
                        assert!(results.next().is_none());
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
            ecru::sleep(SECOND).unwrap();
        });
        assert_eq!(ended.into_inner(), 2);
        Ok(())
    });
}

#[test]
fn coordinators_and_servers_that_come_and_go_slow() {
    local(|fleet| {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let slow = fleet.function("slow", move |n: u32, _: &Run| {
            counter.fetch_add(1, Ordering::SeqCst);
            ecru::sleep(SOON)?;
            Ok(n)
        });
        let slow = slow.attempts(1000).retry(RETRY).open()?;
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while !ecru::is_cancelled() {
                    let patience = SOON * (sim::random_u64() % 5) as u32;
                    let _ = ecru::timeout(patience, || slow.serve(3));
                }
            });
            let results = loop {
                let patience = SOON * (sim::random_u64() % 20) as u32;
                let taken = ecru::try_timeout(patience, || {
                    let results = slow.map("run", 0..40).map_err(std::io::Error::other)?;
                    results.collect::<Result<Vec<_>, _>>().map_err(std::io::Error::other)
                });
                if let Ok(results) = taken {
                    break results;
                }
            };
            assert_eq!(results, (0..40).collect::<Vec<_>>());
        });
        // The servers were cancelled, not killed: the calls that ran had their time.
        assert_eq!(runs.load(Ordering::SeqCst), 40);
        Ok(())
    });
}

#[test]
fn many_maps_at_once() {
    native(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        served(&count, 16, || {
            let all = ecru::par::map(0..8u32, |n| {
                let results = count.map(&format!("run {}", n % 4), 0..100).unwrap();
                ecru::timeout(LONG, || results.collect::<Result<Vec<_>, _>>()).unwrap().unwrap()
            });
            assert!(all.iter().all(|results| results.iter().copied().eq(1..=100)));
        });
        // An item that two coordinators have sent may be left in the queue, with its result stored.
        assert_eq!(runs.load(Ordering::SeqCst), 400);
        Ok(())
    });
}

/// Counts when it is dropped.
struct Gone(Arc<AtomicU32>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// - given: a map whose iterator waits for an item
/// - when: its results are dropped
/// - then: the wait is cancelled, and the iterator is dropped
#[test]
fn fleet_210_items_that_wait() {
    local(|fleet| {
        let runs = Arc::default();
        let count = counting(fleet, &runs);
        let (gone, waits) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (own, counter) = (Gone(Arc::clone(&gone)), Arc::clone(&waits));
        let items = std::iter::from_fn(move || {
            let _ = &own;
            counter.fetch_add(1, Ordering::SeqCst);
            ecru::sleep(Duration::MAX).ok().map(|()| 1)
        });
        let results = count.map("run", items)?;
        reaches(&waits, 1);
        drop(results);
        reaches(&gone, 1);
        Ok(())
    });
}
