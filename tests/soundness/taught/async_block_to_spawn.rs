//! The mistake: a task's work is a closure that is called, and not a future.
//! What to do: `s.spawn_future(async { .. })`.

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            s.spawn(async { 6 * 7 });
        });
    });
}
