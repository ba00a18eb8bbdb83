//! The bug: two expressions on two workers would count references to one `Rc` at the same time.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        let shared = Rc::new(1);
        let _ = ecru::join!(drop(Rc::clone(&shared)), drop(Rc::clone(&shared)));
    });
}
