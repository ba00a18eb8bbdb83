//! `Multiplexer`: several publishers, and subscribers that all receive the same.

use crate::common::{ProcessorClock, ms, panic_text, quiet_panic, settle, until};
use crate::simulated::each_run;
use ecru::channel;
use ecru_flow::{self as flow, Closed, Multiplexer};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

type Heard<T> = Result<T, Closed>;

/// - given: three publishers at once and three subscribers
/// - when: a multiplexer runs
/// - then: all subscribers receive everything in the same order, in which each publisher's own
///   order is kept
#[test]
fn hub_01_same_sequence() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel::bounded(0)).unzip();
        for sender in senders {
            multiplexer.add_subscriber(sender).unwrap();
        }
        let publishers = (0..3).map(|n| flow::from_iter((0..50).map(move |m| (n, m))));
        publishers.for_each(|publisher| multiplexer.add_publisher(publisher).unwrap());
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            let readers: Vec<_> = (receivers.iter())
                .map(|receiver| s.spawn(move || flow::take(receiver, 150).collect::<Vec<_>>()))
                .collect();
            let heard: Vec<_> = readers.iter().map(|reader| reader.join().unwrap()).collect();
            assert_eq!(heard[0].len(), 150);
            assert!(heard[0] == heard[1] && heard[1] == heard[2]);
            let mut next = [0; 3];
            for (publisher, n) in heard[0].iter().map(|value| value.unwrap()) {
                assert_eq!(n, next[publisher], "the order of each publisher is kept");
                next[publisher] += 1;
            }
            multiplexer.close();
            receivers.iter().for_each(|receiver| assert_eq!(receiver.recv(), Ok(Err(Closed))));
        });
    });
}

/// - given: three publishers of 4 values and three slow subscribers, all added while it runs
/// - when: a multiplexer runs
/// - then: each subscriber gets all 12
#[test]
fn hub_02_delayed_subscribers() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            let readers: Vec<_> = (0..3)
                .map(|slowness| {
                    let (sender, receiver) = channel::bounded(0);
                    multiplexer.add_subscriber(sender).unwrap();
                    s.spawn(move || {
                        let values = flow::take(&receiver, 12).map(Result::unwrap);
                        let mut values: Vec<i32> =
                            values.inspect(|_| (0..slowness).for_each(|_| settle())).collect();
                        values.sort_unstable();
                        values
                    })
                })
                .collect();
            for publisher in 0..3 {
                let (sender, receiver) = channel::bounded(0);
                multiplexer.add_publisher(receiver).unwrap();
                s.spawn(move || flow::send_all(sender, (0..4).map(|n| publisher * 4 + n)));
            }
            for reader in readers {
                assert_eq!(reader.join().unwrap(), (0..12).collect::<Vec<_>>());
            }
            multiplexer.close();
        });
    });
}

/// - given: a subscriber that does not read
/// - when: a value has been sent to the other
/// - then: nothing further is read before the slow one has accepted it
#[test]
fn hub_03_slow_stalls_all() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let ((slow, slowly), (quick, quickly)) = (channel::bounded(0), channel::unbounded());
        multiplexer.add_subscriber(slow).unwrap();
        multiplexer.add_subscriber(quick).unwrap();
        let source = flow::from_iter(1..=3);
        multiplexer.add_publisher(source.clone()).unwrap();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            for n in 1..=3 {
                assert_eq!(quickly.recv(), Ok(Ok(n)));
                settle();
                assert!(quickly.is_empty() && source.len() == 3 - n);
                assert_eq!(slowly.recv(), Ok(Ok(n)));
            }
            multiplexer.close();
            assert_eq!((slowly.recv(), quickly.recv()), (Ok(Err(Closed)), Ok(Err(Closed))));
        });
    });
}

