//! The snippets. The page's text is above each of them, and each result is checked.

use ecru::{par, sleep};
use std::fmt::Debug;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

/// Runs them in the order of the page.
pub(crate) fn all() {
    thread();
    future();
    executor();
    map();
    windows_and_chunks();
    values();
    comprehension();
    println!();
}

/// Pauses, in place of work by another program. It is never cancelled here.
fn pause(length: Duration) {
    sleep(length).expect("this run is never cancelled");
}

fn show<T: Debug + PartialEq>(snippet: &str, began: Instant, found: T, expected: &T) {
    println!("{snippet:<52} {found:?}  ({:.1} s)", began.elapsed().as_secs_f64());
    assert_eq!(&found, expected, "{snippet}");
}

/// `(v/thread ..)`: a task whose result is not used. It cannot outlive the scope, and may be joined
/// earlier.
fn thread() {
    let began = Instant::now();
    ecru::scope(|s| {
        let thread = s.spawn(|| pause(SECOND));
        assert!(!thread.is_finished());
        thread.join().expect("it does not panic");
        show("(v/thread ..), then .join", began, thread.is_finished(), &true);
    });
}

/// `(v/future ..)`: the handle of a task. A failure stays in it until it is joined.
fn future() {
    let began = Instant::now();
    ecru::scope(|s| {
        let sum = s.spawn(|| {
            pause(SECOND);
            1 + 2
        });
        show("@(v/future (+ 1 2))", began, sum.join().ok(), &Some(3));

        // `deref` with a limit gives up waiting, and cancels nothing.
        let slow = s.spawn(|| pause(TENTH));
        assert!(slow.join_timeout(TENTH / 10).is_none());
        slow.join().expect("it went on");

        let failed = s.spawn(|| 0_u32.checked_div(std::hint::black_box(0)).ok_or("divide by zero"));
        let found = failed.join().expect("an error is no panic");
        show("@(v/future (/ 0 0))", began, found, &Err("divide by zero"));
    });
}

/// `(v/with-executor [exe] .. (v/future-via [exe] ..))`: every scope is an executor, and ends when
/// its tasks have ended.
fn executor() {
    let began = Instant::now();
    let sum = ecru::scope(|s| {
        let later = |value| {
            s.spawn(move || {
                pause(SECOND);
                value
            })
        };
        let (a, b) = (later(1 + 2), later(4 + 5));
        a.join().unwrap() + b.join().unwrap()
    });
    show("(v/with-executor [exe] (+ @a @b))", began, sum, &12);
}

/// `(v/map f (range 10) (range 10))`: a task for each pair, all at once. Results are returned when
/// they are requested.
fn map() {
    let expected: Vec<i32> = (0..10).map(|n| 2 * n).collect();
    let add = |(a, b)| {
        pause(TENTH);
        a + b
    };
    let began = Instant::now();
    show("(v/map add (range 10) (range 10))", began, par::map((0..10).zip(0..10), add), &expected);

    let began = Instant::now();
    ecru::scope(|s| {
        let sums = s.map((0..10).zip(0..10), add);
        let first: Vec<i32> = sums.take(3).map(Result::unwrap).collect();
        show("(take 3 (v/map ..)), read one by one", began, first, &vec![0, 2, 4]);
    });
}

/// `(v/pmap 512 ..)` and `(v/fmap 512 ..)`. In ecru, `pmap` is a sliding window: the slowest of 512
/// does not delay the others. `fmap` has Virtuoso's chunks.
fn windows_and_chunks() {
    let began = Instant::now();
    let sums = par::map_buffered(512, (0..1000).zip(0..1000), |(a, b)| {
        pause(SECOND);
        a + b
    });
    let took = began.elapsed();
    show("(count (v/pmap 512 add (range 1000) ..))", began, sums.len(), &1000);
    assert!(took >= 2 * SECOND, "two rounds of at most 512");

    let began = Instant::now();
    ecru::scope(|s| {
        let chunks = s.map_chunks(512, 0..1000, |n| {
            pause(TENTH);
            2 * n
        });
        let five: Vec<_> =
            chunks.take(5).map(|handle| (handle.is_finished(), handle.join().unwrap())).collect();
        let expected = (0..5).map(|n| (true, 2 * n)).collect();
        show("(take 5 (v/fmap 512 ..)): finished, value", began, five, &expected);
    });
}

/// `(v/pvalues ..)`: several expressions at once.
fn values() {
    let began = Instant::now();
    let (a, b, c) = ecru::join!(
        1 + 2,
        {
            let (a, b) = (3, 4);
            pause(TENTH);
            a + b
        },
        5 * 6,
    );
    show("(v/pvalues (+ 1 2) .. (* 5 6))", began, [a, b, c].map(Result::unwrap), &[3, 7, 30]);
}

/// `(v/for [a [1 2 3] b [:a :b :c] :when .. :let ..] ..)`.
fn comprehension() {
    let began = Instant::now();
    let found = ecru::par_for!(
        a in [1, 2, 3],
        b in ['a', 'b', 'c'],
        if (a, b) != (2, 'b'),
        let c = a * a
        => { pause(TENTH); (c, b) }
    );
    let expected =
        vec![(1, 'a'), (1, 'b'), (1, 'c'), (4, 'a'), (4, 'c'), (9, 'a'), (9, 'b'), (9, 'c')];
    show("(v/for [a .. b .. :when .. :let ..] ..)", began, found, &expected);
}
