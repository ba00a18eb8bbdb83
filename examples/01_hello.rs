//! Two tasks borrow a local and wait at the same time, within a second.

use std::{io, time::Duration};

fn main() -> io::Result<()> {
    let words = ["hello", "world"];
    let slowly = |word: &str| ecru::sleep(Duration::from_millis(100)).map(|()| word.to_uppercase());
    ecru::run(|| {
        ecru::try_timeout(Duration::from_secs(1), || {
            ecru::scope(|s| {
                let hello = s.spawn(|| slowly(words[0])); // two tasks borrow a local ..
                let world = s.spawn(|| slowly(words[1])); // .. and wait at the same time
                println!("{}, {}!", hello.join()??, world.join()??);
                Ok(())
            })
        })
    })
}
