//! The bug: two workers would count one `Rc`'s references without synchronisation.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        let shared = Rc::new(1);
        ecru::scope(|s| {
            let theirs = Rc::clone(&shared);
            s.spawn(move || *theirs);
        });
    });
}
