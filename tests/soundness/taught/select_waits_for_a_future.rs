//! The mistake: a select waits for sources, and a future is none.
//! What to do: `s.spawn_future(fetch())`, and wait for the handle.

use ecru::select;
use std::time::Duration;

async fn fetch() -> u32 {
    7
}

fn main() {
    ecru::run(|| {
        let fetched = fetch();
        select! {
            wait(&fetched) -> _number => println!("fetched"),
            default(Duration::from_secs(1)) => println!("nothing within a second"),
        }
    });
}
