//! Cancellation, shown in a kitchen: one failure stops the other tasks, a cook is told to stop, and
//! the clean-up is done nevertheless.

use ecru::{CancelReason, Cancelled, cancel_scope, scope, shield, sleep, timeout, try_scope};
use std::time::Duration;

/// Longer than any wait here lasts, because all of them are cancelled.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[derive(Debug, PartialEq)]
enum Trouble {
    Burnt(&'static str),
    Stopped(CancelReason),
}

impl From<Cancelled> for Trouble {
    fn from(cancelled: Cancelled) -> Trouble {
        Trouble::Stopped(cancelled.reason())
    }
}

fn main() {
    ecru::run(|| {
        // The first failure cancels the siblings, and the scope returns it.
        let breakfast = try_scope(|s| {
            s.spawn(|| cook("porridge"));
            s.spawn(|| cook("eggs"));
            s.spawn(|| -> Result<(), Trouble> {
                sleep(Duration::from_millis(30))?;
                Err(Trouble::Burnt("toast"))
            });
            Ok(())
        });
        println!("breakfast: {breakfast:?}\n");
        assert_eq!(breakfast, Err(Trouble::Burnt("toast")));

        // A section of a task can be cancelled by another task. The code after the section is not
        // cancelled.
        let second_try = cancel_scope(|guests_leave| {
            scope(|s| {
                s.spawn(move || sleep(Duration::from_millis(30)).map(|()| guests_leave.cancel()));
                cook("pancakes")
            })
        });
        println!("second try: {second_try:?}\n");
        assert_eq!(second_try, Err(Trouble::Stopped(CancelReason::Explicit)));

        // Cancellation is an error value. Code in a shield continues in spite of it.
        let mut clean = false;
        let third_try = timeout(Duration::from_millis(30), || {
            let soup = cook("soup");
            clean = shield(|| sleep(Duration::from_millis(20))).is_ok();
            soup
        });
        println!("third try: {third_try:?}; the kitchen is clean: {clean}");
        assert!(third_try.is_err() && clean);
    });
}

fn cook(dish: &str) -> Result<(), Trouble> {
    println!("{dish}: on the stove");
    let stopped = sleep(FOR_EVER);
    println!("{dish}: taken off, {stopped:?}");
    Ok(stopped?)
}
