//! Models of a cancellation beside a source that waits for it or is dropped.

use loom::thread;

use crate::scope::cancel_scope;
use crate::source::Source;

#[test]
fn the_cancellation_is_not_missed() {
    loom::model(|| {
        let waiting = cancel_scope(|c| {
            let outside = c.clone();
            let waiting = thread::spawn(move || assert!(outside.cancelled().wait().is_ok()));
            c.cancel();
            waiting
        });
        waiting.join().unwrap();
    });
}

#[test]
fn a_source_is_dropped_while_its_section_is_cancelled() {
    loom::model(|| {
        let source = cancel_scope(|c| {
            let source = c.cancelled();
            let cancelling = thread::spawn(move || c.cancel());
            drop(source);
            cancelling
        });
        source.join().unwrap();
    });
}
