//! The bug: the `Rc` that a local child returns would reach another thread through its handle.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let handle = s.spawn_local(|| Rc::new(1));
            std::thread::scope(|threads| {
                threads.spawn(|| handle.join().ok());
            });
        });
    });
}
