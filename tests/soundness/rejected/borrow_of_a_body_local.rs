//! The bug: the body's frame ends before the scope waits, and a child would write to a dead local.

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let mut count = 0;
            let reference = &mut count;
            s.spawn(move || *reference += 1);
        });
    });
}
