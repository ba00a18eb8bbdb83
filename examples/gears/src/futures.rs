//! Futures, promises, and several futures at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ecru::channel;
use ecru::sync::{Latch, SetOnce};

use crate::page::Page;
use crate::{FOREVER, Failure};

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Futures")?;
    values(page)?;
    cancelling(page)?;
    completed_by_others(page)
}

fn values(page: &mut Page<'_>) -> io::Result<()> {
    let sum = ecru::scope(|s| {
        let f1 = s.spawn(|| ecru::sleep(Duration::from_millis(10)).map(|()| 10));
        let f2 = s.spawn(|| ecru::sleep(Duration::from_millis(20)).map(|()| 40));
        Ok::<_, Failure>(f1.join()?? + f2.join()??)
    });
    page.line("f1.value + f2.value", sum, Ok(50))?;

    // A failure stays in its future until it is joined, and affects nothing else.
    let result = ecru::scope(|s| {
        let f = s.spawn(|| "ten".parse::<u32>().map_err(|_| Failure::new("no number")));
        f.join()?
    });
    page.line("Future { \"ten\".toInt }.result", result, Err(Failure::new("no number")))
}

fn cancelling(page: &mut Page<'_>) -> io::Result<()> {
    let begun = Latch::new(1);
    let result = ecru::scope(|s| {
        let f = s.spawn(|| {
            begun.count_down();
            ecru::sleep(FOREVER).map_err(Failure::from)
        });
        begun.wait()?;
        f.cancel();
        f.join()?
    });
    page.line("f.cancel(); f.result", result, Err(Failure::new("cancelled")))?;

    // The request is deferred and not lost: the first wait after the block gets it.
    let begun = Latch::new(1);
    let (inside, after) = ecru::scope(|s| {
        let f = s.spawn(|| {
            let inside = ecru::shield(|| {
                begun.count_down();
                ecru::sleep(Duration::from_millis(20)).map_err(Failure::from)
            });
            (inside, ecru::sleep(FOREVER).map_err(Failure::from))
        });
        begun.wait().expect("the page is never cancelled");
        f.cancel();
        f.join().expect("it does not panic")
    });
    page.line("uninterruptible { Thread.sleep(20) }", inside, Ok(()))?;
    page.line("  what comes after it", after, Err(Failure::new("cancelled")))
}

fn completed_by_others(page: &mut Page<'_>) -> io::Result<()> {
    let promise = SetOnce::new();
    let told = (promise.set(1), promise.set(2));
    page.line("p.complete(Success(1)); p.complete(Success(2))", told, (Ok(()), Err(2)))?;
    page.line("p.future.value", promise.wait(), Ok(&1))?;

    // A library with a callback, which may run on any thread.
    fn ask(callback: impl FnOnce(u32) + Send + 'static) {
        std::thread::spawn(|| callback(42));
    }
    let (resolve, resolved) = channel::oneshot();
    ask(move |answer| resolve.send(answer).expect("somebody waits for it"));
    page.line("Future.withResolver(r => ask(r.resolve))", resolved.recv(), Ok(42))
}

/// `zip`, `alt` and `altC`.
pub(crate) fn several(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Several futures")?;
    let pair = ecru::scope(|s| {
        ecru::zip((s.spawn(|| Ok::<_, Failure>(1)), s.spawn(|| Ok::<_, Failure>('a'))))
    });
    page.line("f1.zip(f2)", pair, Ok((1, 'a')))?;
    let four = ecru::scope(|s| {
        let number = |n: u32| s.spawn(move || Ok::<_, Failure>(n));
        ecru::zip((number(1), number(2), number(3), number(4)))
    });
    page.line("f1 *: f2 *: f3.zip(f4)", four, Ok((1, 2, 3, 4)))?;
    let failed = ecru::scope(|s| {
        let slow = s.spawn(|| Ok::<_, Failure>(ecru::sleep(FOREVER)?));
        let fails = s.spawn(|| Err::<(), _>(Failure::new("f2 failed")));
        let failed = ecru::zip((&slow, fails));
        // It was neither awaited nor cancelled.
        assert!(!slow.is_finished());
        slow.cancel();
        failed
    });
    page.line("f1.zip(f2), f2 fails", failed, Err(Failure::new("f2 failed")))?;
    first_of_three(page)
}

fn first_of_three(page: &mut Page<'_>) -> io::Result<()> {
    let (decided, ran) = (Latch::new(1), AtomicBool::new(false));
    let value = ecru::scope(|s| {
        let fails = s.spawn(|| Err(Failure::new("f1 failed")));
        let wins = s.spawn(|| Ok(2));
        let loses = s.spawn(|| {
            decided.wait()?;
            ran.store(true, Relaxed);
            Ok::<_, Failure>(3)
        });
        let value = ecru::first_ok_keep((fails, wins, loses));
        decided.count_down();
        value
    });
    page.line("alt(f1, f2, f3)", value, Ok(2))?;
    page.line("  and f3 ran on", ran.into_inner(), true)?;

    let ran = AtomicBool::new(false);
    let value = ecru::scope(|s| {
        let wins = s.spawn(|| Ok(2));
        let loses = s.spawn(|| {
            ecru::sleep(FOREVER)?;
            ran.store(true, Relaxed);
            Ok::<_, Failure>(3)
        });
        ecru::first_ok((wins, loses))
    });
    page.line("f1.altC(f2)", value, Ok(2))?;
    page.line("  and f2 ran on", ran.into_inner(), false)?;

    let value = ecru::scope(|s| {
        let fail = |word| s.spawn(move || Err::<u32, _>(Failure::new(word)));
        let first = fail("f1 failed");
        while !first.is_finished() {
            ecru::yield_now()?;
        }
        ecru::first_ok((first, fail("f2 failed, later")))
    });
    page.line("f1.altC(f2), both fail", value, Err(Failure::new("f2 failed, later")))
}
