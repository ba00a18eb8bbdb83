//! Sources: races, filters, callbacks and futures lose nothing.

use super::{Ledger, Value, everywhere};
use ecru::channel::{self, Receiver};
use ecru::{Source, source};
use std::time::Duration;

fn take_rest<'l>(ledger: &'l Ledger, rest: &Receiver<Value<'l>>) {
    while let Ok(value) = rest.try_recv() {
        ledger.taken(value);
    }
}

/// Three senders, and receivers that wait in the given ways.
macro_rules! each_value_is_taken_by {
    ($test:ident, |$one:ident, $two:ident| $wait:expr) => {
        #[test]
        fn $test() {
            for capacity in [0, 1] {
                everywhere(move || {
                    let ledger = Ledger::default();
                    let (tx1, rx1) = channel::bounded(capacity);
                    let (tx2, rx2) = channel::bounded(capacity);
                    let rest = [rx1.clone(), rx2.clone()];
                    ecru::scope(|s| {
                        let ledger = &ledger;
                        for tx in [tx1.clone(), tx1, tx2.clone(), tx2] {
                            s.spawn(move || match tx.send(ledger.make()) {
                                Ok(()) => ledger.sent(),
                                Err(error) => ledger.returned(error.into_inner()),
                            });
                        }
                        for ($one, $two) in [(rx1.clone(), rx2.clone()), (rx1, rx2)] {
                            s.spawn(move || {
                                let ($one, $two) = (&$one, &$two);
                                // A sender that is cancelled sends nothing, so a receiver waits for
                                // the end of one channel, and then reads the other one.
                                while let Ok(Ok(value)) = $wait {
                                    ledger.taken(value);
                                }
                                for rest in [$one, $two] {
                                    while let Ok(value) = rest.recv() {
                                        ledger.taken(value);
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
    };
}

each_value_is_taken_by!(races_lose_nothing, |one, two| source::race([one, two]).wait());
each_value_is_taken_by!(an_or_loses_nothing, |one, two| one.or(two).wait());
each_value_is_taken_by!(maps_lose_nothing, |one, two| one.map(|got| got).or(two).wait());
each_value_is_taken_by!(filters_lose_nothing, |one, two| one.filter(|_| true).or(two).wait());

#[test]
fn futures_lose_nothing() {
    for capacity in [0, 1] {
        everywhere(move || {
            let ledger = Ledger::default();
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            ecru::scope(|s| {
                let ledger = &ledger;
                for tx in [tx.clone(), tx] {
                    s.spawn(move || match tx.send(ledger.make()) {
                        Ok(()) => ledger.sent(),
                        Err(error) => ledger.returned(error.into_inner()),
                    });
                }
                for rx in [rx.clone(), rx] {
                    s.spawn(move || {
                        while let Ok(Ok(value)) = ecru::block_on((&rx).to_future()) {
                            ledger.taken(value);
                        }
                    });
                }
            });
            take_rest(&ledger, &rest);
            drop(rest);
            ledger.balance();
        });
    }
}

#[test]
fn a_refused_value_stays_for_the_next_receiver() {
    for capacity in [0, 1] {
        everywhere(move || {
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            let second = Duration::from_secs(1);
            let got = ecru::scope(|s| {
                // If one of them is cancelled, its value stays, and keeps the other one waiting.
                let receive = move |rx: Receiver<u32>, rest| {
                    move || {
                        let wait = || rx.filter(move |number| number % 2 == rest).wait();
                        ecru::timeout(second, wait).ok()?.ok()?.ok()
                    }
                };
                let tasks = [s.spawn(receive(rx.clone(), 1)), s.spawn(receive(rx, 0))];
                s.spawn(move || {
                    for number in [1, 2] {
                        if tx.send_timeout(number, second).is_err() {
                            return;
                        }
                    }
                });
                tasks.map(|task| ecru::shield(|| task.join()).ok().flatten())
            });
            let mut all: Vec<u32> = got.into_iter().flatten().chain(rest.try_iter()).collect();
            all.sort_unstable();
            assert!(
                got[0].is_none_or(|number| number % 2 == 1)
                    && got[1].is_none_or(|number| number % 2 == 0)
            );
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "a value came twice: {all:?}");
        });
    }
}
