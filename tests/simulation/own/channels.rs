//! Channels: no value is lost, and none comes twice.

use super::{Ledger, Value, everywhere};
use ecru::channel::{self, Receiver, Sender};

type Ends<'l> = (Sender<Value<'l>>, Receiver<Value<'l>>);

fn send_two<'l>(ledger: &'l Ledger, tx: &Sender<Value<'l>>) {
    for _ in 0..2 {
        match tx.send(ledger.make()) {
            Ok(()) => ledger.sent(),
            Err(error) => ledger.returned(error.into_inner()),
        }
    }
}

/// Two senders and two receivers. If one of them is cancelled, the others carry on.
fn many_to_many<'l>(ledger: &'l Ledger, (tx, rx): Ends<'l>) {
    let rest = rx.clone();
    ecru::scope(|s| {
        for tx in [tx.clone(), tx] {
            s.spawn(move || send_two(ledger, &tx));
        }
        for rx in [rx.clone(), rx] {
            s.spawn(move || {
                while let Ok(value) = rx.recv() {
                    ledger.taken(value);
                }
            });
        }
    });
    while let Ok(value) = rest.try_recv() {
        ledger.taken(value);
    }
}

#[test]
fn a_rendezvous_loses_nothing() {
    everywhere(|| {
        let ledger = Ledger::default();
        many_to_many(&ledger, channel::bounded(0));
        ledger.balance();
    });
}

#[test]
fn a_bounded_channel_loses_nothing() {
    everywhere(|| {
        let ledger = Ledger::default();
        many_to_many(&ledger, channel::bounded(1));
        ledger.balance();
    });
}

#[test]
fn an_unbounded_channel_loses_nothing() {
    everywhere(|| {
        let ledger = Ledger::default();
        many_to_many(&ledger, channel::unbounded());
        ledger.balance();
    });
}

/// The last receiver goes while values are sent.
fn abandoned<'l>(ledger: &'l Ledger, (tx, rx): Ends<'l>) {
    ecru::scope(|s| {
        for tx in [tx.clone(), tx] {
            s.spawn(move || send_two(ledger, &tx));
        }
        s.spawn(move || {
            if let Ok(value) = rx.recv() {
                ledger.taken(value);
            }
        });
    });
}

#[test]
fn what_nobody_takes_is_dropped_or_returned() {
    for capacity in [0, 1, 2] {
        everywhere(move || {
            let ledger = Ledger::default();
            abandoned(&ledger, channel::bounded(capacity));
            let [made, alive, sent, returned, taken] = ledger.count();
            assert_eq!((made, alive), (sent + returned, 0));
            assert!(taken <= sent && sent <= taken + capacity as u64, "{sent} sent, {taken} taken");
        });
    }
}

#[test]
fn a_closed_channel_delivers_what_was_sent() {
    for capacity in [0, 1, 3] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            ecru::scope(|s| {
                let (closes, ledger) = (tx.clone(), &ledger);
                for tx in [tx.clone(), tx] {
                    s.spawn(move || send_two(ledger, &tx));
                }
                s.spawn(move || {
                    let _ = ecru::yield_now();
                    closes.close();
                });
                for rx in [rx.clone(), rx] {
                    s.spawn(move || {
                        while let Ok(value) = rx.recv() {
                            ledger.taken(value);
                        }
                    });
                }
            });
            while let Ok(value) = rest.try_recv() {
                ledger.taken(value);
            }
            ledger.balance();
        });
    }
}

#[test]
fn a_channel_that_is_closed_now_keeps_nothing() {
    for capacity in [0, 1, 3] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx, rx) = channel::bounded(capacity);
            ecru::scope(|s| {
                let (closes, ledger) = (rx.clone(), &ledger);
                for tx in [tx.clone(), tx] {
                    s.spawn(move || send_two(ledger, &tx));
                }
                s.spawn(move || {
                    let _ = ecru::yield_now();
                    closes.close_now();
                });
                for rx in [rx.clone(), rx] {
                    s.spawn(move || {
                        while let Ok(value) = rx.recv() {
                            ledger.taken(value);
                        }
                    });
                }
            });
            let [made, alive, sent, returned, taken] = ledger.count();
            assert_eq!((made, alive), (sent + returned, 0));
            assert!(taken <= sent, "{sent} sent, {taken} taken");
        });
    }
}

#[test]
fn each_senders_values_keep_their_order() {
    for capacity in [0, 1, 2] {
        everywhere(move || {
            let (tx, rx) = channel::bounded(capacity);
            ecru::scope(|s| {
                for (sender, tx) in [tx.clone(), tx].into_iter().enumerate() {
                    s.spawn(move || {
                        for number in 0..3 {
                            if tx.send((sender, number)).is_err() {
                                return;
                            }
                        }
                    });
                }
                s.spawn(move || {
                    let mut next = [0, 0];
                    while let Ok((sender, number)) = rx.recv() {
                        assert_eq!(number, next[sender]);
                        next[sender] += 1;
                    }
                });
            });
        });
    }
}

#[test]
fn a_oneshot_has_one_value() {
    everywhere(|| {
        let ledger = Ledger::default();
        let (tx, rx) = channel::oneshot();
        let rest = rx.clone();
        ecru::scope(|s| {
            let ledger = &ledger;
            s.spawn(move || match tx.send(ledger.make()) {
                Ok(()) => ledger.sent(),
                Err(error) => ledger.returned(error.into_inner()),
            });
            s.spawn(move || {
                if let Ok(value) = rx.recv() {
                    ledger.taken(value);
                }
            });
        });
        if let Ok(value) = rest.try_recv() {
            ledger.taken(value);
        }
        drop(rest);
        ledger.balance();
    });
}

#[test]
fn full_channels_drop_the_newest_or_the_oldest() {
    everywhere(|| {
        for (kind, makes) in
            [("dropping", channel::dropping as fn(usize) -> _), ("sliding", channel::sliding)]
        {
            let (tx, rx): (Sender<u32>, Receiver<u32>) = makes(2);
            let rest = rx.clone();
            let got = ecru::scope(|s| {
                s.spawn(move || {
                    for number in 0..5 {
                        // A full channel of these kinds takes the value all the same.
                        if tx.send(number).is_err() {
                            return;
                        }
                    }
                });
                let got = s.spawn(move || rx.iter().collect::<Vec<u32>>());
                got.join()
            });
            let mut got = got.unwrap_or_default();
            got.extend(rest.try_iter());
            assert!(
                got.is_sorted() && got.windows(2).all(|pair| pair[0] < pair[1]),
                "{kind}: {got:?}"
            );
        }
    });
}
