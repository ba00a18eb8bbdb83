//! Very many bare coroutines, resumed in turn, to measure the effect of caches and page tables.

use std::mem::ManuallyDrop;

use corosensei::Coroutine;

use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation};
use crate::peers::stack_slab::StackSlab;

/// One operation is one switch, as in the row `switch`.
pub(crate) fn row(count: usize) -> Row {
    Row {
        family: "coroutines",
        number: Some(count),
        title: format!("round-robin over {count} coroutines, per switch"),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("corosensei-slab", move || corosensei(count, false))
                .note("no guard pages"),
            Contender::timed("corosensei-slab-staggered", move || corosensei(count, true))
                .note("no guard pages; stack tops spread over the cache sets"),
        ],
        note: "half of a resume and suspend",
    }
}

fn corosensei(count: usize, staggered: bool) -> f64 {
    let slab = StackSlab::new(count);
    let create = |stack| {
        Coroutine::<(), (), (), _>::with_stack(stack, |yielder, ()| {
            loop {
                yielder.suspend(());
            }
        })
    };
    // Unwinding all of them at the end would take longer than the row, and the process ends anyway.
    let mut coroutines: ManuallyDrop<Vec<_>> =
        ManuallyDrop::new(slab.stacks(staggered).map(create).collect());
    let pair = whole_rounds(count, || {
        for coroutine in coroutines.iter_mut() {
            let _suspended = coroutine.resume(());
        }
    });
    pair / 2.0
}

/// Returns the time of one of the `count` steps of a round.
pub(crate) fn whole_rounds(count: usize, mut round: impl FnMut()) -> f64 {
    // The first round touches every stack for the first time.
    round();
    nanoseconds_per_operation(|rounds| (0..rounds).for_each(|_| round())) / count as f64
}
