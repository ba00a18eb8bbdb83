//! The bug: the handle's result may borrow what the scope borrowed; outside the scope that is gone.

fn main() {
    ecru::run(|| {
        let handle = ecru::scope(|s| s.spawn(|| 1));
        handle.join().ok();
    });
}
