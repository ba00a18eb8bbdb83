//! Views: what is not read stays in its channel, and what was read stays in the view.

use super::{Seen, everywhere};
use ecru::channel::{self, RecvError};
use ecru_flow::Transform;

#[test]
fn a_merge_loses_nothing_slow() {
    for capacity in [0, 1] {
        everywhere(move || {
            let seen = Seen::default();
            let (tx1, rx1) = channel::bounded(capacity);
            let (tx2, rx2) = channel::bounded(capacity);
            let both = ecru_flow::merge([&rx1, &rx2]);
            let rests = [rx1, rx2];
            ecru::scope(|s| {
                let (seen, both) = (&seen, &both);
                s.spawn(move || seen.send(&tx1, 0..3));
                s.spawn(move || seen.send(&tx2, 10..13));
                for _ in 0..2 {
                    s.spawn(move || both.iter().for_each(|number| seen.take(number)));
                }
            });
            rests.iter().for_each(|rest| seen.take_rest(rest));
            seen.balance();
        });
    }
}

#[test]
fn a_take_receives_no_value_too_many_slow() {
    for capacity in [0, 3] {
        everywhere(move || {
            let seen = Seen::default();
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            ecru::scope(|s| {
                let seen = &seen;
                s.spawn(move || seen.send(&tx, 0..4));
                let taker = s.spawn(move || {
                    let mut taken = 0;
                    for number in ecru_flow::take(rx, 2) {
                        seen.take(number);
                        taken += 1;
                    }
                    taken
                });
                let taken = ecru::shield(|| taker.join()).unwrap_or(0);
                assert!(taken <= 2);
                ecru::shield(|| rest.iter().for_each(|number| seen.take(number)));
            });
            seen.balance();
        });
    }
}

/// A cancelled call keeps what it has received for the row. So the rows go on where they stopped.
#[test]
fn rows_stay_whole_slow() {
    for capacity in [0, 1] {
        everywhere(move || {
            let (tx1, rx1) = channel::bounded(capacity);
            let (tx2, rx2) = channel::bounded(capacity);
            let (sent, rows) = ecru::scope(|s| {
                let senders = [tx1, tx2].map(|tx| {
                    s.spawn(move || (0..3_u32).take_while(|n| tx.send(*n).is_ok()).count())
                });
                let zipper = s.spawn(move || {
                    let mut rows = Vec::new();
                    let mut both = ecru_flow::zip_with((rx1, rx2), |row: (u32, u32)| row);
                    loop {
                        match both.recv() {
                            Ok(row) => rows.push(row),
                            Err(RecvError::Disconnected) => return rows,
                            Err(RecvError::Cancelled) => {
                                rows.extend(ecru::shield(|| both.by_ref().collect::<Vec<_>>()));
                                return rows;
                            }
                        }
                    }
                });
                let rows = ecru::shield(|| zipper.join()).ok();
                (senders.map(|sender| ecru::shield(|| sender.join()).unwrap_or(0)), rows)
            });
            // If it never began, there are no rows.
            let Some(rows) = rows else { return };
            let least = sent[0].min(sent[1]) as u32;
            assert_eq!(rows, Vec::from_iter((0..least).map(|n| (n, n))));
        });
    }
}

/// The transform has seen a value if and only if its send has succeeded.
#[test]
fn a_transformed_channel_loses_nothing_slow() {
    everywhere(|| {
        let seen = Seen::default();
        let (tx, rx) = ecru_flow::transformed(1, ecru_flow::transform::values().map(|n: u32| n));
        let rest = rx.clone();
        ecru::scope(|s| {
            let seen = &seen;
            for (sender, tx) in [tx.clone(), tx].into_iter().enumerate() {
                s.spawn(move || {
                    for number in 10 * sender as u32..10 * sender as u32 + 2 {
                        if tx.send(number).is_err() {
                            return;
                        }
                        super::lock(&seen.sent).insert(number);
                    }
                });
            }
            for rx in [rx.clone(), rx] {
                s.spawn(move || rx.iter().for_each(|number| seen.take(number)));
            }
        });
        seen.take_rest(&rest);
        seen.balance();
    });
}

/// The last chunk comes when the last sender has gone, even if it was cancelled.
#[test]
fn chunks_lose_nothing_slow() {
    everywhere(|| {
        let seen = Seen::default();
        let (tx, rx) = ecru_flow::transformed(1, ecru_flow::transform::values().chunks(2));
        ecru::scope(|s| {
            let seen = &seen;
            for (sender, tx) in [tx.clone(), tx].into_iter().enumerate() {
                s.spawn(move || {
                    for number in 10 * sender as u32..10 * sender as u32 + 2 {
                        if tx.send(number).is_err() {
                            return;
                        }
                        super::lock(&seen.sent).insert(number);
                    }
                });
            }
            ecru::shield(|| {
                for chunk in &rx {
                    chunk.into_iter().for_each(|number| seen.take(number));
                }
            });
        });
        seen.balance();
    });
}
