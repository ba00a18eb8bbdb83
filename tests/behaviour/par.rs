//! Rows of `doc/behaviour/par.md`.

use crate::support::{HOUR, each_run, forever, ms, panic_text, quiet_panic, run_on, settle, until};
use ecru::{JoinError, par};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// Counts who is inside, and the most there ever were.
#[derive(Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    fn enter(&self) {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(inside, SeqCst);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// Takes longer for some items than for others, without a clock.
fn dawdle(turns: usize) {
    for _ in 0..turns {
        let _ = ecru::yield_now();
    }
}

#[test]
fn par_01_order() {
    each_run(|| {
        let squares = par::map(0..200_usize, |n| {
            dawdle((n * 7919) % 23);
            n * n
        });
        assert_eq!(squares, (0..200).map(|n| n * n).collect::<Vec<_>>());
    });
}

#[test]
fn par_02_all_at_once() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        par::map(0..100, |_| {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 100);
        });
    });
}

#[test]
fn par_03_nothing() {
    each_run(|| {
        let none = || std::iter::empty::<u8>();
        assert_eq!(par::map(none(), |_| -> u8 { unreachable!() }), []);
        assert_eq!(par::map_buffered(3, none(), |_| -> u8 { unreachable!() }), []);
        par::for_each(3, none(), |_| unreachable!());
        ecru::scope(|s| {
            assert!(s.map(none(), |n| n).next().is_none());
            assert!(s.map_buffered(3, none(), |n| n).next().is_none());
            assert!(s.map_chunks(3, none(), |n| n).next().is_none());
        });
    });
}

#[test]
fn par_04_borrows() {
    each_run(|| {
        let words = vec![String::from("a"), String::from("bc")];
        let seen = Mutex::new(HashMap::new());
        let lengths = par::map(&words, |word| {
            seen.lock().unwrap().insert(word.as_str(), word.len());
            word.len()
        });
        assert_eq!(lengths, [1, 2]);
        let lengths = par::map_buffered(1, words.iter(), |word| word.len());
        assert_eq!(lengths, [1, 2]);
        par::for_each(2, &words, |word| {
            assert!(seen.lock().unwrap().remove(word.as_str()).is_some())
        });
        assert!(seen.lock().unwrap().is_empty());
        // And what is borrowed may come back.
        let longest: Vec<&str> = par::map(&words, |word| &word[..1]);
        assert_eq!(longest, ["a", "b"]);
    });
}

#[test]
fn par_05_cancelled() {
    each_run(|| {
        let begun = AtomicBool::new(false);
        let (all, some, each) = ecru::scope(|s| {
            let child = s.spawn(|| {
                begun.store(true, SeqCst);
                until(ecru::is_cancelled);
                let all = par::map(0..50, |n| (n, ecru::sleep(HOUR)));
                let some = par::map_buffered(7, 0..50, |n| (n, ecru::sleep(HOUR)));
                let each = AtomicUsize::new(0);
                par::for_each(7, 0..50, |_| {
                    each.fetch_add(usize::from(ecru::sleep(HOUR).is_err()), SeqCst);
                });
                (all, some, each.into_inner())
            });
            until(|| begun.load(SeqCst));
            child.cancel();
            child.join().unwrap()
        });
        for results in [all, some] {
            assert_eq!(results.len(), 50);
            for (n, (item, result)) in results.into_iter().enumerate() {
                assert_eq!(item, n);
                assert!(result.is_err());
            }
        }
        assert_eq!(each, 50);
    });
}

#[test]
fn par_05_cancelled_while_the_items_wait() {
    each_run(|| {
        let inside = AtomicUsize::new(0);
        let results = ecru::timeout(ms(20), || {
            par::map(0..50, |n| {
                inside.fetch_add(1, SeqCst);
                (n, ecru::sleep(HOUR).is_err())
            })
        });
        assert!(results.is_err(), "the expiry was delivered below");
        assert_eq!(inside.load(SeqCst), 50);
        let results = ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| inside.load(SeqCst) == 100);
                    c.cancel();
                });
                par::map(0..50, |n| {
                    inside.fetch_add(1, SeqCst);
                    (n, ecru::sleep(HOUR).is_err())
                })
            })
        });
        assert_eq!(results, (0..50).map(|n| (n, true)).collect::<Vec<_>>());
    });
}

