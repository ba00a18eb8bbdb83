//! `Mixer`: any number of inputs, some of them muted, paused or solo.

use crate::common::{settle, until};
use crate::simulated::{each_run, run_on};
use ecru::channel;
use ecru_flow::{self as flow, Mixer, SoloMode, Toggle};

fn sorted(mut values: Vec<u32>) -> Vec<u32> {
    values.sort_unstable();
    values
}

/// - given: two inputs
/// - when: a mixer runs
/// - then: its output receives everything from both
#[test]
fn hub_20_mixer() {
    each_run(|| {
        let (out, heard) = channel::bounded(0);
        let mixer = Mixer::new(out);
        mixer.add(flow::from_iter(0..50));
        mixer.add(flow::from_iter(50..100));
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            let all = sorted(flow::take(&heard, 100).collect());
            assert_eq!(all, (0..100).collect::<Vec<_>>());
            mixer.close();
        });
    });
}

/// - given: a muted, a paused and a plain input
/// - when: a mixer runs
/// - then: the muted input is read and its values dropped, the paused one is not read, and the
///   plain one is passed on
#[test]
fn hub_21_mute_and_pause() {
    each_run(|| {
        let (out, heard) = channel::unbounded();
        let mixer = Mixer::new(out);
        let (muted, paused, plain) =
            (flow::from_iter([1, 2]), flow::from_iter([3, 4]), flow::from_iter([5, 6]));
        mixer.mute(&muted, true);
        mixer.pause(&paused, true);
        mixer.add(plain);
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            assert_eq!((heard.recv(), heard.recv()), (Ok(5), Ok(6)));
            until(|| muted.is_empty());
            settle();
            assert!(heard.is_empty() && paused.len() == 2);
            mixer.pause(&paused, false);
            assert_eq!((heard.recv(), heard.recv()), (Ok(3), Ok(4)));
            mixer.close();
        });
    });
}

/// - given: a soloed input that is also muted and paused, and another input
/// - when: a mixer runs in either solo mode
/// - then: the soloed input is passed on; the other is dropped, or not read until the solo ends
#[test]
fn hub_22_solo() {
    each_run(|| {
        for mode in [SoloMode::Mute, SoloMode::Pause] {
            let (out, heard) = channel::unbounded();
            let mixer = Mixer::new(out);
            let (sender, soloed) = channel::unbounded();
            let other = flow::from_iter([10, 11]);
            let solo = Toggle { mute: Some(true), pause: Some(true), solo: Some(true) };
            mixer.solo_mode(mode);
            mixer.add(other.clone());
            // Its other switches have no effect while it is soloed.
            mixer.toggle([(&soloed, solo)]);
            sender.send(1).unwrap();
            ecru::scope(|s| {
                s.spawn(|| mixer.run().unwrap());
                assert_eq!(heard.recv(), Ok(1));
                if mode == SoloMode::Mute {
                    until(|| other.is_empty());
                    settle();
                    assert!(heard.is_empty());
                } else {
                    settle();
                    assert_eq!(other.len(), 2);
                    mixer.solo(&soloed, false);
                    assert_eq!((heard.recv(), heard.recv()), (Ok(10), Ok(11)));
                    // Now they have an effect again.
                    sender.send(2).unwrap();
                    settle();
                    assert_eq!(soloed.len(), 1);
                }
                mixer.close();
            });
        }
    });
}

/// - given: a soloed input and another
/// - when: the soloed one ends
/// - then: the other input is passed on
#[test]
fn hub_23_solo_ends() {
    each_run(|| {
        let (out, heard) = channel::unbounded();
        let mixer = Mixer::new(out);
        let other = flow::from_iter([10]);
        mixer.solo_mode(SoloMode::Pause);
        mixer.add(other);
        mixer.solo(flow::from_iter([1]), true);
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            // The soloed input ends, so the other one is passed on.
            assert_eq!((heard.recv(), heard.recv()), (Ok(1), Ok(10)));
            mixer.close();
        });
    });
}

