//! A model of a hook against a frame that is left.

use loom::thread;
use std::sync::Arc;

use crate::base::sync::Checked;
use crate::scope::{cancel_scope, on_cancel};

#[test]
fn a_hook_runs_at_most_once_and_never_after_its_frame() {
    loom::model(|| {
        let calls = Arc::new(Checked::new(0));
        cancel_scope(|c| {
            let thread = thread::spawn(move || c.cancel());
            let counted = Arc::clone(&calls);
            on_cancel(move || counted.add_one(), || ());
            // The frame has been left: loom reports an error if the hook still runs.
            assert!(calls.get_alone() <= 1);
            thread.join().unwrap();
        });
        assert!(calls.get() <= 1);
    });
}
