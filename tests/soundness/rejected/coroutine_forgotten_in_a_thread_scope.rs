//! The bug: the forgotten scope never waits, so the thread would read `data` after its drop.

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
