//! One bar for the whole fleet. It counts files by their reports.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::{Show, write_line};
use crate::runtime;
use crate::units::bytes;

/// The intervals at which the bar is drawn and lines are written. Each time the server is asked how
/// many files are under way.
const DRAW_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The bar, or the lines instead of it.
pub(super) struct Bar {
    show: Show,
    started: Instant,
    bar: ProgressBar,
    counts: Mutex<Counts>,
}

/// What the reports say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) received: u64,
    pub(super) workers: usize,
}

impl Bar {
    pub(super) fn new(files: usize, show: Show) -> Self {
        let target = match show {
            Show::Bars => ProgressDrawTarget::stderr(),
            Show::Lines | Show::Nothing => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files done, {msg}")
            .expect("the template is a constant");
        let bar = ProgressBar::with_draw_target(Some(files as u64), target).with_style(style);
        Self { show, started: runtime::now(), bar, counts: Mutex::default() }
    }

    pub(super) fn update(&self, counts: Counts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// Writes a line without disturbing the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| write_line(line));
    }

    /// Shows the progress until it is cancelled. `under_way` returns how many files the workers
    /// hold.
    pub(super) fn keep_showing(&self, under_way: impl Fn() -> u64) {
        let every = match self.show {
            Show::Bars => DRAW_EVERY,
            Show::Lines => LINE_EVERY,
            Show::Nothing => return,
        };
        while runtime::sleep(every).is_ok() {
            let under_way = under_way();
            let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = rest(counts, under_way);
            if self.show == Show::Bars {
                self.bar.set_position(counts.done);
                self.bar.set_message(rest);
            } else {
                let seconds = runtime::now().duration_since(self.started).as_secs_f64();
                let files = self.bar.length().unwrap_or_default();
                write_line(&format!(
                    "{seconds:.0} s: {} of {files} files done, {rest}",
                    counts.done
                ));
            }
        }
        self.bar.finish_and_clear();
    }
}

fn rest(counts: Counts, under_way: u64) -> String {
    let Counts { failed, received, workers, .. } = counts;
    let mut rest = format!(
        "{failed} failed, {under_way} under way, {} by {workers} worker{}",
        bytes(received),
        if workers == 1 { "" } else { "s" }
    );
    if under_way == 0 {
        rest.push_str("; is a --worker running?");
    }
    rest
}
