//! The bug: the handle's result may borrow what the scope borrowed, which may be gone outside it.

fn main() {
    ecru::run(|| {
        let handle = ecru::scope(|s| s.spawn(|| 1));
        handle.join().ok();
    });
}
