//! A model of a wait for the end of a channel. A lost wake-up is a deadlock, which loom reports.

use loom::thread;

use crate::channel::unbounded;
use crate::source::Source;

#[test]
fn the_end_is_not_missed() {
    loom::model(|| {
        let (sender, receiver) = unbounded::<u32>();
        let other = receiver.clone();
        let dropping = thread::spawn(move || drop(other));
        let waiting = thread::spawn(move || sender.disconnected().wait().unwrap());
        drop(receiver);
        waiting.join().unwrap();
        dropping.join().unwrap();
    });
}
