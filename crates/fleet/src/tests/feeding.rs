//! How a map sends its items.

use ecru::channel;

use crate::Fleet;

/// The queue is full when the item is sent, and the program makes the next item out of its result.
#[test]
fn an_item_is_sent_again_although_the_next_one_does_not_exist() {
    ecru::run(|| {
        ecru::scope(|s| {
            let echo = Fleet::local(s).function("echo", |n: u32, _run| Ok(n));
            let echo = echo.capacity(1).open().unwrap();
            let fills = s.spawn({
                let echo = echo.clone();
                move || echo.call(0)
            });
            while echo.stats().unwrap().queued == 0 {
                ecru::yield_now().unwrap();
            }
            let (more, items) = channel::unbounded();
            more.send(1).unwrap();
            let mut results = echo.map("items", items).unwrap();
            s.spawn_daemon({
                let echo = echo.clone();
                move || echo.serve(1)
            });
            for number in 1..10 {
                assert_eq!(results.next().unwrap().unwrap(), number);
                more.send(number + 1).unwrap();
            }
            drop(more);
            assert_eq!(results.next().unwrap().unwrap(), 10);
            assert!(results.next().is_none());
            assert_eq!(fills.join().unwrap().unwrap(), 0);
        });
    });
}
