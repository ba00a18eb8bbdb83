//! A model of the last sender and an upgrade.

use loom::thread;

use crate::channel::{TryRecvError, unbounded};

#[test]
fn a_channel_that_was_disconnected_stays_so() {
    loom::model(|| {
        let (sender, receiver) = unbounded::<u32>();
        let weak = sender.downgrade();
        let dropping = thread::spawn(move || drop(sender));
        if let Some(sender) = weak.upgrade() {
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            sender.send(1).unwrap();
            drop(sender);
            assert_eq!(receiver.recv(), Ok(1));
        }
        dropping.join().unwrap();
        assert!(weak.upgrade().is_none());
        assert!(receiver.recv().is_err());
    });
}