#[test]
fn par_06_panics() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        let item = |n: usize| {
            dawdle(n);
            if n % 10 == 3 {
                quiet_panic(if n == 3 { "the first" } else { "a later one" });
            }
            ended.fetch_add(1, SeqCst);
        };
        assert_eq!(panic_text(|| par::map(0..50, item)), "the first");
        assert_eq!(ended.swap(0, SeqCst), 45);
        assert_eq!(panic_text(|| par::map_buffered(4, 0..50, item)), "the first");
        assert_eq!(ended.swap(0, SeqCst), 45);
        let text = panic_text(|| par::for_each(4, 0..50, item));
        assert!(text == "the first" || text == "a later one", "{text}");
        assert_eq!(ended.swap(0, SeqCst), 45);
    });
}

#[test]
fn par_06_panics_of_the_input_await_the_items() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        let input = || {
            (0..20).inspect(|n| {
                if *n == 5 {
                    quiet_panic("the input")
                }
            })
        };
        let item = |_| {
            dawdle(10);
            ended.fetch_add(1, SeqCst);
        };
        for verb in 0..3 {
            let text = panic_text(|| match verb {
                0 => drop(par::map(input(), item)),
                1 => drop(par::map_buffered(8, input(), item)),
                _ => par::for_each(8, input(), item),
            });
            assert_eq!(text, "the input");
            assert_eq!(ended.swap(0, SeqCst), 5);
        }
    });
}

#[test]
fn par_07_window() {
    each_run(|| {
        for verb in 0..2 {
            let crowd = Crowd::default();
            let item = |n| {
                crowd.enter();
                until(|| n > 7 || crowd.most.load(SeqCst) == 8);
                dawdle(n % 5 + 1);
                crowd.leave();
                n
            };
            match verb {
                0 => assert_eq!(par::map_buffered(8, 0..100_usize, item).len(), 100),
                _ => par::for_each(8, 0..100, |n| {
                    item(n);
                }),
            }
            assert_eq!(crowd.most.load(SeqCst), 8);
        }
    });
}

#[test]
fn par_08_slides() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        par::map_buffered(4, 0..100, |n| {
            if n == 0 {
                until(|| ended.load(SeqCst) == 99);
            } else {
                dawdle(1);
                ended.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(ended.load(SeqCst), 99);
    });
}

#[test]
fn par_09_buffered_order() {
    each_run(|| {
        for window in [1, 2, 7, 200] {
            let items = (0..200_usize).collect::<Vec<_>>();
            let same = par::map_buffered(window, items.clone(), |n| {
                dawdle((n * 7919) % 23);
                n
            });
            assert_eq!(same, items);
        }
    });
}

#[test]
fn par_10_window_wider_than_input() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        let items = par::map_buffered(512, 0..3, |n| {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 3);
            n
        });
        assert_eq!(items, [0, 1, 2]);
        assert_eq!(par::map_buffered(usize::MAX, 0..3, |n| n), [0, 1, 2]);
    });
}

#[test]
fn par_11_window_of_none() {
    each_run(|| {
        let texts = [
            panic_text(|| par::map_buffered(0, 0..3, |n| n)),
            panic_text(|| par::for_each(0, 0..3, |_| ())),
            panic_text(|| ecru::scope(|s| s.map_buffered(0, 0..3, |n| n).count())),
            panic_text(|| ecru::scope(|s| s.map_chunks(0, 0..3, |n| n).count())),
        ];
        for text in &texts[..3] {
            assert!(text.contains("a window of 0"), "{text}");
        }
        assert!(texts[3].contains("a chunk of 0"), "{}", texts[3]);
    });
}

#[test]
fn par_12_buffered_input_is_lazy() {
    each_run(|| {
        let (taken, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let check = || assert!(taken.load(SeqCst) <= ended.load(SeqCst) + 5);
        let input = || {
            (0..100_usize).inspect(|_| {
                taken.fetch_add(1, SeqCst);
                check();
            })
        };
        let item = |n| {
            check();
            dawdle(n % 7);
            check();
            ended.fetch_add(1, SeqCst);
        };
        par::map_buffered(5, input(), item);
        assert_eq!((taken.swap(0, SeqCst), ended.swap(0, SeqCst)), (100, 100));
        par::for_each(5, input(), item);
        assert_eq!((taken.load(SeqCst), ended.load(SeqCst)), (100, 100));
    });
}

#[test]
fn par_13_scope_map_starts_at_once() {
    each_run(|| {
        let run = AtomicUsize::new(0);
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let input = (0..20).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let _unread = s.map(input, |_| {
                run.fetch_add(1, SeqCst);
            });
            assert_eq!(taken.load(SeqCst), 20, "launched by the call");
        });
        assert_eq!(run.load(SeqCst), 20);
    });
}

