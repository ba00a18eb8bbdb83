//! Bare coroutines: the switch itself, and a coroutine from its creation to its end.

use std::hint::black_box;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, ScopedCoroutine};
use generator::Gn;

use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation};

/// One direction: a resume is a switch there, and a suspend is a switch back.
pub(crate) fn switch() -> Row {
    Row {
        family: "switch",
        number: None,
        title: "context switch, one way".into(),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("corosensei", switch_corosensei),
            Contender::timed("generator", switch_generator),
        ],
        note: "half of a resume and suspend; zigcoro, minicoro and boost are not run here",
    }
}

/// A coroutine on an existing stack.
pub(crate) fn recycle() -> Row {
    Row {
        family: "recycle",
        number: None,
        title: "coroutine: create, run, finish on a recycled stack".into(),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("corosensei", recycle_lent).note("the stack is lent to each"),
            Contender::timed("corosensei-moved", recycle_moved)
                .note("the stack is moved in and out"),
        ],
        note: "the body reads its argument and returns",
    }
}

fn switch_corosensei() -> f64 {
    let mut coroutine = Coroutine::<u64, u64, ()>::new(|yielder, mut value| {
        loop {
            value = yielder.suspend(value + 1);
        }
    });
    let pair = nanoseconds_per_operation(|operations| {
        for operation in 0..operations {
            let CoroutineResult::Yield(value) = coroutine.resume(operation) else {
                unreachable!("it loops for ever")
            };
            black_box(value);
        }
    });
    // Unwinding the endless loop is not part of the row.
    coroutine.force_unwind();
    pair / 2.0
}

fn switch_generator() -> f64 {
    let mut coroutine = Gn::<u64>::new_scoped(|mut scope| {
        let mut value = scope.get_yield().unwrap_or_default();
        while let Some(next) = scope.yield_(value + 1) {
            value = next;
        }
        generator::done!()
    });
    let pair = nanoseconds_per_operation(|operations| {
        for operation in 0..operations {
            black_box(coroutine.send(operation));
        }
    });
    pair / 2.0
}

/// The stack stays in place, and each coroutine borrows it.
fn recycle_lent() -> f64 {
    let mut stack = DefaultStack::default();
    nanoseconds_per_operation(|operations| {
        for operation in 0..operations {
            let coroutine =
                ScopedCoroutine::<u64, (), u64, _>::with_stack(&mut stack, |_, first| first + 1);
            coroutine.scope(|mut coroutine| {
                let CoroutineResult::Return(value) = coroutine.resume(operation) else {
                    unreachable!("it does not yield")
                };
                black_box(value);
            });
        }
    })
}

/// The stack is moved into each coroutine and out of it again.
fn recycle_moved() -> f64 {
    let mut kept = Some(DefaultStack::default());
    nanoseconds_per_operation(|operations| {
        let mut stack = kept.take().expect("every batch puts it back");
        for operation in 0..operations {
            let mut coroutine = Coroutine::<u64, (), u64>::with_stack(stack, |_, first| first + 1);
            let CoroutineResult::Return(value) = coroutine.resume(operation) else {
                unreachable!("it does not yield")
            };
            black_box(value);
            stack = coroutine.into_stack();
        }
        kept = Some(stack);
    })
}
