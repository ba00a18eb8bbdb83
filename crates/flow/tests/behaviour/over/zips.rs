//! `zip_with`.

use crate::common::settle;
use crate::simulated::each_run;
use ecru::channel::{self, RecvError};
use ecru_flow as flow;

/// - given: four channels
/// - when: `zip_with(receivers, f)` is called
/// - then: rows in lockstep
#[test]
fn over_18_zip_with() {
    each_run(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::bounded(0)).unzip();
        ecru::scope(|s| {
            for (n, sender) in senders.into_iter().enumerate() {
                s.spawn(move || flow::send_all(sender, (0..10).map(|m| n * 100 + m)));
            }
            let rows = flow::zip_with(receivers, |row: Vec<usize>| row.iter().sum::<usize>());
            let sums: Vec<_> = rows.collect();
            assert_eq!(sums, (0..10).map(|m| 600 + 4 * m).collect::<Vec<_>>());
        });
    });
}

/// - given: one fast channel, one slow
/// - when: a wait for a row is cancelled
/// - then: at most one value of the fast channel is taken ahead, and it is kept for the row
#[test]
fn over_19_zip_lockstep() {
    let many = flow::from_iter(0..100);
    let (sender, one) = channel::unbounded();
    let mut rows = flow::zip_with((&many, &one), |row| row);
    sender.send('a').unwrap();
    assert_eq!(rows.recv(), Ok((0, 'a')));
    let late = ecru::timeout(std::time::Duration::from_millis(1), || rows.recv());
    assert!(late.is_err());
    // One value is held for the next row, and no more.
    assert_eq!(many.len(), 98);
    sender.send('b').unwrap();
    assert_eq!(rows.recv(), Ok((1, 'b')));
}

/// - given: one channel without values, one that ends
/// - when: `zip_with` waits for both
/// - then: it ends
#[test]
fn over_20_zip_ends_with_any() {
    each_run(|| {
        let (_silent, never) = channel::unbounded::<u8>();
        let (sender, ends) = channel::unbounded::<u8>();
        ecru::scope(|s| {
            let rows = s.spawn(|| flow::zip_with((&never, &ends), |row| row).count());
            settle();
            drop(sender);
            assert_eq!(rows.join().unwrap(), 0);
        });
    });
}

/// - given: no channels
/// - when: `zip_with` is called
/// - then: the result has ended
#[test]
fn over_21_zip_of_none() {
    let none = Vec::<channel::Receiver<u8>>::new();
    assert_eq!(flow::zip_with(none, |row| row).recv(), Err(RecvError::Disconnected));
}

/// - given: eight channels of a tuple
/// - when: `zip_with` is called
/// - then: a row of eight
#[test]
fn over_22_zip_of_eight() {
    let one = |n: u32| flow::from_iter([n]);
    let receivers = (one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8));
    let rows = flow::zip_with(receivers, |(a, b, c, d, e, f, g, h)| [a, b, c, d, e, f, g, h]);
    assert_eq!(rows.collect::<Vec<_>>(), [[1, 2, 3, 4, 5, 6, 7, 8]]);
}
