//! The bug: the coroutine would be resumed after it has ended.

use ecru::coroutine::{Yielder, scoped};

fn main() {
    let kept = scoped(|yielder: &Yielder<(), ()>, (): ()| yielder.suspend(()), |coroutine| coroutine);
    kept.resume(());
}
