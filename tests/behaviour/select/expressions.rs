//! The macros as expressions among others.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::{everywhere, ms, panic_text, run_on};
use ecru::channel::{self, Receiver, RecvError, Select, Sender};
use ecru::select;

/// - given: `return`, `?`, `break`, `continue`, patterns, nesting
/// - when: they are used in arms
/// - then: they act as in a `match`
#[test]
fn select_32_it_is_an_expression_in_any_place() {
    fn answer(receiver: &Receiver<u32>, sender: &Sender<u32>) -> Result<u32, RecvError> {
        let value = select! {
            recv(receiver) -> value => value?,
            send(sender, 1) -> _ => return Ok(100),
        };
        Ok(value + 1)
    }
    let (sender, receiver) = channel::bounded(1);
    assert_eq!(answer(&receiver, &sender), Ok(100));
    assert_eq!(answer(&receiver, &sender), Ok(2));
    // `continue` and `break` of a loop work in arms.
    let mut seen = Vec::new();
    let total = loop {
        sender.send(seen.len() as u32).unwrap();
        let value = select! {
            recv(receiver) -> value => match value {
                Ok(3) => break seen.iter().sum::<u32>(),
                Ok(value) => value,
                Err(_) => continue,
            },
        };
        seen.push(value);
    };
    assert_eq!(total, 3);
    // Patterns, `mut`, types that are not `Copy`.
    let (texts, t) = channel::unbounded::<Result<String, u8>>();
    texts.send(Ok(String::from("te"))).unwrap();
    let text = select! {
        recv(t) -> mut message => {
            if let Ok(Ok(text)) = &mut message {
                text.push_str("xt");
            }
            message.unwrap().unwrap()
        }
        default => unreachable!(),
    };
    assert_eq!(text, "text");
    // Nested selects.
    sender.send(5).unwrap();
    let nested = select! {
        recv(t) -> _ => 0,
        default => select! {
            recv(receiver) -> value => select! { default => value.unwrap() },
        },
    };
    assert_eq!(nested, 5);
}

/// - given: calls, fields, blocks, temporaries, references
/// - when: they are used as operands
/// - then: each is evaluated once; temporaries live as long as the select
#[test]
fn select_33_operands_may_be_any_expressions() {
    struct Ends {
        pair: (Sender<u8>, Receiver<u8>),
    }
    impl Ends {
        fn sender(&self) -> &Sender<u8> {
            &self.pair.0
        }
        fn receiver(&self) -> Receiver<u8> {
            self.pair.1.clone()
        }
    }
    let ends = Ends { pair: channel::bounded(1) };
    let evaluated = AtomicUsize::new(0);
    let list = [ends.pair.1.clone()];
    select! {
        send(ends.sender(), 1) -> sent => sent.unwrap(),
        recv(&list[0],) -> _ => panic!("there is nothing"),
        recv({ evaluated.fetch_add(1, SeqCst); ends.receiver() }) -> _ => panic!("there is nothing"),
    }
    assert_eq!(evaluated.load(SeqCst), 1, "once");
    select! { recv(&&ends.receiver()) -> message => assert_eq!(message, Ok(1)) }
    select! { send(&ends.pair.0, 2,) -> sent => { sent.unwrap() } }
    // A temporary lives as long as the select. This one keeps the other side connected.
    select! {
        recv(channel::bounded::<u8>(1).1) -> _ => panic!("it is empty, and its sender is there"),
        default(ms(1)) => {}
    }
    let optional = Some(ends.receiver());
    let idle = channel::never();
    let message = select! { recv(optional.as_ref().unwrap_or(&idle)) -> message => message };
    assert_eq!(message, Ok(2));
    let nothing: Option<&Receiver<u8>> = std::iter::empty().next();
    let message = select! {
        recv(nothing.unwrap_or(&idle)) -> message => message.ok(),
        default() => None,
    };
    assert_eq!(message, None);
}

