//! The bug: a child on another worker would return an `Rc` of which it may keep a clone.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            s.spawn(|| Rc::new(1));
        });
    });
}
