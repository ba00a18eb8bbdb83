//! Models of permits that are used or given up while another sender waits. A lost wake-up is a
//! deadlock, which loom reports.

use loom::thread;

use crate::channel::bounded;

fn check(body: fn()) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(body);
}

#[test]
fn a_place_that_is_given_back_goes_to_the_next() {
    check(|| {
        let (sender, receiver) = bounded(1);
        let permit = sender.reserve().unwrap();
        let other = sender.clone();
        let reserving = thread::spawn(move || other.reserve().unwrap().send(1).unwrap());
        drop(permit);
        reserving.join().unwrap();
        assert_eq!(receiver.drain(), [1]);
    });
}

#[test]
fn a_receiver_is_reserved_for_one_of_two() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let other = sender.clone();
        let reserving = thread::spawn(move || drop(other.reserve_owned().unwrap()));
        let sending = thread::spawn(move || sender.send(1).unwrap());
        // The first receives the value. The second is there for the permit, if that was not the
        // first, and gets the news that all senders have gone.
        assert_eq!(receiver.recv(), Ok(1));
        assert!(receiver.recv().is_err());
        sending.join().unwrap();
        reserving.join().unwrap();
    });
}

#[test]
fn a_closed_channel_waits_for_its_permits() {
    check(|| {
        let (sender, receiver) = bounded(1);
        let permit = sender.reserve_owned().unwrap();
        let closer = receiver.closer();
        let closing = thread::spawn(move || closer.close());
        let sending = thread::spawn(move || permit.send(1).map(drop).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
        closing.join().unwrap();
        sending.join().unwrap();
    });
}
