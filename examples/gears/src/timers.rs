//! Timers that are started, awaited and cancelled; and time limits.

use std::io;
use std::time::Duration;

use ecru::Source;
use ecru::time::{Timer, TimerState};

use crate::page::Page;
use crate::{FOREVER, Failure};

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Timers")?;
    let timer = Timer::new(Duration::from_millis(5));
    page.line("val t = StartableTimer(5)", timer.state(), TimerState::Ready)?;
    timer.start().expect("it is ready");
    let again = timer.start().map_err(|error| error.to_string());
    page.say("t.start(); t.start()", &again.expect_err("it was started before"))?;
    page.line("Async.await(t)", timer.wait(), Ok(true))?;
    page.line("Async.await(t), again", timer.wait(), Ok(true))?;

    let cancelled = Timer::new(FOREVER);
    cancelled.start().expect("it is ready");
    let rang = ecru::scope(|s| {
        let rang = s.spawn(|| cancelled.wait());
        cancelled.cancel();
        rang.join().expect("it does not panic")
    });
    page.line("val t = Timer(..); t.cancel(); Async.await(t)", rang, Ok(false))?;

    let late = ecru::timeout(Duration::from_millis(5), || ecru::sleep(FOREVER));
    page.line("withTimeout(5.millis)(sleep(1.hour))", late.is_err(), true)?;
    let in_time = ecru::timeout(FOREVER, || Ok::<_, Failure>("in time"));
    page.line("withTimeoutOption(1.hour)(\"in time\")", in_time.ok(), Some(Ok("in time")))
}
