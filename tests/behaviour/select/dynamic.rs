//! `Select`, whose operations are listed at run time.

use std::sync::Mutex;

use crate::support::{HOUR, everywhere, ms, now, panic_text, run_on};
use ecru::channel::{
    self, ReadyTimeoutError, RecvError, Select, SelectTimeoutError, SendError, TryReadyError,
    TryRecvError, TrySelectError,
};

/// - given: `Select`
/// - when: `select`, `try_select`, `select_timeout` and `select_deadline` are called
/// - then: they act as the macro, and return the operation's index
#[test]
fn select_19_the_dynamic_one_selects_sends_and_receives() {
    everywhere(|side| {
        let (a, from_a) = channel::bounded::<u32>(0);
        let (b, from_b) = channel::bounded::<&str>(1);
        let mut choice = Select::new();
        let (recv_a, send_b) = (choice.recv(&from_a), choice.send(&b));
        assert_eq!((recv_a, send_b), (0, 1));
        let selected = choice.select();
        assert_eq!(selected.index(), send_b);
        selected.send(&b, "text").unwrap();
        assert_eq!(choice.try_select().err(), Some(TrySelectError));
        assert_eq!(choice.select_timeout(ms(1)).err(), Some(SelectTimeoutError));
        let past = now();
        assert_eq!(choice.select_deadline(past).err(), Some(SelectTimeoutError));
        let ((), got) = side.both(
            || {
                side.pause();
                a.send(7).unwrap();
            },
            || {
                let selected = choice.select_timeout(HOUR).unwrap();
                assert_eq!(selected.index(), recv_a);
                selected.recv(&from_a)
            },
        );
        assert_eq!(got, Ok(7));
        assert_eq!(from_b.recv(), Ok("text"));
        drop(from_b);
        let selected = choice.try_select().unwrap();
        assert_eq!(selected.send(&b, "late"), Err(SendError::Disconnected("late")));
        drop(a);
        choice.remove(send_b);
        let selected = choice.select();
        assert_eq!(selected.recv(&from_a), Err(RecvError::Disconnected));
    });
}

/// - given: `Select`
/// - when: `ready`, `try_ready`, `ready_timeout` and `ready_deadline` are called
/// - then: the index of an operation that is ready; it has not been done
#[test]
fn select_20_ready_says_what_could_be_done_and_does_it_not() {
    everywhere(|side| {
        let (a, from_a) = channel::bounded(1);
        let (b, from_b) = channel::bounded(0);
        let mut choice = Select::new();
        let (recv_a, recv_b) = (choice.recv(&from_a), choice.recv(&from_b));
        assert_eq!(choice.try_ready(), Err(TryReadyError));
        assert_eq!(choice.ready_timeout(ms(1)), Err(ReadyTimeoutError));
        assert_eq!(choice.ready_deadline(now()), Err(ReadyTimeoutError));
        a.send(1).unwrap();
        assert_eq!(choice.ready(), recv_a);
        assert_eq!(choice.try_ready(), Ok(recv_a));
        assert_eq!(from_a.try_recv(), Ok(1));
        let ((), index) = side.both(
            || {
                side.pause();
                b.send(2).unwrap();
            },
            || {
                let index = choice.ready();
                assert_eq!(from_b.try_recv(), Ok(2));
                index
            },
        );
        assert_eq!(index, recv_b);
        let mut sending = Select::new();
        let send = sending.send(&a);
        assert_eq!(sending.ready(), send);
        a.send(3).unwrap();
        assert_eq!(sending.try_ready(), Err(TryReadyError));
        let (index, ()) = side.both(
            || {
                let mut sending = Select::new();
                sending.send(&a);
                sending.ready_timeout(HOUR)
            },
            || {
                side.pause();
                from_a.recv().unwrap();
            },
        );
        assert_eq!(index, Ok(0));
        a.close();
        b.close();
        assert!(choice.ready() < 2, "gone is ready");
        // A timer that fires by itself.
        let alarm = channel::after(ms(1));
        let mut choice = Select::new();
        choice.recv(&alarm);
        assert_eq!(choice.ready(), 0);
        assert!(alarm.try_recv().is_ok());
    });
}

