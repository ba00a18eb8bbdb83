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
