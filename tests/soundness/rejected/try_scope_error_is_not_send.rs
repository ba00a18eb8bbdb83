//! The bug: a child's error moves from its worker to the scope's, and this one must not.

use std::rc::Rc;

fn main() {
    ecru::run(|| {
        let outcome = ecru::try_scope(|s| {
            s.spawn(|| Err::<(), Rc<str>>("no".into()));
            Ok(())
        });
        assert!(outcome.is_err());
    });
}
