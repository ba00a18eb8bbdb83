//! The bug: the thread would go on reading `data` after its owner has dropped it, since nothing returns to the forgotten scope.

use ecru::coroutine::{Coroutine, Yielder};

fn main() {
    let data = vec![1_u8; 4096];
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, (): ()| {
        std::thread::scope(|s| {
            s.spawn(|| while data[0] == 1 {});
            yielder.suspend(());
        });
    });
    coroutine.resume(());
    std::mem::forget(coroutine);
    drop(data);
}
