//! The bug: suspending a coroutine from outside would save the wrong stack.

use ecru::coroutine::{Coroutine, Yielder};
use std::cell::Cell;
use std::rc::Rc;

fn main() {
    let kept = Rc::new(Cell::new(None));
    let keep = Rc::clone(&kept);
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, (): ()| keep.set(Some(yielder)));
    coroutine.resume(());
    drop(coroutine);
    kept.take().unwrap().suspend(());
}
