//! The mistake: calling an `async fn` runs nothing, so the task has only made a future.
//! What to do: `s.spawn_future(fetch())`, or `ecru::block_on(fetch())` in the closure.

#![deny(unused_must_use)]

async fn fetch() {}

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            s.spawn(fetch).join().unwrap();
        });
    });
}
