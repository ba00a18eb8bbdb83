//! The mistake: a loop that ignores the errors of its waits does not end when it is cancelled.
//! What to do: `ecru::sleep(..)?`, or `while ecru::sleep(..).is_ok()`.

#![deny(unused_must_use)]

use std::time::Duration;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            s.spawn_daemon(|| loop {
                ecru::sleep(Duration::from_secs(1));
            });
        });
    });
}
