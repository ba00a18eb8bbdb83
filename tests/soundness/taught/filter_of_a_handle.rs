//! The mistake: only values of channels can be left to other receivers, and so be filtered.

use ecru::Source;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let handle = s.spawn(|| 7);
            let _ = (&handle).filter(|_| true);
        });
    });
}
