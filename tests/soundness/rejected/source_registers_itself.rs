//! The bug: a user's source that registers waits itself, and waits meanwhile, mixes up two waits.

use ecru::Source;
use ecru::source::WaitList;
use std::time::Duration;

struct Waits;

impl Source for Waits {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        None
    }

    fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a WaitList)) {}

    fn __register<'a>(&'a self, _: &mut ecru::source::Arms<'a>) {
        let _ = ecru::sleep(Duration::from_millis(1));
    }
}

fn main() {
    let _ = Waits.wait();
}
