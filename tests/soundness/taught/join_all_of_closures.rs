//! The mistake: a combinator waits for tasks that have been spawned.
//! What to do: `ecru::join!(..)`, or spawn each closure.

fn main() {
    ecru::run(|| {
        let _ = ecru::join_all([|| 1, || 2]);
    });
}