#[test]
fn par_14_error_at_its_own_index() {
    each_run(|| {
        ecru::scope(|s| {
            let divide = |n: i32| if n == 0 { quiet_panic("by zero") } else { 12 / n };
            let check = |results: Vec<Result<i32, JoinError>>| {
                for (n, result) in results.into_iter().enumerate() {
                    match (n, result) {
                        (2, Err(JoinError::Panicked(payload))) => {
                            assert_eq!(payload.message(), Some("by zero"));
                        }
                        (n, result) => assert_eq!(result.unwrap(), [12, 6, 0, 4][n]),
                    }
                }
            };
            check(s.map([1, 2, 0, 3], divide).collect());
            check(s.map_buffered(2, [1, 2, 0, 3], divide).collect());
            // Two collections, as Virtuoso's map takes them: the shorter one is the end.
            let sums = s.map([1, 2, 3].into_iter().zip([10, 20]), |(a, b)| a + b);
            assert_eq!(sums.map(Result::unwrap).collect::<Vec<_>>(), [11, 22]);
        });
    });
}

#[test]
fn par_15_scope_buffered_is_lazy() {
    each_run(|| {
        let (taken, run) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            let input = (0..20).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let _unread = s.map_buffered(3, input, |_| {
                run.fetch_add(1, SeqCst);
            });
            settle();
        });
        assert_eq!((taken.load(SeqCst), run.load(SeqCst)), (0, 0));
    });
}

#[test]
fn par_16_scope_buffered_endless() {
    each_run(|| {
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let input = (0_u64..).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let five: Vec<u64> =
                s.map_buffered(3, input, |n| n * n).take(5).map(Result::unwrap).collect();
            assert_eq!(five, [0, 1, 4, 9, 16]);
        });
        let taken = taken.load(SeqCst);
        assert!((5..=8).contains(&taken), "{taken}");
    });
}

#[test]
fn par_17_scope_buffered_dropped() {
    each_run(|| {
        for forget in [false, true] {
            let (taken, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                let input = (0..100).inspect(|_| {
                    taken.fetch_add(1, SeqCst);
                });
                let mut results = s.map_buffered(3, input, |_| {
                    dawdle(20);
                    ended.fetch_add(1, SeqCst);
                });
                results.next().unwrap().unwrap();
                if forget {
                    #[expect(clippy::mem_forget, reason = "that is what is tried")]
                    std::mem::forget(results);
                } else {
                    drop(results);
                }
            });
            let taken = taken.load(SeqCst);
            assert_eq!(ended.load(SeqCst), taken, "the scope waits for what has begun");
            assert!((3..=4).contains(&taken), "{taken}");
        }
    });
}

#[test]
fn par_18_chunks_are_lazy() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0.., |n| {
                begun.fetch_add(1, SeqCst);
                n
            });
            settle();
            assert_eq!(begun.load(SeqCst), 0);
            assert_eq!(handles.next().unwrap().join().unwrap(), 0);
            settle();
            assert_eq!(begun.load(SeqCst), 3);
        });
        assert_eq!(begun.load(SeqCst), 3);
    });
}

#[test]
fn par_19_chunks_finish() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0..9, |n| {
                dawdle(30 * (n % 3));
                ended.fetch_add(1, SeqCst);
            });
            let first = handles.next().unwrap();
            assert_eq!(ended.load(SeqCst), 3);
            assert!(first.is_finished());
            assert!(handles.next().unwrap().is_finished() && handles.next().unwrap().is_finished());
            assert_eq!(ended.load(SeqCst), 3);
        });
    });
}

#[test]
fn par_20_chunks_next() {
    each_run(|| {
        let begun = Mutex::new(Vec::new());
        ecru::scope(|s| {
            let mut handles = s.map_chunks(3, 0..8, |n| begun.lock().unwrap().push(n));
            let seen = || {
                settle();
                let mut begun = begun.lock().unwrap().clone();
                begun.sort_unstable();
                begun
            };
            let three = [handles.next(), handles.next(), handles.next()];
            assert!(three.iter().all(Option::is_some));
            assert_eq!(seen(), [0, 1, 2]);
            assert!(handles.next().is_some());
            assert_eq!(seen(), [0, 1, 2, 3, 4, 5]);
            // The last chunk is a short one.
            assert_eq!(handles.count(), 4);
            assert_eq!(seen(), [0, 1, 2, 3, 4, 5, 6, 7]);
        });
    });
}