/// - given: a `no_suspend` section
/// - when: a select that may wait, ready or not
/// - then: it panics
#[test]
fn select_34_inside_no_suspend_it_panics_unless_it_has_a_default() {
    everywhere(|_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let text = panic_text(|| {
            ecru::no_suspend(|| select! { recv(receiver) -> message => message.is_ok() })
        });
        assert!(text.contains("no_suspend"), "ready or not: {text}");
        let text = panic_text(|| {
            let mut choice = Select::new();
            choice.recv(&receiver);
            ecru::no_suspend(|| choice.select().index())
        });
        assert!(text.contains("no_suspend"), "{text}");
        ecru::no_suspend(|| {
            select! { recv(receiver) -> message => assert_eq!(message, Ok(1)), default => panic!() }
        });
    });
}

/// - given: the sieve of primes as tasks and channels
/// - when: it is run
/// - then: it yields the primes, and all tasks end
#[test]
fn select_38_nodes_of_a_graph_in_go_s_manner() {
    // A sieve: each stage passes on the numbers that its prime does not divide, and waits for the
    // end.
    run_on(2, || {
        let (done, over) = channel::bounded::<()>(0);
        let over = &over;
        ecru::scope(|s| {
            let (first, mut numbers) = channel::bounded(0);
            s.spawn(move || {
                (2_u32..)
                    .take_while(|n| {
                        select! {
                            send(first, *n) -> sent => sent.is_ok(),
                            recv(over) -> _ => false,
                        }
                    })
                    .for_each(drop);
            });
            let mut primes = Vec::new();
            for _ in 0..15 {
                let prime = numbers.recv().unwrap();
                primes.push(prime);
                let (next, filtered) = channel::bounded(0);
                s.spawn(move || {
                    for n in numbers.iter().filter(|n| n % prime != 0) {
                        let go_on = select! {
                            send(next, n) -> sent => sent.is_ok(),
                            recv(over) -> _ => false,
                        };
                        if !go_on {
                            break;
                        }
                    }
                });
                numbers = filtered;
            }
            drop(done);
            drop(numbers);
            assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]);
        });
    });
}

/// - given: the module `ecru::channel`
/// - when: `channel::select!` and `channel::select_biased!` are used
/// - then: they are the same macros
#[test]
fn select_47_the_macros_are_found_beside_the_channels_too() {
    let (sender, receiver) = channel::bounded(1);
    ecru::channel::select! { send(sender, 7) -> sent => sent.unwrap() }
    ecru::channel::select_biased! { recv(receiver) -> got => assert_eq!(got, Ok(7)) }
}

