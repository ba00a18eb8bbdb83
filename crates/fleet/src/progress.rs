//! How far jobs are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::held::Held;

/// The longest text, in bytes.
const MAX_TEXT: usize = 256;

/// The least time between two reports of a job that are sent.
const PAUSE: Duration = Duration::from_millis(500);

/// How far a job is: see [`Job::progress`](crate::Job::progress).
///
/// # Examples
/// ```
/// use ecru_fleet::Progress;
///
/// let progress = Progress::new(30, 120).with_text("pages");
/// assert_eq!((progress.percent(), progress.text()), (25, "pages"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    done: u64,
    total: u64,
    #[serde(default)]
    text: String,
}

impl Progress {
    /// Creates the progress of a job that has done `done` of `total` steps of any kind.
    #[must_use]
    pub fn new(done: u64, total: u64) -> Progress {
        Progress { done, total, text: String::new() }
    }

    /// Adds a text, such as what is being done. It is cut after 256 bytes.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Progress {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end));
        self.text = text[..end.unwrap_or(0)].to_owned();
        self
    }

    /// Returns how many steps are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Returns how many steps there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the text, which is empty if there is none.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns which part is done, from 0 to 100, rounded down. It is 0 if the total is 0.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let percent = u128::from(self.done) * 100 / u128::from(self.total.max(1));
        if self.total == 0 { 0 } else { percent.min(100) as u8 }
    }
}

/// Returns the average of the percentages.
pub(crate) fn average<'a>(all: impl ExactSizeIterator<Item = &'a Progress>) -> Option<u8> {
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    let sum: u64 = all.map(|progress| u64::from(progress.percent())).sum();
    u8::try_from(sum / count).ok()
}

/// The reports of a job that is held here. One task at a time sends them, so they stay in order.
#[derive(Default)]
pub(crate) struct Reports(Mutex<State>);

#[derive(Default)]
struct State {
    /// The last report, if it was not sent yet.
    waiting: Option<Progress>,
    sent_at: Option<Instant>,
    is_sending: bool,
    /// There was one.
    reported: bool,
    /// The job is not held any more, and there is something to remove.
    ended: bool,
}

impl Reports {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Reports how far the job is, without waiting. A report that comes soon after another one is
    /// sent with the next one, or when the lease is renewed.
    pub(crate) fn report(self: &Arc<Held>, progress: &Progress) {
        let mut state = self.reports.state();
        if state.ended {
            return;
        }
        (state.waiting, state.reported) = (Some(progress.clone()), true);
        let now = ecru::time::now();
        let is_due = state.sent_at.is_none_or(|at| now.saturating_duration_since(at) >= PAUSE);
        let begins = is_due && !state.is_sending;
        state.is_sending |= begins;
        drop(state);
        if begins {
            self.send_reports();
        }
    }

    /// Sends a report that waits.
    pub(crate) fn flush_report(self: &Arc<Held>) {
        let mut state = self.reports.state();
        let begins = state.waiting.is_some() && !state.is_sending;
        state.is_sending |= begins;
        drop(state);
        if begins {
            self.send_reports();
        }
    }

    /// Begins the end of the reports. Returns whether the caller is to remove the last one.
    fn end_reports(&self) -> bool {
        let mut state = self.reports.state();
        // An earlier holder may have died before it could remove its own.
        if state.ended || !(state.reported || self.attempt() > 1) {
            return false;
        }
        (state.ended, state.waiting) = (true, None);
        !std::mem::replace(&mut state.is_sending, true)
    }

    /// The job is about to be settled, so its progress is nothing to show any more. May wait for
    /// room to send, and not for an answer.
    pub(crate) fn remove_report(&self) {
        if self.end_reports() {
            ecru::shield_for(PAUSE, || self.given.lease.report(None));
        }
    }

    /// The job is not held any more. Does not wait.
    pub(crate) fn remove_report_later(self: &Arc<Held>) {
        if self.end_reports() {
            self.send_reports();
        }
    }

    fn send_reports(self: &Arc<Held>) {
        let own = Arc::clone(self);
        let sending = move || {
            loop {
                let mut state = own.reports.state();
                let (report, is_last) = (state.waiting.take(), state.ended);
                state.sent_at = Some(ecru::time::now());
                drop(state);
                own.given.lease.report(report.as_ref());
                let mut state = own.reports.state();
                if is_last || !state.ended {
                    // After the last one it stays set, so that nothing follows.
                    state.is_sending = is_last;
                    return;
                }
            }
        };
        if self.core().keep(Box::new(sending)).is_err() {
            // The fleet is about to end. The settlement of the job still removes what was sent.
            self.reports.state().is_sending = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_bounds() {
        let percents = [(0, 0), (1, 0), (1, 3), (3, 3), (4, 3), (u64::MAX, u64::MAX)]
            .map(|(done, total)| Progress::new(done, total).percent());
        assert_eq!(percents, [0, 0, 33, 100, 100, 100]);
        let long = Progress::new(1, 2).with_text(&"ä".repeat(200));
        assert_eq!(long.text().len(), 256);
        assert_eq!(Progress::new(1, 2).with_text(&format!("x{}", long.text())).text().len(), 255);
        let all = [Progress::new(1, 2), Progress::new(1, 4)];
        assert_eq!((average(all.iter()), average([].iter())), (Some(37), None));
    }
}
