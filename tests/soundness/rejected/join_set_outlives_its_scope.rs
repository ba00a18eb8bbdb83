//! The bug: results may borrow what the scope borrowed, and tasks would enter an ended scope.

use ecru::JoinSet;

fn main() {
    ecru::run(|| {
        let set = ecru::scope(|s| {
            let set = JoinSet::new(s);
            set.spawn(|| 1);
            set
        });
        set.join_next();
    });
}
