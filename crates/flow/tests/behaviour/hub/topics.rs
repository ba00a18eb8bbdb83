//! Values by topic, for the subscribers of each topic.

use crate::common::{settle, until};
use crate::simulated::each_run;
use ecru::channel::{self, RecvError};
use ecru::sim::{self, Simulation};
use ecru_flow::{self as flow, PubSub};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: two topics with two subscribers each
/// - when: a pub-sub runs
/// - then: each subscriber gets its topic's values, in order, and the end
#[test]
fn hub_28_topics() {
    each_run(|| {
        let news = PubSub::new(flow::from_iter(0..100_u32), |n| n % 3);
        let subscriptions: Vec<_> = [0, 0, 1, 1].map(|topic| (topic, news.subscribe(topic))).into();
        ecru::scope(|s| {
            s.spawn(|| news.run().unwrap());
            let readers: Vec<_> = (subscriptions.iter())
                .map(|(topic, subscription)| {
                    s.spawn(move || (*topic, flow::collect(&**subscription)))
                })
                .collect();
            for reader in readers {
                let (topic, heard) = reader.join().unwrap();
                let expected = (0..100).filter(|n| n % 3 == topic).collect::<Vec<_>>();
                assert_eq!(heard, Ok(expected));
            }
        });
    });
}

/// - given: a topic without subscribers
/// - when: its value comes
/// - then: it is dropped
#[test]
fn hub_29_unmatched_is_dropped() {
    each_run(|| {
        let source = flow::from_iter(0..10);
        let news = PubSub::new(source.clone(), |n| *n);
        let five = news.subscribe_buffered(5, 1);
        news.run().unwrap();
        assert!(source.is_empty());
        assert_eq!(flow::collect(&*five), Ok(vec![5]));
    });
}

/// - given: a slow subscriber, without and with a buffer for its topic
/// - when: values of its topic come
/// - then: one value, and as many as the buffer takes, delay nothing; one more value stalls all
///   topics until the slow subscriber reads
#[test]
fn hub_30_slow_topic() {
    each_run(|| {
        for capacity in [0, 2] {
            let (sender, source) = channel::unbounded();
            let news = PubSub::with_buffers(source.clone(), |n: &u32| n % 2, |_| capacity);
            let (slow, quick) = (news.subscribe(1), news.subscribe(0));
            ecru::scope(|s| {
                s.spawn(|| news.run().unwrap());
                // One value on its way, and as many as the buffer takes, do not delay the other
                // topics.
                let odd = (0..=capacity as u32).map(|n| 2 * n + 1);
                flow::send_all(&sender, odd.chain([100])).unwrap();
                assert_eq!(quick.recv(), Ok(100));
                // One more does.
                flow::send_all(&sender, [51, 102]).unwrap();
                until(|| source.len() == 1);
                settle();
                assert!(quick.try_recv().is_err() && source.len() == 1);
                assert_eq!(slow.recv(), Ok(1));
                assert_eq!(quick.recv(), Ok(102));
                sender.close();
                let mut rest = flow::collect(&*slow).unwrap();
                assert_eq!(rest.pop(), Some(51));
                assert_eq!(rest, (1..=capacity as u32).map(|n| 2 * n + 1).collect::<Vec<_>>());
            });
        }
    });
}

/// - given: a subscription that stalls all topics
/// - when: it is dropped
/// - then: the others continue; its topic has ended, and begins anew with the next subscriber
#[test]
fn hub_31_subscription_is_dropped() {
    each_run(|| {
        let (sender, source) = channel::unbounded();
        let asked = AtomicUsize::new(0);
        let news = PubSub::with_buffers(
            source.clone(),
            |n: &u32| n % 2,
            |_| {
                asked.fetch_add(1, SeqCst);
                0
            },
        );
        let (slow, quick) = (news.subscribe(1), news.subscribe(0));
        ecru::scope(|s| {
            s.spawn(|| news.run().unwrap());
            flow::send_all(&sender, [1, 3, 2]).unwrap();
            until(|| source.len() == 1);
            settle();
            assert_eq!(source.len(), 1, "3 has to wait until 1 has gone");
            drop(slow);
            assert_eq!(quick.recv(), Ok(2));
            // The topic ended with its last subscriber, and now begins anew.
            let again = news.subscribe(1);
            settle();
            flow::send_all(&sender, [5]).unwrap();
            assert_eq!(again.recv(), Ok(5));
            drop(sender);
        });
        drop(news);
        assert_eq!(asked.into_inner(), 3);
    });
}

