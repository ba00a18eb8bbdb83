//! The mistake: a policy and a builder do nothing by themselves.

#![deny(unused_must_use)]

use ecru::Retry;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            s.builder().name("worker");
            Retry::new().max_failures(3);
        });
    });
}
