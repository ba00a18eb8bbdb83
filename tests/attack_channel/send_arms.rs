//! The value of a send arm: evaluated late, not evaluated at all, or returned.

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use ecru::channel::{self, Select, Sender};
use ecru::select;

use crate::{at_once, ms, run_on, settle, text_of};

#[test]
fn a_send_arm_whose_value_panics_gives_back_what_was_reserved() {
    for workers in [1, 2] {
        for capacity in [0, 1] {
            run_on(workers, || {
                let (sender, receiver) = channel::bounded(capacity);
                ecru::scope(|s| {
                    let peer = s.spawn(|| receiver.recv());
                    ecru::sleep(ms(2)).unwrap();
                    let boom = panic::catch_unwind(AssertUnwindSafe(|| {
                        select! {
                            send(sender, if capacity < 9 { panic::resume_unwind(Box::new(1)) } else { 0 }) -> _ => {}
                        }
                    }));
                    assert!(boom.is_err());
                    assert!(!peer.is_finished());
                    sender.send(3).unwrap();
                    assert_eq!(peer.join().unwrap(), Ok(3), "the peer has kept its place");
                });
            });
        }
    }
}

#[test]
fn a_send_arm_whose_value_leaves_gives_back_what_was_reserved() {
    fn question(sender: &Sender<i32>, value: Result<i32, ()>) -> Result<(), ()> {
        select! { send(sender, value?) -> sent => sent.map_err(drop) }
    }
    fn returns(sender: &Sender<i32>, value: Option<i32>) -> &'static str {
        select! {
            send(sender, match value {
                Some(value) => value,
                None => return "returned",
            }) -> _ => "sent",
        }
    }
    run_on(1, || {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            ecru::scope(|s| {
                let first = s.spawn_local(|| receiver.recv());
                settle();
                let second = s.spawn_local(|| receiver.recv());
                settle();
                assert_eq!(question(&sender, Err(())), Err(()));
                assert_eq!(returns(&sender, None), "returned");
                for value in [None, None, Some(0)] {
                    select! {
                        send(sender, match value {
                            None => continue,
                            Some(0) => break,
                            Some(value) => value,
                        }) -> _ => panic!("it was left"),
                    }
                }
                assert_eq!(question(&sender, Ok(1)), Ok(()));
                assert_eq!(first.join().unwrap(), Ok(1), "the first has kept its place");
                sender.send(2).unwrap();
                assert_eq!(second.join().unwrap(), Ok(2));
            });
        }
    });
}

#[test]
fn a_peer_keeps_its_place_though_others_came_meanwhile() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let first = s.spawn_local(|| receiver.recv());
            settle();
            let mut choice = Select::new();
            choice.send(&sender);
            // For the first receiver.
            let selected = choice.select();
            let second = s.spawn_local(|| receiver.recv());
            settle();
            let mut other = Select::new();
            other.send(&sender);
            // For the second.
            let other = other.select();
            // No receiver is left for this one.
            let third = s.spawn_local(|| select! { send(sender, 3) -> sent => sent });
            settle();
            assert!(!third.is_finished());
            drop(selected);
            settle();
            assert_eq!(third.join().unwrap(), Ok(()));
            assert_eq!(first.join().unwrap(), Ok(3), "it came first");
            other.send(&sender, 4).unwrap();
            assert_eq!(second.join().unwrap(), Ok(4));
        });
    });
}

#[test]
fn a_value_is_made_only_when_its_arm_is_taken_and_may_wait() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        let (other, from_other) = channel::bounded(0);
        let made = AtomicUsize::new(0);
        ecru::scope(|s| {
            let waiting = s.spawn_local(|| {
                select! {
                    send(sender, {
                        made.fetch_add(1, SeqCst);
                        from_other.recv().unwrap()
                    }) -> sent => sent,
                }
            });
            settle();
            assert_eq!(made.load(SeqCst), 0);
            let peer = s.spawn_local(|| receiver.recv());
            settle();
            assert_eq!(made.load(SeqCst), 1);
            assert!(!peer.is_finished());
            // Another sender's value does not go to the reserved peer.
            assert!(sender.try_send(9).is_err());
            other.send(5).unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(()));
            assert_eq!(peer.join().unwrap(), Ok(5));
            assert_eq!(made.load(SeqCst), 1);
        });
    });
}

#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn a_forgotten_selected_operation_breaks_nothing() {
    at_once(1, |_| {
        let (sender, receiver) = channel::bounded(2);
        let mut choice = Select::new();
        choice.send(&sender);
        mem::forget(choice.select());
        // One place is lost, and the other works.
        sender.send(1).unwrap();
        assert!(sender.try_send(2).unwrap_err().is_full());
        assert_eq!(receiver.recv(), Ok(1));
        sender.send(3).unwrap();
        let mut choice = Select::new();
        choice.recv(&receiver);
        mem::forget(choice.select());
        assert!(receiver.try_recv().is_err());
        receiver.close_now();
        assert!(receiver.recv().unwrap_err().is_disconnected());
    });
}

#[test]
fn a_selected_send_under_no_suspend_is_refused_where_it_would_have_to_wait() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let reading = s.spawn_local(|| receiver.recv());
            settle();
            let mut choice = Select::new();
            choice.send(&sender);
            let selected = choice.select();
            reading.cancel();
            settle();
            let tried = panic::catch_unwind(AssertUnwindSafe(|| {
                ecru::no_suspend(|| selected.send(&sender, ()))
            }));
            let payload = tried.unwrap_err();
            assert!(text_of(&*payload).contains("no_suspend"), "{}", text_of(&*payload));
        });
    });
}

#[test]
fn a_send_with_a_default_under_no_suspend_never_waits() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let reading = s.spawn_local(|| receiver.recv());
            settle();
            let sent = ecru::no_suspend(|| {
                select! {
                    send(sender, reading.cancel()) -> sent => sent.is_ok(),
                    default => false,
                }
            });
            assert!(sent);
            assert!(reading.join().unwrap().unwrap_err().is_cancelled());
            assert_eq!(receiver.try_recv(), Ok(()));
        });
    });
}

#[test]
fn a_value_given_back_to_a_sliding_channel_is_its_oldest() {
    at_once(1, |_| {
        let (sender, receiver) = channel::sliding(1);
        sender.send(1).unwrap();
        let mut choice = Select::new();
        choice.recv(&receiver);
        let selected = choice.select();
        sender.send(2).unwrap();
        drop(selected);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
    });
}
