//! A model of quiescence while messages are under way.

use super::Quiescence;
use crate::base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

struct Model {
    rest: Quiescence,
    inboxes: [AtomicBool; 2],
    handled: AtomicU32,
    alarms: AtomicU32,
}

impl Model {
    fn send(&self, to: usize) {
        self.inboxes[to].store(true, Ordering::Release);
    }

    /// Enters, and raises the alarm if all workers are quiescent. Then takes its message out, if
    /// there is one. Returns whether there was one.
    fn rest(&self, own: usize) -> bool {
        if let Some(all) = self.rest.enter(2)
            && self.inboxes.iter().all(|inbox| !inbox.load(Ordering::Relaxed))
            && self.rest.confirm(all)
        {
            assert_eq!(self.handled.load(Ordering::Relaxed), 2, "a message is under way");
            self.alarms.fetch_add(1, Ordering::Relaxed);
        }
        if !self.inboxes[own].load(Ordering::Acquire) {
            return false;
        }
        self.rest.leave();
        self.inboxes[own].store(false, Ordering::Relaxed);
        self.handled.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// One worker sends the other a message, and the other one answers. No alarm is raised before the
/// answer has been received. Afterwards one is.
#[test]
fn all_rest_when_no_message_is_under_way() {
    loom::model(|| {
        let model = Arc::new(Model {
            rest: Quiescence::new(),
            inboxes: [AtomicBool::new(false), AtomicBool::new(false)],
            handled: AtomicU32::new(0),
            alarms: AtomicU32::new(0),
        });
        let other = Arc::clone(&model);
        let answers = loom::thread::spawn(move || {
            if other.rest(1) {
                other.send(0);
                other.rest(1);
            }
        });
        model.send(1);
        if model.rest(0) {
            model.rest(0);
        }
        answers.join().unwrap();
        let both = model.handled.load(Ordering::Relaxed) == 2;
        assert_eq!(model.alarms.load(Ordering::Relaxed), u32::from(both));
    });
}
