//! The bug: `unblock` runs its closure on another thread.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        let shared = Rc::new(1);
        ecru::unblock(|| *shared)
    });
}