/// - given: channels behind references, in fields, boxes, options, and in the branches of `if`,
///   `match` and blocks
/// - when: they are operands of `recv`, `send` and `wait`
/// - then: the select uses the channel that the operand names, as crossbeam's does
#[test]
#[expect(
    clippy::redundant_closure_call,
    clippy::unnecessary_literal_unwrap,
    reason = "the forms of the operands are what is tested"
)]
fn select_52_operands_are_references_from_any_expression() {
    struct Both {
        sender: Sender<u32>,
        receiver: Option<Receiver<u32>>,
    }
    impl Both {
        fn receiver(&self) -> &Receiver<u32> {
            self.receiver.as_ref().unwrap()
        }
    }
    let (sender, receiver) = channel::unbounded::<u32>();
    let (_other, empty) = channel::unbounded::<u32>();
    let full = channel::bounded::<u32>(0);
    let both = Both { sender: sender.clone(), receiver: Some(receiver.clone()) };
    let boxed = (Box::new(receiver.clone()), std::sync::Arc::new(sender.clone()));
    let (on, all, lent) = (receiver.is_empty(), [receiver.clone(), empty.clone()], &&receiver);
    let none: Option<&Receiver<u32>> = None;

    macro_rules! received {
        ($($operand:expr),* $(,)?) => {$(
            sender.send(1).unwrap();
            select! { recv($operand) -> got => assert_eq!(got, Ok(1)) }
            sender.send(2).unwrap();
            ecru::select_biased! {
                recv($operand) -> got => assert_eq!(got, Ok(2)),
                recv(empty) -> _ => unreachable!(),
                default => unreachable!(),
            }
        )*};
    }
    received!(
        if on { &receiver } else { &empty },
        if on { receiver.clone() } else { channel::never() },
        if let Some(one) = none { one } else { &receiver },
        match on {
            true => &receiver,
            false => both.receiver(),
        },
        match &both.receiver {
            Some(one) => one,
            None => &empty,
        },
        { &receiver },
        { receiver.clone() },
        receiver,
        (&receiver),
        lent,
        **lent,
        receiver.clone(),
        &receiver.clone(),
        boxed.0,
        &boxed.0,
        *boxed.0,
        all[0],
        &all[0],
        all.first().unwrap(),
        both.receiver(),
        both.receiver.as_ref().unwrap(),
        all.first().filter(|_| on).unwrap_or(&receiver),
        none.cloned().unwrap_or_else(|| receiver.clone()),
        (|| &receiver)(),
    );

    macro_rules! sent {
        ($($operand:expr),* $(,)?) => {$(
            select! { send($operand, 3) -> sent => assert_eq!(sent, Ok(())) }
            assert_eq!(receiver.recv(), Ok(3));
            ecru::select_biased! {
                send($operand, if on { 4 } else { 5 }) -> sent => assert_eq!(sent, Ok(())),
                recv(empty) -> _ => unreachable!(),
                default => unreachable!(),
            }
            assert_eq!(receiver.recv(), Ok(4));
        )*};
    }
    sent!(
        if on { &sender } else { &full.0 },
        if on { sender.clone() } else { channel::bounded(0).0 },
        match on {
            true => &sender,
            false => &full.0,
        },
        { &sender },
        { sender.clone() },
        sender,
        &&sender,
        both.sender,
        boxed.1,
        Some(&sender).unwrap(),
    );

    macro_rules! waited {
        ($($operand:expr),* $(,)?) => {$(
            sender.send(6).unwrap();
            select! { wait($operand) -> got => assert_eq!(got, Ok(Ok(6))) }
        )*};
    }
    waited!(
        if on { &receiver } else { &empty },
        match on {
            true => &receiver,
            false => &empty,
        },
        { &receiver },
        receiver.clone(),
        both.receiver(),
        *boxed.0,
        none.unwrap_or(&receiver),
        ecru::source::race([&receiver, &empty]),
    );
}

/// - given: operands that make temporary values with destructors
/// - when: an arm is selected
/// - then: the temporaries live until its body has ended, and are then dropped in the reverse order
#[test]
fn select_53_temporaries_live_until_the_arm_has_ended() {
    use std::cell::RefCell;
    struct Noted<'n, T>(T, &'static str, &'n RefCell<Vec<&'static str>>);
    impl<T> Drop for Noted<'_, T> {
        fn drop(&mut self) {
            self.2.borrow_mut().push(self.1);
        }
    }
    let order = RefCell::new(Vec::new());
    let (sender, receiver) = channel::bounded::<u32>(1);
    let (other, empty) = channel::bounded::<u32>(1);
    other.send(0).unwrap();
    for on in [true, false] {
        order.borrow_mut().clear();
        select! {
            recv(Noted(&empty, "first", &order).0) -> _ => order.borrow_mut().push("body"),
            send(if on { Noted(&sender, "second", &order).0 } else { &sender }, 1) -> sent => {
                sent.unwrap();
                order.borrow_mut().push("body");
            }
            recv(*Noted(Box::new(channel::never::<u32>()), "third", &order).0) -> _ => unreachable!(),
        }
        let dropped = order.borrow().clone();
        assert!(dropped.ends_with(&["body", "third", "first"]), "{dropped:?}");
        let _ = (receiver.try_recv(), other.try_send(0));
    }
}
