//! The bug: suspending a coroutine from outside of it would save the wrong stack.

use ecru::coroutine::{Coroutine, Yielder};

fn main() {
    let mut kept = None;
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, (): ()| kept = Some(yielder));
    coroutine.resume(());
    drop(coroutine);
    kept.unwrap().suspend(());
}
