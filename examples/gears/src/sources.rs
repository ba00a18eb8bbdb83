//! Sources: races, and sources made from other sources.

use std::io;
use std::time::Duration;

use ecru::channel;
use ecru::source::{self, Either};
use ecru::{Source, select};

use crate::FOREVER;
use crate::page::Page;

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Sources")?;
    races(page)?;
    made_of_others(page)
}

fn races(page: &mut Page<'_>) -> io::Result<()> {
    let first = ecru::scope(|s| {
        let after = |length| s.spawn(move || ecru::sleep(length).map(|()| length));
        let futures = [after(FOREVER), after(Duration::from_millis(10)), after(FOREVER)];
        let first = source::race(&futures).wait();
        s.cancel();
        first.map(|joined| joined.expect("it does not panic"))
    });
    let expected = Ok(Ok(Duration::from_millis(10)));
    page.line("Async.await(Async.race(f1, f2, f3))", first, expected)?;

    // The losers of a race lose nothing.
    let [(a, one), (b, two), (c, three)] = std::array::from_fn(|_| channel::unbounded());
    for (sender, value) in [(a, 1), (b, 2), (c, 3)] {
        sender.send(value).expect("it is read");
    }
    let readers = [one, two, three];
    let first = source::race(&readers).wait().expect("the page is never cancelled");
    let left: Vec<u32> = readers.iter().flat_map(channel::Receiver::try_iter).collect();
    assert_eq!(first.expect("there was one") + left.iter().sum::<u32>(), 6);
    page.line("race(c1.canRead, c2.canRead, c3.canRead), left over", left.len(), 2)?;

    let (letters, letter) = channel::unbounded();
    letters.send("a letter").expect("it is read");
    let either = source::either(&letter, channel::after(FOREVER)).wait();
    let is_left = matches!(either, Ok(Either::Left(Ok("a letter"))));
    page.line("Async.either(letters.canRead, timer), isLeft", is_left, true)?;
    let either = source::either(&letter, channel::after(Duration::from_millis(5))).wait();
    page.line("  and with no letter, isLeft", matches!(either, Ok(Either::Left(_))), false)
}

fn made_of_others(page: &mut Page<'_>) -> io::Result<()> {
    let (sender, receiver) = channel::unbounded();
    sender.send(20).expect("it is read");
    let doubled = (&receiver).map(|read| read.map(|n| 2 * n)).wait();
    page.line("Async.await(c.canRead.map(_.map(_ * 2)))", doubled, Ok(Ok(40)))?;

    // A value that a filter refuses stays in its channel.
    sender.send(3).expect("it is read");
    let even = (&receiver).filter(|n| n % 2 == 0);
    page.line("c.canRead.filter(_ % 2 == 0).poll()", even.try_take(), None)?;
    page.line("c.read()", receiver.recv(), Ok(3))?;

    let (words, word) = channel::unbounded();
    words.send("stackful").expect("it is read");
    let said = select! {
        recv(receiver) -> number => format!("the number {number:?}"),
        recv(word) -> word => format!("the word {}", word.expect("there is one")),
    };
    page.line("Async.select(c.handle(..), words.handle(..))", said.as_str(), "the word stackful")
}
