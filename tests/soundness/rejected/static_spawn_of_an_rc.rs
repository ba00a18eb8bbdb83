//! The bug: the task may start on another worker, with an `Rc` whose clones stay here.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        let shared = Rc::new(1);
        ecru::spawn(move || *shared);
    });
}