#[test]
fn par_21_chunk_error() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        let results = ecru::scope(|s| {
            let handles = s.map_chunks(3, 0..6, |n| {
                begun.fetch_add(1, SeqCst);
                if n == 4 { quiet_panic("the fifth") } else { n }
            });
            handles.map(|handle| handle.join()).collect::<Vec<_>>()
        });
        assert_eq!(begun.load(SeqCst), 6);
        for (n, result) in results.into_iter().enumerate() {
            match result {
                Err(JoinError::Panicked(payload)) => {
                    assert_eq!((n, payload.message()), (4, Some("the fifth")));
                }
                other => assert_eq!(other.unwrap(), n),
            }
        }
    });
}

#[test]
fn par_21_chunk_error_of_a_chunk_not_reached_does_not_happen() {
    each_run(|| {
        ecru::scope(|s| {
            let mut handles =
                s.map_chunks(3, 0..6, |n| if n == 3 { quiet_panic("the fourth") } else { n });
            assert_eq!(handles.next().unwrap().join().unwrap(), 0);
            settle();
        });
    });
}

#[test]
fn par_22_caller_cancelled() {
    each_run(|| {
        for buffered in [false, true] {
            let waiting = AtomicBool::new(false);
            let results = ecru::cancel_scope(|c| {
                ecru::scope(|s| {
                    s.spawn(|| {
                        until(|| waiting.load(SeqCst));
                        settle();
                        c.cancel();
                    });
                    let item = |n: u32| {
                        if n > 1 {
                            forever();
                        }
                        n
                    };
                    let mut results: Box<dyn Iterator<Item = Result<u32, JoinError>>> = if buffered
                    {
                        Box::new(s.map_buffered(4, 0..10, item))
                    } else {
                        Box::new(s.map(0..10, item))
                    };
                    let values =
                        [results.next(), results.next()].map(|value| value.unwrap().unwrap());
                    assert_eq!(values, [0, 1]);
                    waiting.store(true, SeqCst);
                    let rest = results.by_ref().collect::<Vec<_>>();
                    assert!(results.next().is_none() && results.next().is_none());
                    rest
                })
            });
            // An item that ended before the caller was told still counts; then the cancellation comes, once.
            let (last, before) = results.split_last().unwrap();
            assert!(matches!(last, Err(JoinError::CallerCancelled)), "{results:?}");
            assert!(before.iter().all(Result::is_ok), "{results:?}");
        }
    });
}

#[test]
fn par_22_caller_cancelled_in_a_chunk() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        let handles = ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| begun.load(SeqCst) == 3);
                    c.cancel();
                });
                let handles = s.map_chunks(3, 0..9, |_| {
                    begun.fetch_add(1, SeqCst);
                    forever();
                });
                handles.count()
            })
        });
        assert_eq!(
            (handles, begun.load(SeqCst)),
            (3, 3),
            "its chunk's handles, and no further chunk"
        );
    });
}

#[test]
fn par_23_for_each() {
    each_run(|| {
        let seen: Vec<AtomicUsize> = (0..500).map(|_| AtomicUsize::new(0)).collect();
        par::for_each(16, 0..500, |n| {
            dawdle(n % 3);
            seen[n].fetch_add(1, SeqCst);
        });
        assert!(seen.iter().all(|count| count.load(SeqCst) == 1));
    });
}

#[test]
fn par_24_par_for_nested() {
    each_run(|| {
        let pairs = ecru::par_for!(x in 0..5, y in 0..x => {
            dawdle((x * 31 + y * 17) % 11);
            (x, y)
        });
        let mut expected = Vec::new();
        for x in 0..5 {
            for y in 0..x {
                expected.push((x, y));
            }
        }
        assert_eq!(pairs, expected);
        let triples = ecru::par_for!(a in 0..3, b in 0..3, c in 0..3 => a * 9 + b * 3 + c);
        assert_eq!(triples, (0..27).collect::<Vec<_>>());
        assert_eq!(ecru::par_for!(only in [1, 2] => only + 1), [2, 3]);
        // All at once.
        let here = AtomicUsize::new(0);
        ecru::par_for!(_x in 0..4, _y in 0..4 => {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 16);
        });
    });
}

