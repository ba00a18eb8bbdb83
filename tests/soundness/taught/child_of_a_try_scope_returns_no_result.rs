//! The mistake: the children of a `try_scope` return results, since a failure ends the scope.
//! What to do: return `Ok(())`.

use std::io;

fn main() {
    ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| println!("done"));
            Ok::<(), io::Error>(())
        })
        .unwrap();
    });
}