/// - given: a multiplexer at work
/// - when: `close` is called twice
/// - then: each subscriber gets one `Err(Closed)`, `run` returns, no channel has been closed, and
///   adding or removing fails with `Closed`
#[test]
fn hub_04_multiplexer_closes() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let (to, heard) = channel::unbounded::<Heard<u32>>();
        let (publish, published) = channel::unbounded();
        multiplexer.add_subscriber(to.clone()).unwrap();
        multiplexer.add_publisher(published.clone()).unwrap();
        ecru::scope(|s| {
            let run = s.spawn(|| multiplexer.run());
            publish.send(1).unwrap();
            assert_eq!(heard.recv(), Ok(Ok(1)));
            multiplexer.close();
            multiplexer.close();
            assert_eq!(heard.recv(), Ok(Err(Closed)));
            assert_eq!(run.join().unwrap(), Ok(()));
        });
        assert!(multiplexer.is_closed());
        assert!(heard.is_empty() && !heard.is_closed() && !published.is_closed());
        assert_eq!(multiplexer.add_publisher(published.clone()), Err(Closed));
        assert_eq!(multiplexer.add_subscriber(to.clone()), Err(Closed));
        assert_eq!(multiplexer.remove_publisher(&published), Err(Closed));
        assert_eq!(multiplexer.remove_subscriber(&to), Err(Closed));
        assert_eq!(multiplexer.run(), Ok(()));
    });
}

/// - given: a multiplexer that was closed before it ran
/// - when: `run` is called on a plain thread
/// - then: the subscribers are notified, and it returns
#[test]
fn hub_05_closed_before_it_runs() {
    let multiplexer = Multiplexer::<u32>::default();
    let (to, heard) = channel::unbounded();
    multiplexer.add_subscriber(to).unwrap();
    multiplexer.close();
    // This also works on a plain thread.
    assert_eq!(multiplexer.run(), Ok(()));
    assert_eq!(heard.iter().collect::<Vec<_>>(), [Err(Closed)]);
}

/// - given: a publisher that has ended, and a subscriber that closes while it stalls
/// - when: a multiplexer runs
/// - then: both are removed automatically, and the others continue
#[test]
fn hub_06_the_closed_leave() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let (publish, published) = channel::unbounded();
        let ((lost, unheard), (to, heard)) = (channel::bounded(0), channel::unbounded());
        multiplexer.add_subscriber(lost).unwrap();
        multiplexer.add_subscriber(to).unwrap();
        multiplexer.add_publisher(flow::from_iter([1])).unwrap();
        multiplexer.add_publisher(published).unwrap();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            assert_eq!(heard.recv(), Ok(Ok(1)));
            settle();
            // It held the value back, and is dropped with it.
            drop(unheard);
            publish.send(2).unwrap();
            publish.send(3).unwrap();
            assert_eq!((heard.recv(), heard.recv()), (Ok(Ok(2)), Ok(Ok(3))));
            multiplexer.close();
        });
    });
}

/// - given: a subscriber that does not read
/// - when: it is removed
/// - then: the others continue at once
#[test]
fn hub_07_removed_while_it_stalls() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let ((slow, slowly), (to, heard)) = (channel::bounded(0), channel::unbounded());
        multiplexer.add_subscriber(slow.clone()).unwrap();
        multiplexer.add_subscriber(to).unwrap();
        let source = flow::from_iter(1..=2);
        multiplexer.add_publisher(source.clone()).unwrap();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            assert_eq!(heard.recv(), Ok(Ok(1)));
            settle();
            assert_eq!(source.len(), 1);
            multiplexer.remove_subscriber(&slow).unwrap();
            assert_eq!(heard.recv(), Ok(Ok(2)));
            assert!(slowly.try_recv().unwrap_err().is_empty());
            multiplexer.close();
        });
    });
}

/// - given: publishers and subscribers added, one publisher removed
/// - when: `run` begins
/// - then: all of these changes take effect before a value is read
#[test]
fn hub_08_what_was_told_comes_first() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let ((first, one), (second, two)) = (channel::unbounded(), channel::unbounded());
        let removed = flow::from_iter([0]);
        // All of these requests are handled before a value is read.
        multiplexer.add_publisher(flow::from_iter(1..=100)).unwrap();
        multiplexer.add_publisher(removed.clone()).unwrap();
        multiplexer.add_subscriber(first).unwrap();
        multiplexer.add_subscriber(second).unwrap();
        multiplexer.remove_publisher(&removed).unwrap();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            for receiver in [&one, &two] {
                let heard: Vec<_> = flow::take(receiver, 100).map(Result::unwrap).collect();
                assert_eq!(heard, (1..=100).collect::<Vec<_>>());
            }
            multiplexer.close();
        });
        assert_eq!(removed.recv(), Ok(0));
    });
}

