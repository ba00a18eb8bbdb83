//! Channels of each kind, their three ends, and the multiplexer.

use std::io;

use ecru::channel::{self, RecvError};
use ecru::sync::Latch;
use ecru_flow::{Closed, Multiplexer};

use crate::page::Page;

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Channels")?;
    kinds(page)?;
    three_ends(page)?;
    competing(page)?;
    closing(page)?;
    multiplexer(page)
}

fn kinds(page: &mut Page<'_>) -> io::Result<()> {
    let (sender, receiver) = channel::bounded(0);
    let alone = sender.try_send(1).is_ok();
    page.line("SyncChannel: a send that meets no reader", alone, false)?;
    let read = ecru::scope(|s| {
        s.spawn(move || sender.send(2));
        receiver.recv()
    });
    page.line("  one that does", read, Ok(2))?;

    let (sender, _receiver) = channel::bounded(3);
    let room: Vec<bool> = (1..=4).map(|value| sender.try_send(value).is_ok()).collect();
    page.line("BufferedChannel(3): room for 1, 2, 3, 4", room, [true, true, true, false])?;

    let (sender, receiver) = channel::unbounded();
    (1..=1_000).for_each(|value: u32| sender.send(value).expect("it is read"));
    drop(sender);
    page.line("UnboundedChannel: the sum of 1 to 1000", receiver.iter().sum::<u32>(), 500_500)
}

/// As with a pipe, each of three parties gets only the end that it needs: to send, to read, or to
/// close.
fn three_ends(page: &mut Page<'_>) -> io::Result<()> {
    let (sendable, readable) = channel::bounded(0);
    let closeable = sendable.closer();
    let enough = Latch::new(1);
    let (told, read) = ecru::scope(|s| {
        let producer = s.spawn(move || {
            let refused = (0_u32..).find_map(|value| sendable.send(value).err());
            refused.expect("it goes on until it is refused").to_string()
        });
        let consumer = s.spawn(|| {
            let first: Vec<u32> = readable.iter().take(3).collect();
            enough.count_down();
            // A send that was waiting when the channel closed is still delivered, once its value is
            // read.
            readable.iter().last();
            first
        });
        s.spawn(|| enough.wait().map(|()| closeable.close()));
        (producer.join().expect("no panic"), consumer.join().expect("no panic"))
    });
    page.line("c.asReadable: three reads", read, [0, 1, 2])?;
    page.say("c.asCloseable.close(); c.asSendable.send(..)", &told)
}

fn competing(page: &mut Page<'_>) -> io::Result<()> {
    let (sender, receiver) = channel::bounded(1);
    let (left, right) = ecru::scope(|s| {
        let read = || receiver.iter().sum::<u32>();
        let readers = (s.spawn(read), s.spawn(read));
        s.spawn(move || (1..=100).try_for_each(|value| sender.send(value)));
        (readers.0.join().expect("no panic"), readers.1.join().expect("no panic"))
    });
    page.line("two readers of 1 to 100: their sums together", left + right, 5_050)
}

fn closing(page: &mut Page<'_>) -> io::Result<()> {
    let (sender, receiver) = channel::bounded(1);
    sender.send("a last word").expect("there is room");
    sender.close();
    page.line("c.close(); c.send(..) is refused", sender.send("another").is_err(), true)?;
    // gears drops the values of a closed channel. In ecru `close_now` does so, and `close` delivers
    // them.
    page.line("c.read()", receiver.recv(), Ok("a last word"))?;
    page.line("c.read()", receiver.recv(), Err(RecvError::Disconnected))
}

fn multiplexer(page: &mut Page<'_>) -> io::Result<()> {
    let multiplexer = Multiplexer::new();
    let subscribers: Vec<_> = (0..3)
        .map(|_| {
            let (sender, receiver) = channel::unbounded();
            multiplexer.add_subscriber(sender).expect("it is open");
            receiver
        })
        .collect();
    for publisher in [[1, 2, 3], [10, 20, 30]] {
        multiplexer.add_publisher(ecru_flow::from_iter(publisher)).expect("it is open");
    }
    let seen: Vec<Vec<u32>> = ecru::scope(|s| {
        s.spawn(|| multiplexer.run());
        let six = |subscriber: &channel::Receiver<Result<u32, Closed>>| {
            let values = subscriber.iter().take(6);
            values.collect::<Result<_, _>>().expect("it is open until all have read")
        };
        let seen = subscribers.iter().map(six).collect();
        multiplexer.close();
        seen
    });
    let mut sorted = seen[0].clone();
    sorted.sort_unstable();
    page.line("ChannelMultiplexer: 2 publishers, 3 subscribers", sorted, [1, 2, 3, 10, 20, 30])?;
    page.line("  all in one order", seen.iter().all(|one| *one == seen[0]), true)?;
    page.line("  each publisher's own order kept", keeps_order(&seen[0]), true)?;
    page.line("multiplexer.close(); subscriber.read()", subscribers[0].recv(), Ok(Err(Closed)))
}

fn keeps_order(values: &[u32]) -> bool {
    let of = |publisher: fn(&u32) -> bool| values.iter().copied().filter(publisher);
    of(|value| *value < 10).is_sorted() && of(|value| *value >= 10).is_sorted()
}
