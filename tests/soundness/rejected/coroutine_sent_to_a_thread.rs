//! The bug: a started coroutine's stack may hold values that must not leave their thread (an `Rc`).

use ecru::coroutine::{Coroutine, Yielder};
use std::rc::Rc;

fn main() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, (): ()| {
        let inside = Rc::new(1);
        yielder.suspend(());
        drop(inside);
    });
    coroutine.resume(());
    std::thread::spawn(move || {
        coroutine.resume(());
    });
}
