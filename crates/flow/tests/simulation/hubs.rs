//! Hubs: each value reaches each reader once, in order, and a cancelled `run` loses nothing.

use super::{Seen, everywhere, lock};
use ecru::Cancelled;
use ecru::channel::{self, Receiver, Sender};
use ecru_flow::{Closed, Fanout, Mixer, Multiplexer, PubSub};
use std::sync::{Arc, Mutex};

/// Runs a hub to its end. If the run is cancelled, another one continues.
fn run_to_the_end(run: impl Fn() -> Result<(), Cancelled>) {
    if run().is_err() {
        ecru::shield(run).expect("a shielded run is not cancelled");
    }
}

/// Calls a function when it is dropped.
struct AtTheEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Sends 0, 1 and so on, and counts them.
fn count_to(end: u32, tx: &Sender<u32>, sent: &Mutex<u32>) {
    for number in 0..end {
        if tx.send(number).is_err() {
            return;
        }
        *lock(sent) += 1;
    }
}

#[test]
fn a_fanout_tells_each_tap_everything_slow() {
    for capacity in [0, 1] {
        everywhere(move || {
            let (tx, source) = channel::bounded(capacity);
            let fanout = Fanout::new(source);
            let taps: Vec<Receiver<u32>> = (0..2)
                .map(|_| {
                    let (tap, heard) = channel::bounded(capacity);
                    fanout.tap(tap);
                    heard
                })
                .collect();
            let sent = Mutex::new(0);
            let heard: Vec<Option<(Vec<u32>, bool)>> = ecru::scope(|s| {
                let (sent, fanout) = (&sent, &fanout);
                s.spawn(move || count_to(3, &tx, sent));
                let hub = s.spawn(move || run_to_the_end(|| fanout.run()));
                let readers: Vec<_> = taps
                    .into_iter()
                    .map(|heard| s.spawn(move || (heard.iter().collect(), ecru::is_cancelled())))
                    .collect();
                if ecru::shield(|| hub.join()).is_err() {
                    ecru::shield(|| run_to_the_end(|| fanout.run()));
                }
                readers.iter().map(|reader| ecru::shield(|| reader.join()).ok()).collect()
            });
            let all = Vec::from_iter(0..sent.into_inner().unwrap());
            for (heard, was_cancelled) in heard.into_iter().flatten() {
                assert!(heard == all || was_cancelled && all.starts_with(&heard), "{heard:?}");
            }
        });
    }
}

#[test]
fn a_multiplexer_tells_all_the_same_slow() {
    everywhere(|| {
        let all = Multiplexer::new();
        let mut readers = Vec::new();
        for _ in 0..2 {
            let (to, heard) = channel::bounded(0);
            all.add_subscriber(to).unwrap();
            readers.push(heard);
        }
        let seen = Seen::default();
        let heard: Vec<Option<(Vec<u32>, bool)>> = ecru::scope(|s| {
            let (all, seen) = (&all, &seen);
            // A rendezvous has no place for a value, so the hub has everything when they have gone.
            let closes = Arc::new(AtTheEnd(move || all.close()));
            for first in [0, 10] {
                let (tx, publisher) = channel::bounded(0);
                all.add_publisher(publisher).unwrap();
                let closes = Arc::clone(&closes);
                s.spawn(move || {
                    seen.send(&tx, first..first + 2);
                    drop(closes);
                });
            }
            drop(closes);
            let hub = s.spawn(move || run_to_the_end(|| all.run()));
            let readers: Vec<_> = readers
                .into_iter()
                .map(|heard| {
                    s.spawn(move || {
                        let mut got = Vec::new();
                        for value in &heard {
                            match value {
                                Ok(number) => got.push(number),
                                Err(Closed) => return (got, false),
                            }
                        }
                        (got, true)
                    })
                })
                .collect();
            if ecru::shield(|| hub.join()).is_err() {
                ecru::shield(|| run_to_the_end(|| all.run()));
            }
            readers.iter().map(|reader| ecru::shield(|| reader.join()).ok()).collect()
        });
        let sent = lock(&seen.sent).clone();
        let mut whole: Option<Vec<u32>> = None;
        for (heard, was_cancelled) in heard.into_iter().flatten() {
            if was_cancelled {
                continue;
            }
            assert_eq!(heard.len(), sent.len(), "{heard:?}");
            assert!(heard.iter().all(|number| sent.contains(number)), "{heard:?}");
            assert_eq!(*whole.get_or_insert_with(|| heard.clone()), heard);
        }
    });
}

#[test]
fn a_mixer_loses_nothing_slow() {
    everywhere(|| {
        let seen = Seen::default();
        let (out, heard) = channel::bounded(0);
        let mixer = Mixer::new(out.clone());
        ecru::scope(|s| {
            let (mixer, seen) = (&mixer, &seen);
            let closes = Arc::new(AtTheEnd(move || mixer.close()));
            for first in [0, 10] {
                let (tx, input) = channel::bounded(0);
                mixer.add(input);
                let closes = Arc::clone(&closes);
                s.spawn(move || {
                    seen.send(&tx, first..first + 2);
                    drop(closes);
                });
            }
            drop(closes);
            let hub = s.spawn(move || run_to_the_end(|| mixer.run()));
            for heard in [heard.clone(), heard] {
                s.spawn(move || heard.iter().for_each(|number| seen.take(number)));
            }
            if ecru::shield(|| hub.join()).is_err() {
                ecru::shield(|| run_to_the_end(|| mixer.run()));
            }
            out.close();
        });
        let (sent, taken) = (lock(&seen.sent).clone(), lock(&seen.taken).clone());
        // What is pending for an output without readers is dropped.
        assert!(taken.is_subset(&sent), "{taken:?} of {sent:?}");
        if !ecru::is_cancelled() {
            assert_eq!(taken, sent);
        }
    });
}

#[test]
fn topics_get_each_value_once_slow() {
    for buffer in [0, 1] {
        everywhere(move || {
            let (tx, source) = channel::bounded(0);
            let news = PubSub::with_buffers(source, |n: &u32| n % 2, |_| buffer);
            let subscriptions = [0, 0, 1].map(|topic| (topic, news.subscribe(topic)));
            let sent = Mutex::new(0);
            let heard = ecru::scope(|s| {
                let (sent, news) = (&sent, &news);
                s.spawn(move || count_to(4, &tx, sent));
                let hub = s.spawn(move || run_to_the_end(|| news.run()));
                let readers = subscriptions.map(|(topic, heard)| {
                    s.spawn(move || {
                        (topic, heard.iter().collect::<Vec<u32>>(), ecru::is_cancelled())
                    })
                });
                if ecru::shield(|| hub.join()).is_err() {
                    ecru::shield(|| run_to_the_end(|| news.run()));
                }
                readers.map(|reader| ecru::shield(|| reader.join()).ok())
            });
            let sent = sent.into_inner().unwrap();
            for (topic, heard, was_cancelled) in heard.into_iter().flatten() {
                let all: Vec<u32> = (0..sent).filter(|n| n % 2 == topic).collect();
                assert!(heard == all || was_cancelled && all.starts_with(&heard), "{heard:?}");
            }
        });
    }
}