/// - given: a value that one subscriber has received and another has not
/// - when: `run` is cancelled, and called again
/// - then: the other one receives it; nothing is lost or sent twice
#[test]
fn hub_09_cancelled_and_run_again() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let ((slow, slowly), (to, heard)) = (channel::bounded(0), channel::unbounded());
        multiplexer.add_subscriber(slow).unwrap();
        multiplexer.add_subscriber(to).unwrap();
        multiplexer.add_publisher(flow::from_iter(1..=2)).unwrap();
        ecru::scope(|s| {
            let run = s.spawn(|| multiplexer.run());
            assert_eq!(heard.recv(), Ok(Ok(1)));
            settle();
            run.cancel();
            assert!(run.join().unwrap().is_err());
            s.spawn(|| multiplexer.run().unwrap());
            assert_eq!((slowly.recv(), slowly.recv()), (Ok(Ok(1)), Ok(Ok(2))));
            assert_eq!(heard.recv(), Ok(Ok(2)));
            multiplexer.close();
            assert_eq!(slowly.recv(), Ok(Err(Closed)));
        });
    });
}

/// - given: a `run` in progress
/// - when: another `run` is called
/// - then: it panics and says why; the first continues
#[test]
fn hub_10_one_run_at_a_time() {
    each_run(|| {
        let multiplexer = Multiplexer::<u32>::new();
        let begun = AtomicBool::new(false);
        ecru::scope(|s| {
            let run = s.spawn(|| {
                begun.store(true, SeqCst);
                multiplexer.run()
            });
            until(|| begun.load(SeqCst));
            settle();
            assert!(panic_text(|| multiplexer.run()).contains("running already"));
            multiplexer.close();
            assert_eq!(run.join().unwrap(), Ok(()));
        });
    });
}

/// - given: publishers and no subscriber
/// - when: a multiplexer runs
/// - then: the values are dropped
#[test]
fn hub_11_nobody_subscribed() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let source = flow::from_iter(1..=10);
        multiplexer.add_publisher(source.clone()).unwrap();
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            until(|| source.is_empty());
            multiplexer.close();
        });
    });
}

/// Cloning the value 13 panics; cloning 14 uses the multiplexer.
#[derive(Debug)]
struct Touchy(u32, Weak<Multiplexer<Touchy>>);

impl Clone for Touchy {
    fn clone(&self) -> Self {
        if self.0 == 13 {
            quiet_panic("unlucky");
        }
        if let Some(multiplexer) = self.1.upgrade() {
            multiplexer.remove_publisher(channel::never()).unwrap();
        }
        Touchy(self.0, Weak::clone(&self.1))
    }
}

/// - given: values whose `clone` uses the multiplexer, or panics
/// - when: a multiplexer runs
/// - then: using it works, since no lock is held; a panic ends `run`, and a later `run` continues
#[test]
fn hub_34_clones_are_user_code() {
    each_run(|| {
        let multiplexer = Arc::new(Multiplexer::new());
        let (to, heard) = channel::unbounded();
        let (other, _other) = channel::sliding(1);
        multiplexer.add_subscriber(other).unwrap();
        multiplexer.add_subscriber(to).unwrap();
        let values = [1, 13, 2].map(|n| Touchy(n, Arc::downgrade(&multiplexer)));
        multiplexer.add_publisher(flow::from_iter(values)).unwrap();
        assert_eq!(panic_text(|| multiplexer.run()), "unlucky");
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run().unwrap());
            let heard: Vec<_> = flow::take(&heard, 2).map(|value| value.unwrap().0).collect();
            assert_eq!(heard, [1, 2]);
            multiplexer.close();
        });
    });
}

/// - given: a multiplexer whose only publisher has ended
/// - when: it runs on a thread
/// - then: it uses no CPU time
#[test]
fn hub_35_no_spinning() {
    let multiplexer = Multiplexer::<u32>::new();
    let (to, heard) = channel::unbounded();
    multiplexer.add_subscriber(to).unwrap();
    multiplexer.add_publisher(flow::from_iter([1])).unwrap();
    std::thread::scope(|s| {
        let spent = s.spawn(|| {
            let processor = ProcessorClock::of_this_thread();
            let before = processor.used();
            multiplexer.run().unwrap();
            processor.used() - before
        });
        assert_eq!(heard.recv(), Ok(Ok(1)));
        // The publisher has ended. The test measures the processor time of the other thread, which
        // must be zero.
        std::thread::sleep(ms(50));
        multiplexer.close();
        let spent = spent.join().unwrap();
        assert!(spent < ms(25), "it was on the CPU for {spent:?}");
    });
}
