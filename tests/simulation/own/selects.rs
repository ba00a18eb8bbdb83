//! Selects: exactly one arm is taken, and the others lose nothing.

use super::{Ledger, Value, everywhere};
use ecru::channel::{self, Receiver, Sender};
use ecru::select;

fn send_one<'l>(ledger: &'l Ledger, tx: &Sender<Value<'l>>) {
    match tx.send(ledger.make()) {
        Ok(()) => ledger.sent(),
        Err(error) => ledger.returned(error.into_inner()),
    }
}

fn take_rest<'l>(ledger: &'l Ledger, rest: &Receiver<Value<'l>>) {
    while let Ok(value) = rest.try_recv() {
        ledger.taken(value);
    }
}

#[test]
fn receiving_arms_lose_nothing() {
    for capacity in [0, 1] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx1, rx1) = channel::bounded(capacity);
            let (tx2, rx2) = channel::bounded(capacity);
            let rest = [rx1.clone(), rx2.clone()];
            ecru::scope(|s| {
                let ledger = &ledger;
                for tx in [tx1.clone(), tx1, tx2.clone(), tx2] {
                    s.spawn(move || send_one(ledger, &tx));
                }
                for (rx1, rx2) in [(rx1.clone(), rx2.clone()), (rx1, rx2)] {
                    s.spawn(move || {
                        let (mut open1, mut open2) = (true, true);
                        while open1 || open2 {
                            let never = channel::never();
                            let (one, two) = (
                                if open1 { &rx1 } else { &never },
                                if open2 { &rx2 } else { &never },
                            );
                            let (open, got) = select! {
                                recv(one) -> got => (&mut open1, got),
                                recv(two) -> got => (&mut open2, got),
                            };
                            match got {
                                Ok(value) => ledger.taken(value),
                                Err(error) if error.is_cancelled() => return,
                                Err(_) => *open = false,
                            }
                        }
                    });
                }
            });
            rest.iter().for_each(|rest| take_rest(&ledger, rest));
            drop(rest);
            ledger.balance();
        });
    }
}

#[test]
fn sending_arms_send_one_value_each() {
    for capacity in [0, 1] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx1, rx1) = channel::bounded(capacity);
            let (tx2, rx2) = channel::bounded(capacity);
            let rest = [rx1.clone(), rx2.clone()];
            ecru::scope(|s| {
                let ledger = &ledger;
                for (tx1, tx2) in [(tx1.clone(), tx2.clone()), (tx1, tx2)] {
                    s.spawn(move || {
                        for _ in 0..2 {
                            let sent = select! {
                                send(tx1, ledger.make()) -> sent => sent,
                                send(tx2, ledger.make()) -> sent => sent,
                            };
                            match sent {
                                Ok(()) => ledger.sent(),
                                Err(error) => ledger.returned(error.into_inner()),
                            }
                        }
                    });
                }
                for rx in [rx1.clone(), rx1, rx2.clone(), rx2] {
                    s.spawn(move || {
                        while let Ok(value) = rx.recv() {
                            ledger.taken(value);
                        }
                    });
                }
            });
            rest.iter().for_each(|rest| take_rest(&ledger, rest));
            drop(rest);
            ledger.balance();
        });
    }
}

#[test]
fn two_selects_meet_without_a_buffer() {
    everywhere(|| {
        let ledger = Ledger::default();
        let (tx1, rx1) = channel::bounded(0);
        let (tx2, rx2) = channel::bounded::<Value<'_>>(0);
        ecru::scope(|s| {
            let ledger = &ledger;
            // Each of them can send on one channel and receive from the other one.
            for (tx, rx) in [(tx1, rx2), (tx2, rx1)] {
                s.spawn(move || {
                    select! {
                        send(tx, ledger.make()) -> sent => match sent {
                            Ok(()) => ledger.sent(),
                            Err(error) => ledger.returned(error.into_inner()),
                        },
                        recv(rx) -> got => if let Ok(value) = got {
                            ledger.taken(value);
                        },
                    }
                });
            }
        });
        ledger.balance();
    });
}

#[test]
fn a_select_with_a_time_limit_loses_nothing() {
    let ms = std::time::Duration::from_millis;
    for capacity in [0, 1] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            ecru::scope(|s| {
                let ledger = &ledger;
                s.spawn(move || {
                    let _ = ecru::sleep(ms(10));
                    match tx.send_timeout(ledger.make(), ms(5)) {
                        Ok(()) => ledger.sent(),
                        Err(error) => ledger.returned(error.into_inner()),
                    }
                });
                s.spawn(move || {
                    select! {
                        recv(rx) -> got => if let Ok(value) = got {
                            ledger.taken(value);
                        },
                        default(ms(10)) => {}
                    }
                });
            });
            take_rest(&ledger, &rest);
            drop(rest);
            ledger.balance();
        });
    }
}
