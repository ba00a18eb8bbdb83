//! The mistake: the error type cannot say that the limit has passed.
//! What to do: implement `From<ecru::Elapsed>`, or use `timeout`, whose error is `Elapsed`.

use std::num::ParseIntError;
use std::time::Duration;

fn main() {
    ecru::run(|| {
        let _: Result<u32, ParseIntError> =
            ecru::try_timeout(Duration::from_secs(1), || "7".parse());
    });
}