#[test]
fn par_24_par_for_nested_in_itself_and_over_nothing() {
    each_run(|| {
        let table = ecru::par_for!(x in 1..4 => ecru::par_for!(y in 1..4 => x * y));
        assert_eq!(table, [[1, 2, 3], [2, 4, 6], [3, 6, 9]]);
        let no_more = 0;
        let none: Vec<u8> = ecru::par_for!(x in 0..no_more, _y in 0..3 => x);
        assert_eq!(none, []);
        let none: Vec<u8> = ecru::par_for!(_x in 0..3, y in 0..no_more => y);
        assert_eq!(none, []);
        let none: Vec<u8> = ecru::par_for!(x in 0..3, if x > 5 => x);
        assert_eq!(none, []);
    });
}

#[test]
fn par_25_par_for_clauses() {
    each_run(|| {
        let names = [(1, "one"), (2, "two"), (3, "three"), (4, "four")];
        let odd = ecru::par_for!(
            (number, name) in names,
            if number % 2 == 1,
            let text = format!("{number}: {name}"),
            (position, letter) in text.chars().enumerate(),
            if letter.is_alphabetic(),
            let (twice, upper) = (position * 2, letter.to_ascii_uppercase()),
            => (number, twice, upper)
        );
        let mut expected = Vec::new();
        for (number, name) in names.into_iter().filter(|(number, _)| number % 2 == 1) {
            for (position, letter) in name.chars().enumerate() {
                expected.push((number, (position + 3) * 2, letter.to_ascii_uppercase()));
            }
        }
        assert_eq!(odd, expected);
    });
}

/// The values of the loops are cloned into each body, so they need not be `Copy`, and the body may own them.
#[test]
fn par_25_par_for_clauses_over_owned_values() {
    each_run(|| {
        let prefix = String::from("<");
        let words = ecru::par_for!(
            a in [String::from("x"), String::from("y")],
            b in [vec![1], vec![2, 3]],
            let suffix = String::from(">")
            => {
                let owned: (String, Vec<i32>) = (a, b);
                format!("{prefix}{}{:?}{suffix}", owned.0, owned.1)
            }
        );
        assert_eq!(words, ["<x[1]>", "<x[2, 3]>", "<y[1]>", "<y[2, 3]>"]);
    });
}

#[test]
fn par_26_par_for_while() {
    each_run(|| {
        let below = ecru::par_for!(x in 1..=3, y in 1.., while x * y < 7, if y != 2 => (x, y));
        let expected = [(1, 1), (1, 3), (1, 4), (1, 5), (1, 6), (2, 1), (2, 3), (3, 1)];
        assert_eq!(below, expected);
        let first = ecru::par_for!(x in 1.., while x < 4, y in 0..2 => x * 10 + y);
        assert_eq!(first, [10, 11, 20, 21, 30, 31]);
        let bound = ecru::par_for!(x in 1.., let square = x * x, while square < 20 => square);
        assert_eq!(bound, [1, 4, 9, 16]);
    });
}

#[test]
fn par_27_aliases() {
    each_run(|| {
        let crowd = Crowd::default();
        let same = par::pmap(3, 0..30, |n| {
            crowd.enter();
            until(|| n > 2 || crowd.most.load(SeqCst) == 3);
            dawdle(2);
            crowd.leave();
            n
        });
        assert_eq!(same, (0..30).collect::<Vec<_>>());
        assert_eq!(crowd.most.load(SeqCst), 3);
        let begun = AtomicUsize::new(0);
        ecru::scope(|s| {
            let mut handles = s.fmap(3, 0.., |n| {
                begun.fetch_add(1, SeqCst);
                n
            });
            assert_eq!(handles.next().unwrap().join().unwrap(), 0);
        });
        assert_eq!(begun.load(SeqCst), 3);
    });
}

/// Virtuoso's own test: as many sleeping items as there are take the time of one.
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn par_02_all_at_once_slow_a_hundred_thousand_sleepers() {
    run_on(2, || {
        let start = Instant::now();
        let results = ecru::par_for!(n in 0..99_999_u32 => {
            ecru::sleep(ms(1000)).unwrap();
            n
        });
        assert!(start.elapsed() >= ms(1000) && results.len() == 99_999);
        assert!(results.iter().zip(0..).all(|(result, n)| *result == n));
        // A thousand times more if one waited for another.
        assert!(start.elapsed() < ms(10_000), "{:?}", start.elapsed());
    });
}

#[test]
fn par_02_all_at_once_needs_a_runtime() {
    for text in [
        panic_text(|| par::map(0..3, |n| n)),
        panic_text(|| par::map_buffered(2, 0..3, |n| n)),
        panic_text(|| par::for_each(2, 0..3, |_| ())),
    ] {
        assert!(text.contains("ecru::run"), "{text}");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| ecru::run(|| par::map(0..3, |n| n)))).is_ok());
}
