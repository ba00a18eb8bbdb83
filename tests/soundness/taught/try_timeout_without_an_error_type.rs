//! The mistake: nothing says which error the limit becomes.
//! What to do: name it, for instance by `Ok::<_, std::io::Error>(..)`.

use std::time::Duration;

fn main() {
    ecru::run(|| {
        let _ = ecru::try_timeout(Duration::from_secs(1), || Ok(7));
    });
}
