//! A model of a hook against a frame that is left.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

use crate::scope::{cancel_scope, on_cancel};

struct Place(Arc<UnsafeCell<u32>>);
unsafe impl Send for Place {}

impl Place {
    fn count(&self) {
        self.0.with_mut(|calls| unsafe { *calls += 1 });
    }
}

#[test]
fn a_hook_runs_at_most_once_and_never_after_its_frame() {
    loom::model(|| {
        let calls = Arc::new(UnsafeCell::new(0));
        cancel_scope(|c| {
            let thread = thread::spawn(move || c.cancel());
            let place = Place(Arc::clone(&calls));
            on_cancel(move || place.count(), || ());
            // The frame has been left: loom reports an error if the hook still runs.
            calls.with_mut(|calls| assert!(unsafe { *calls } <= 1));
            thread.join().unwrap();
        });
        calls.with(|calls| assert!(unsafe { *calls } <= 1));
    });
}
