//! Notifications by code that does not own the list.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn a_notification_by_a_stranger_is_no_end_of_a_task() {
    ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
        ecru::scope(|s| {
            let task = s.spawn(|| ecru::sleep(Duration::from_millis(20)).map(|()| 7));
            let task = Arc::new(task);
            let joins = Arc::clone(&task);
            let joined = s.spawn(move || joins.join());
            for _ in 0..10 {
                ecru::sleep(Duration::from_millis(1)).unwrap();
                ecru::Source::waiters(&*task, &mut |list| list.notify_all());
            }
            assert_eq!(joined.join().unwrap().unwrap(), Ok(7));
        });
    });
}

#[test]
fn a_notification_by_a_stranger_is_no_value() {
    use ecru::Source;

    let (sender, receiver) = ecru::channel::unbounded::<[u64; 4]>();
    thread::scope(|s| {
        let reader = s.spawn(|| receiver.recv());
        for _ in 0..1000 {
            // A channel's list is public so that wrappers can forward it, and any code that sees it
            // may notify it.
            receiver.waiters(&mut |list| list.notify_all());
            thread::yield_now();
        }
        sender.send([7; 4]).unwrap();
        assert_eq!(reader.join().unwrap(), Ok([7; 4]));
    });
}

/// Any code may notify a channel's list, but only its owner can end the waits of tasks that are to
/// receive a value.
#[test]
fn a_channels_list_that_a_stranger_notifies_wakes_nobody_who_is_owed_a_value() {
    use ecru::{Source, channel};
    let (sender, receiver) = channel::bounded::<String>(0);
    thread::scope(|s| {
        let (one, both) = (receiver.clone(), receiver.clone());
        s.spawn(move || assert_eq!(one.recv().as_deref(), Ok("for you")));
        s.spawn(move || {
            let first = (&both).or(&both).wait().unwrap();
            assert_eq!(first.as_deref(), Ok("for you"));
        });
        for _ in 0..200 {
            receiver.waiters(&mut |list| {
                list.notify_one();
                list.notify_all();
            });
            thread::yield_now();
        }
        sender.send(String::from("for you")).unwrap();
        sender.send(String::from("for you")).unwrap();
    });
}
