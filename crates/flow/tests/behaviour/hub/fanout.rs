//! `Fanout`: one source, any number of taps.

use crate::common::settle;
use crate::simulated::each_run;
use ecru::channel::{self, RecvError};
use ecru_flow::{self as flow, Fanout};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: two taps
/// - when: a fanout runs
/// - then: both receive everything in order, and end with the source
#[test]
fn hub_12_fanout() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter(0..100));
        let ((left, lefts), (right, rights)) = (channel::bounded(0), channel::bounded(7));
        fanout.tap(left);
        fanout.tap(right);
        ecru::scope(|s| {
            s.spawn(|| fanout.run().unwrap());
            let reader = s.spawn(|| flow::collect(&lefts));
            assert_eq!(flow::collect(&rights), Ok((0..100).collect::<Vec<_>>()));
            assert_eq!(reader.join().unwrap(), Ok((0..100).collect::<Vec<_>>()));
        });
    });
}

/// - given: three taps and one that is closed
/// - when: values are received in any order of the taps
/// - then: no tap gets the second value before all have the first; the closed tap does not count
#[test]
fn hub_13_lockstep() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter(1..=3));
        let taps: Vec<_> = (0..3).map(|_| channel::bounded(0)).collect();
        let (closed, nobody) = channel::bounded(0);
        fanout.tap(closed);
        drop(nobody);
        taps.iter().for_each(|(tap, _)| fanout.tap(tap.clone()));
        ecru::scope(|s| {
            s.spawn(|| fanout.run().unwrap());
            for n in 1..=3 {
                // The taps may be read in any order, because all are offered the value at once.
                let order = [[0, 1, 2], [2, 1, 0], [1, 0, 2]][n - 1];
                for at in order {
                    assert_eq!(taps[at].1.recv(), Ok(n));
                    settle();
                    if at != order[2] {
                        assert!(taps[at].1.try_recv().is_err(), "others have not accepted {n} yet");
                    }
                }
            }
            taps.iter().for_each(|(_, tap)| assert_eq!(tap.recv(), Err(RecvError::Disconnected)));
        });
    });
}

/// - given: no taps
/// - when: a fanout runs
/// - then: all values are dropped, and `run` returns
#[test]
fn hub_14_fanout_without_taps() {
    each_run(|| {
        let source = flow::from_iter(1..=10);
        let fanout = Fanout::new(source.clone());
        fanout.run().unwrap();
        assert!(source.is_empty());
        fanout.run().unwrap();
    });
}

/// - given: a tap that stalls
/// - when: its channel closes
/// - then: the others continue
#[test]
fn hub_15_closed_tap_is_removed() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter(1..=2));
        let ((slow, slowly), (to, heard)) = (channel::bounded(0), channel::unbounded());
        fanout.tap(slow);
        fanout.tap(to);
        ecru::scope(|s| {
            s.spawn(|| fanout.run().unwrap());
            assert_eq!(heard.recv(), Ok(1));
            settle();
            assert!(heard.is_empty());
            drop(slowly);
            assert_eq!(flow::collect(&heard), Ok(vec![2]));
        });
    });
}

/// - given: a fanout whose source has ended
/// - when: a tap is added
/// - then: its channel is closed at once, although it has other senders; a tap added by `tap_open`
///   stays open
#[test]
fn hub_16_late_tap_is_closed() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter([1]));
        let ((early, heard), (open, stays)) = (channel::unbounded(), channel::unbounded());
        fanout.tap(early.clone());
        fanout.tap_open(open.clone());
        fanout.run().unwrap();
        assert_eq!(flow::collect(&heard), Ok(vec![1]));
        assert!(stays.recv() == Ok(1) && !stays.is_closed());
        let (late, nothing) = channel::unbounded::<u32>();
        fanout.tap(late.clone());
        assert_eq!(nothing.recv(), Err(RecvError::Disconnected));
        fanout.tap_open(open.clone());
        assert!(!open.is_closed());
    });
}

/// - given: a tap that stalls; a tap that was added twice
/// - when: `untap` and `untap_all` are called
/// - then: the others continue; the removed tap's channel stays open; the doubled tap got each
///   value once
#[test]
fn hub_17_untap() {
    each_run(|| {
        let (sender, source) = channel::unbounded();
        let fanout = Fanout::new(source);
        let ((slow, slowly), (to, heard)) = (channel::bounded(0), channel::unbounded());
        fanout.tap(slow.clone());
        fanout.tap(to.clone());
        fanout.tap(to);
        ecru::scope(|s| {
            s.spawn(|| fanout.run().unwrap());
            flow::send_all(&sender, [1, 2]).unwrap();
            assert_eq!(heard.recv(), Ok(1));
            settle();
            assert!(heard.is_empty(), "the same tap twice is one tap, and the other one is slow");
            fanout.untap(&slow);
            assert_eq!(heard.recv(), Ok(2));
            assert!(slowly.try_recv().unwrap_err().is_empty());
            fanout.untap_all();
            drop(sender);
        });
        assert!(!slow.is_closed());
        assert!(heard.recv().is_err());
    });
}

/// - given: a value that one tap has received and another has not
/// - when: `run` is cancelled, and called again
/// - then: nothing is lost or sent twice
#[test]
fn hub_18_fanout_cancelled() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter(1..=3));
        let ((slow, slowly), (to, heard)) = (channel::bounded(0), channel::unbounded());
        fanout.tap(slow);
        fanout.tap(to);
        ecru::scope(|s| {
            let run = s.spawn(|| fanout.run());
            assert_eq!(heard.recv(), Ok(1));
            settle();
            run.cancel();
            assert!(run.join().unwrap().is_err());
            s.spawn(|| fanout.run().unwrap());
            assert_eq!(flow::collect(&slowly), Ok(vec![1, 2, 3]));
            assert_eq!(flow::collect(&heard), Ok(vec![2, 3]));
        });
    });
}

/// - given: three taps without a buffer, each read by three tasks that select over all of them
/// - when: a fanout runs
/// - then: every tap receives everything once
#[test]
fn hub_19_readers_that_select() {
    each_run(|| {
        let fanout = Fanout::new(flow::from_iter(0..200));
        let taps: Vec<_> = (0..3).map(|_| channel::bounded(0)).collect();
        taps.iter().for_each(|(tap, _)| fanout.tap(tap.clone()));
        let sums: Vec<_> = taps.iter().map(|_| AtomicUsize::new(0)).collect();
        ecru::scope(|s| {
            s.spawn(|| fanout.run().unwrap());
            // Each task reads the first tap that has something. A reader that is about to be served
            // often leaves for another tap.
            for _ in 0..3 {
                s.spawn(|| {
                    let (a, b, c) = (&taps[0].1, &taps[1].1, &taps[2].1);
                    loop {
                        let (at, value) = ecru::select! {
                            recv(a) -> value => (0, value),
                            recv(b) -> value => (1, value),
                            recv(c) -> value => (2, value),
                        };
                        let Ok(value) = value else { break };
                        sums[at].fetch_add(value, SeqCst);
                    }
                });
            }
        });
        assert_eq!(sums.iter().map(|sum| sum.load(SeqCst)).collect::<Vec<_>>(), [19_900; 3]);
    });
}