/// - given: `Select`
/// - when: `remove` is called
/// - then: the others keep their indices; removing again panics and says why
#[test]
fn select_21_operations_are_removed_and_keep_their_numbers() {
    let (a, from_a) = channel::unbounded();
    let (b, from_b) = channel::unbounded();
    a.send(1).unwrap();
    b.send(2).unwrap();
    let mut choice = Select::default();
    let (first, second) = (choice.recv(&from_a), choice.recv(&from_b));
    choice.remove(first);
    for _ in 0..20 {
        assert_eq!(choice.ready(), second);
    }
    let third = choice.recv(&from_a);
    assert_eq!((first, second, third), (0, 1, 2));
    assert!(panic_text(|| choice.remove(first)).contains("index 0"));
    assert!(format!("{choice:?}").contains("Select"));
}

/// - given: a selected receive or send
/// - when: it is dropped without being completed
/// - then: the value is at the front again; the room and the receiver are free
#[test]
fn select_22_a_selected_operation_that_is_dropped_gives_back_what_it_has() {
    everywhere(|side| {
        for capacity in [1, usize::MAX] {
            let (sender, receiver) = channel::bounded(capacity);
            sender.send(1).unwrap();
            let mut choice = Select::new();
            choice.recv(&receiver);
            drop(choice.select());
            assert_eq!(receiver.try_recv(), Ok(1), "it is at the front again");
            assert_eq!(sender.try_send(2), Ok(()));
        }
        let (sender, receiver) = channel::bounded(0);
        let (got, ()) = side.both(
            || receiver.recv(),
            || {
                side.pause();
                let mut choice = Select::new();
                choice.send(&sender);
                drop(choice.select());
                sender.send(3).unwrap();
            },
        );
        assert_eq!(got, Ok(3));
        let (sent, ()) = side.both(
            || sender.send(4),
            || {
                side.pause();
                let mut choice = Select::new();
                choice.recv(&receiver);
                drop(choice.select());
                assert_eq!(receiver.recv(), Ok(4), "not lost");
            },
        );
        assert_eq!(sent, Ok(()));
    });
}

/// - given: no operations; an end of another channel; the wrong kind
/// - when: it is used in this way
/// - then: it panics, says what is wrong, and loses nothing; with a limit and no operations it
///   times out
#[test]
fn select_23_misuse_of_the_dynamic_one_panics_and_says_how() {
    let (sender, receiver) = channel::unbounded::<u8>();
    let (other, from_other) = channel::unbounded::<u8>();
    sender.send(1).unwrap();
    let text = panic_text(|| drop(Select::new().select()));
    assert!(text.contains("without operations"), "{text}");
    let text = panic_text(|| Select::new().ready());
    assert!(text.contains("without operations"), "{text}");
    assert_eq!(Select::new().select_timeout(ms(1)).err(), Some(SelectTimeoutError));
    assert_eq!(Select::new().ready_timeout(ms(1)), Err(ReadyTimeoutError));
    let mut choice = Select::new();
    choice.recv(&receiver);
    let text = panic_text(|| choice.select().recv(&from_other));
    assert!(text.contains("not the receiver"), "{text}");
    let text = panic_text(|| choice.select().send(&sender, 1));
    assert!(!text.is_empty());
    let mut choice = Select::new();
    choice.send(&sender);
    let text = panic_text(|| choice.select().send(&other, 1));
    assert!(text.contains("not the sender"), "{text}");
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1], "nothing is lost by it");
}

/// - given: a cancelled task
/// - when: `select` and `ready` are called
/// - then: one of the operations, at random, which fails with its own `Cancelled`
#[test]
fn select_24_a_cancelled_dynamic_one_gives_an_operation_that_fails() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::bounded(1);
            let mut counts = [0; 2];
            ecru::cancel_scope(|scope| {
                scope.cancel();
                let mut choice = Select::new();
                let (recv, _send) = (choice.recv(&receiver), choice.send(&sender));
                for _ in 0..100 {
                    let selected = choice.select();
                    counts[selected.index()] += 1;
                    if selected.index() == recv {
                        assert_eq!(selected.recv(&receiver), Err(RecvError::Cancelled));
                    } else {
                        assert_eq!(selected.send(&sender, 5), Err(SendError::Cancelled(5)));
                    }
                }
                let selected = choice.select_timeout(HOUR).unwrap();
                assert!(selected.index() < 2);
                drop(selected);
                assert!(choice.ready() < 2);
                // These never wait.
                assert!(choice.try_select().is_ok() && choice.try_ready().is_ok());
            });
            assert!(counts.iter().all(|count| *count > 10), "by chance: {counts:?}");
            assert!(receiver.is_empty());
        });
    }
}

