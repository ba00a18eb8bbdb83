//! Handles that may move: a `CancelHandle` goes anywhere and outlives its scope, and a `JoinHandle`
//! may be lent to another thread.

fn anywhere<T: Clone + Send + Sync + 'static>(_: &T) {}
fn lent<T: Send + Sync>(_: &T) {}

fn main() {
    ecru::run(|| {
        let kept = ecru::cancel_scope(|c| {
            anywhere(&c);
            c
        });
        std::thread::spawn(move || kept.cancel()).join().unwrap();
        ecru::scope(|s| {
            let child = s.spawn(|| 1);
            lent(&child);
            std::thread::scope(|threads| assert_eq!(threads.spawn(|| child.join().unwrap()).join().unwrap(), 1));
        });
        assert_eq!(ecru::spawn(|| 2).join().unwrap(), 2);
    });
}
