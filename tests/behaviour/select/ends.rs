//! Ends that have been dropped, or are dropped meanwhile.

use crate::support::{HOUR, everywhere};
use ecru::channel::{self, RecvError, SendError};
use ecru::{select, select_biased};

/// - given: a channel whose other side has been dropped or is dropped
/// - when: it is selected, thousands of times
/// - then: its arm is taken, with `Disconnected`, and the value is returned
#[test]
fn select_17_ends_that_have_gone_are_ready() {
    everywhere(|side| {
        let (a, from_a) = channel::bounded::<u8>(0);
        let (b, from_b) = channel::bounded::<u8>(1);
        b.send(0).unwrap();
        drop(from_b);
        select! { send(b, 4) -> sent => assert_eq!(sent, Err(SendError::Disconnected(4))) }
        let (got, ()) = side.both(
            || select! { recv(from_a) -> message => message },
            || {
                side.pause();
                drop(a);
            },
        );
        assert_eq!(got, Err(RecvError::Disconnected));
        select! {
            recv(from_a) -> message => assert_eq!(message, Err(RecvError::Disconnected)),
            default => panic!("it is ready"),
        }
        let (c, from_c) = channel::bounded(0);
        let (got, ()) = side.both(
            || select! { send(c, 1) -> sent => sent, default(HOUR) => Ok(()) },
            || {
                side.pause();
                drop(from_c);
            },
        );
        assert_eq!(got, Err(SendError::Disconnected(1)));
    });
}

#[test]
fn select_17_ends_that_have_gone_are_ready_thousands_of_times() {
    everywhere(|_| {
        let (closed, _from_closed) = channel::bounded(0);
        let idle = channel::never::<u8>();
        closed.close();
        for _ in 0..3_000 {
            select_biased! {
                recv(idle) -> _ => panic!("there is nothing"),
                send(closed, 1) -> sent => assert!(sent.unwrap_err().is_disconnected()),
            }
        }
    });
}

/// - given: selects that wait to send and to receive
/// - when: `close` and `close_now` are called
/// - then: all end; send arms have not evaluated a value yet
#[test]
fn select_18_close_wakes_selects_on_both_sides() {
    everywhere(|side| {
        for now in [false, true] {
            let (sender, receiver) = channel::bounded::<u8>(0);
            let (other, from_other) = channel::bounded(1);
            other.send(0).unwrap();
            let (ends, ()) = side.many(
                4,
                |n| match n {
                    0 | 1 => select! { recv(receiver) -> message => message.is_err() },
                    _ => select! { send(other, 1) -> sent => sent.is_err() },
                },
                || {
                    side.pause();
                    if now {
                        sender.close_now();
                        from_other.close_now();
                    } else {
                        receiver.close();
                        other.close();
                    }
                },
            );
            assert_eq!(ends, [true; 4], "those who would send have no value yet");
        }
    });
}
