//! The bug: a data race between two children on different workers.

fn main() {
    let mut count = 0;
    ecru::run(|| {
        ecru::scope(|s| {
            s.spawn(|| count += 1);
            s.spawn(|| count += 1);
        });
    });
}