/// - given: values in the buffers of topics
/// - when: the source ends
/// - then: the values are delivered, then the topic's subscriptions end, while another topic's may
///   continue; a later subscription has ended from the start
#[test]
fn hub_32_news_end() {
    each_run(|| {
        let news = PubSub::with_buffers(flow::from_iter(0..4), |_: &u32| "all", |_| 8);
        let early = news.subscribe("all");
        ecru::scope(|s| {
            s.spawn(|| news.run().unwrap());
            // Everything that has come is delivered first.
            assert_eq!(flow::collect(&*early), Ok(vec![0, 1, 2, 3]));
        });
        assert_eq!(news.subscribe("all").recv(), Err(RecvError::Disconnected));
        assert_eq!(news.run(), Ok(()));

        // Each topic ends by itself: the odd values are read after the even ones have ended.
        let news = PubSub::with_buffers(flow::from_iter(0..8), |n: &u32| n % 2, |_| 8);
        let (even, odd) = (news.subscribe(0), news.subscribe(1));
        ecru::scope(|s| {
            s.spawn(|| news.run().unwrap());
            assert_eq!(flow::collect(&*even), Ok(vec![0, 2, 4, 6]));
            assert_eq!(news.subscribe(0).recv(), Err(RecvError::Disconnected));
            assert_eq!(flow::collect(&*odd), Ok(vec![1, 3, 5, 7]));
        });
    });
}

/// - given: a value on its way
/// - when: `run` is cancelled, and called again
/// - then: nothing is lost or sent twice
#[test]
fn hub_33_news_cancelled() {
    each_run(|| {
        let news = PubSub::new(flow::from_iter(0..4), |_: &u32| ());
        let all = news.subscribe(());
        ecru::scope(|s| {
            let run = s.spawn(|| news.run());
            assert_eq!(all.recv(), Ok(0));
            settle();
            run.cancel();
            assert!(run.join().unwrap().is_err());
            s.spawn(|| news.run().unwrap());
            assert_eq!(flow::collect(&*all), Ok(vec![1, 2, 3]));
        });
    });
}

/// - given: a simulation with a `PubSub` of eight topics
/// - when: it is run twice with one seed, and the source ends
/// - then: both runs are the same, also in the order in which the subscriptions end
#[test]
fn hub_37_topics_in_a_simulation() {
    let run = |seed| {
        let report = Simulation::new(seed).run(|| {
            let (sender, source) = channel::unbounded();
            let news = PubSub::new(source, |n: &u32| n % 8);
            let topics = [0, 1, 2, 3, 4, 5, 6, 7].map(|topic| news.subscribe(topic));
            let ended = Mutex::new(Vec::new());
            ecru::scope(|s| {
                let (news, ended) = (&news, &ended);
                s.spawn(move || news.run().unwrap());
                for (topic, heard) in topics.into_iter().enumerate() {
                    s.spawn(move || {
                        assert_eq!(heard.iter().count(), 2);
                        ended.lock().unwrap().push(topic);
                    });
                }
                flow::send_all(&sender, 0..16).unwrap();
                // All of them wait when the source ends.
                sim::settle();
                drop(sender);
            });
            ended.into_inner().unwrap()
        });
        (report.trace_hash, report.unwrap())
    };
    assert_eq!(run(1), run(1));
}