/// - given: the errors of `Select`
/// - when: they are formatted
/// - then: the text mentions the select
#[test]
fn select_39_the_errors_say_what_happened() {
    fn shown(error: impl std::error::Error + Copy + Eq + Send + Sync + 'static) -> String {
        error.to_string()
    }
    assert_eq!(shown(SelectTimeoutError), "timed out waiting on select");
    for text in [shown(TrySelectError), shown(TryReadyError), shown(ReadyTimeoutError)] {
        assert!(text.contains("select"), "{text}");
    }
}

/// - given: a thousand operations
/// - when: values come for some of them
/// - then: those are selected, and nothing is left registered
#[test]
fn select_40_many_operations() {
    everywhere(|side| {
        let channels: Vec<_> = (0..1_000).map(|_| channel::bounded(0)).collect();
        let log = Mutex::new(Vec::new());
        let ((), ()) = side.both(
            || {
                for n in [999, 0, 500] {
                    channels[n].0.send(n).unwrap();
                }
            },
            || {
                let mut choice = Select::new();
                channels.iter().for_each(|(_, receiver)| _ = choice.recv(receiver));
                for _ in 0..3 {
                    let selected = choice.select();
                    let index = selected.index();
                    let value = selected.recv(&channels[index].1).unwrap();
                    assert_eq!(index, value);
                    log.lock().unwrap().push(value);
                }
                assert!(choice.try_select().is_err());
            },
        );
        assert_eq!(*log.lock().unwrap(), [999, 0, 500]);
        assert!(channels.iter().all(|(sender, _)| sender.try_send(1).is_err()));
        assert_eq!(channels[7].1.try_recv(), Err(TryRecvError::Empty));
    });
}

/// - given: a `Select`
/// - when: it is cloned, and sent to another thread
/// - then: both have the same operations under the same indices
#[test]
fn select_46_the_dynamic_one_is_cloned_and_shared() {
    fn shared<S: Clone + Send + Sync>(_: &S) {}
    everywhere(|side| {
        let channels = [channel::bounded(1), channel::bounded(1)];
        let mut choice = Select::new();
        for (_, receiver) in &channels {
            choice.recv(receiver);
        }
        shared(&choice);
        choice.remove(0);
        // It moves to another thread, and its clone has the same operations under the same indices.
        let clone = choice.clone();
        let (there, ()) = side.both(
            move || {
                let mut choice = choice;
                choice.ready()
            },
            || {
                channels[1].0.send(7).unwrap();
                let mut choice = clone;
                let selected = choice.select();
                assert_eq!(selected.index(), 1);
                assert_eq!(selected.recv(&channels[1].1), Ok(7));
                channels[1].0.send(8).unwrap();
            },
        );
        assert_eq!(there, 1);
    });
}

/// - given: no buffer; one peer that waits in `send` or `recv`, and no other peers
/// - when: `ready` is called, then `try_send` or `try_recv`
/// - then: it succeeds
#[test]
fn select_49_what_ready_names_can_be_done_while_nobody_else_comes() {
    // There is one peer, which completes what it has begun.
    let rounds = 300;
    everywhere(|side| {
        let ends = [channel::bounded(0), channel::bounded(0)];
        let (done, told) = channel::bounded(1);
        let ((), ()) = side.both(
            || {
                for n in 0..rounds {
                    assert_eq!(ends[n % 2].1.recv(), Ok(n));
                    done.send(()).unwrap();
                }
            },
            || {
                for n in 0..rounds {
                    let mut choice = Select::new();
                    for (sender, _) in &ends {
                        choice.send(sender);
                    }
                    assert_eq!(ends[choice.ready()].0.try_send(n), Ok(()));
                    told.recv().unwrap();
                }
            },
        );
        let (to, from) = channel::bounded(0);
        let ((), ()) = side.both(
            || (0..rounds).for_each(|n| to.send(n).unwrap()),
            || {
                for n in 0..rounds {
                    let mut choice = Select::new();
                    choice.recv(&ends[0].1);
                    let wanted = choice.recv(&from);
                    assert_eq!(choice.ready(), wanted);
                    assert_eq!(from.try_recv(), Ok(n));
                }
            },
        );
    });
}