/// - given: two inputs, one of which is passed on
/// - when: both are toggled by one call
/// - then: except for values already on their way, only the new one is passed on
#[test]
fn hub_24_toggles_are_atomic() {
    each_run(|| {
        let (out, heard) = channel::bounded(0);
        let mixer = Mixer::new(out);
        let inputs: Vec<_> = (0..2).map(|id| flow::from_iter((0..100).map(move |_| id))).collect();
        let one_plays = |on: usize| {
            (inputs.iter().enumerate()).map(move |(id, input)| {
                (input, Toggle { pause: Some(id != on), ..Toggle::default() })
            })
        };
        mixer.toggle(one_plays(0));
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            let mut on = 0;
            for _ in 0..20 {
                assert_eq!(heard.recv(), Ok(on));
                on = 1 - on;
                mixer.toggle(one_plays(on));
                // One value may still be on its way. After it only the other input is passed on.
                let next = heard.recv().unwrap();
                assert!(next == on || heard.recv() == Ok(on));
            }
            // A value that is never received may be on its way.
            drop(heard);
        });
    });
}

/// - given: switches of an unknown input, one after another
/// - when: `toggle` is called
/// - then: the input is added; each change leaves its other switches alone; `remove` ends the
///   reading
#[test]
fn hub_25_toggles_merge() {
    each_run(|| {
        let (out, heard) = channel::unbounded();
        let mixer = Mixer::new(out);
        let (sender, input) = channel::unbounded();
        let mute = |mute| Toggle { mute: Some(mute), ..Toggle::default() };
        let pause = |pause| Toggle { pause: Some(pause), ..Toggle::default() };
        // The first change adds the input, and the second leaves the first in force.
        mixer.toggle([(&input, mute(true))]);
        mixer.toggle([(&input, pause(true))]);
        sender.send(1).unwrap();
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            settle();
            assert_eq!(input.len(), 1);
            mixer.toggle([(&input, pause(false))]);
            until(|| input.is_empty());
            mixer.toggle([(&input, mute(false))]);
            settle();
            sender.send(2).unwrap();
            assert_eq!(heard.recv(), Ok(2));
            mixer.remove(&input);
            settle();
            sender.send(3).unwrap();
            settle();
            assert_eq!(input.len(), 1);
            mixer.close();
        });
        assert!(heard.is_empty());
    });
}

/// - given: 2,500 inputs
/// - when: a mixer runs
/// - then: each is passed on
#[test]
fn hub_26_many_inputs() {
    run_on(1, || {
        let (out, heard) = channel::bounded(64);
        let mixer = Mixer::new(out);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..2500).map(|_| channel::unbounded()).unzip();
        receivers.into_iter().for_each(|input| mixer.add(input));
        ecru::scope(|s| {
            s.spawn(|| mixer.run().unwrap());
            settle();
            // Some end while it waits, and the others all at once.
            for n in [0, 1000, 2499] {
                senders[n].send(n).unwrap();
                assert_eq!(heard.recv(), Ok(n));
            }
            mixer.close();
        });
    });
}

/// - given: a running mixer
/// - when: its output closes
/// - then: `run` returns, and reads no more; the mixer itself closes no output
#[test]
fn hub_27_mixer_output_closes() {
    each_run(|| {
        let (out, heard) = channel::bounded(0);
        let mixer = Mixer::new(out.clone());
        let (sender, input) = channel::unbounded();
        mixer.add(input.clone());
        flow::send_all(&sender, [1, 2, 3]).unwrap();
        ecru::scope(|s| {
            let run = s.spawn(|| mixer.run());
            assert_eq!(heard.recv(), Ok(1));
            drop(heard);
            assert_eq!(run.join().unwrap(), Ok(()));
        });
        assert_eq!(input.recv(), Ok(3));
        // The mixer does not close its output itself.
        let (out, _heard) = channel::unbounded::<u32>();
        let mixer = Mixer::new(out.clone());
        mixer.close();
        mixer.run().unwrap();
        assert!(!out.is_closed());
    });
}
