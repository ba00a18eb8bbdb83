//! Rows of `doc/behaviour/hub.md`.

mod broadcast;
mod fanout;
mod mixer;
mod multiplexer;
mod topics;

use crate::common::until;
use crate::simulated::each_run;
use ecru::channel;
use ecru_flow::{self as flow, Fanout, Mixer, Multiplexer};

/// - given: a multiplexer, a mixer and a fanout, one behind another, and no buffer between them
/// - when: all of them run
/// - then: everything arrives, in order; the last tap may be polled
#[test]
fn hub_36_one_behind_another() {
    each_run(|| {
        let multiplexer = Multiplexer::new();
        let (first, between) = channel::bounded(0);
        multiplexer.add_publisher(flow::from_iter(0..100)).unwrap();
        multiplexer.add_subscriber(first).unwrap();
        let (second, mixed) = channel::bounded(0);
        let mixer = Mixer::new(second);
        mixer.add(between);
        let fanout = Fanout::new(mixed);
        let ((tap, taken), (polled_tap, polled)) = (channel::bounded(0), channel::bounded(0));
        fanout.tap(tap);
        fanout.tap(polled_tap);
        ecru::scope(|s| {
            s.spawn(|| multiplexer.run());
            s.spawn(|| mixer.run());
            s.spawn(|| fanout.run());
            for n in 0..100 {
                assert_eq!(taken.recv(), Ok(Ok(n)));
                until(|| polled.try_recv() == Ok(Ok(n)));
            }
            s.cancel();
        });
    });
}
