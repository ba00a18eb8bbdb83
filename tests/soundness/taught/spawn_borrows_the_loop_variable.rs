//! The mistake: the task may run after the loop has gone on.
//! What to do: `move`.

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            for number in 0..3 {
                s.spawn(|| println!("{number}"));
            }
        });
    });
}
