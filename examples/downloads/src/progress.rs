//! Progress: counters that downloads advance, and the bars drawn from them. If standard error is
//! not a terminal, lines are written now and then instead.
//!
//! Downloads only add to atomics. One companion task draws, ten times a second. Five hundred
//! downloads therefore neither wait for the terminal nor need room for it on their small stacks.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::runtime;
use crate::units::bytes;

/// The number of files that have a bar of their own.
const BARS: usize = 8;

/// The intervals at which bars are drawn and lines are written.
const DRAW_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Bars,
    Lines,
    Nothing,
}

impl Show {
    pub(crate) fn choose(quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

/// The counters of one batch of downloads.
#[derive(Debug)]
pub(crate) struct Progress {
    files: usize,
    /// The bytes of all files, if known beforehand.
    expected: Option<u64>,
    show: Show,
    started: Instant,
    received: AtomicU64,
    done: AtomicUsize,
    failed: AtomicUsize,
    active: AtomicUsize,
    peak: AtomicUsize,
    shown: Mutex<[Option<Arc<Shown>>; BARS]>,
    screen: MultiProgress,
}

/// A file with a bar of its own.
#[derive(Debug)]
struct Shown {
    name: String,
    at: AtomicU64,
    /// 0 while unknown.
    length: AtomicU64,
}

impl Progress {
    pub(crate) fn new(files: usize, expected: Option<u64>, show: Show) -> Self {
        Self {
            files,
            expected,
            show,
            started: runtime::now(),
            received: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            shown: Mutex::default(),
            screen: MultiProgress::new(),
        }
    }

    /// Registers a download, which ends when the lane is dropped.
    pub(crate) fn lane(&self, name: &str) -> Lane<'_> {
        let active = self.active.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(active, Relaxed);
        let mut bar = None;
        if self.show == Show::Bars {
            let mut shown = self.shown.lock().expect("no panic under this lock");
            if let Some(free) = shown.iter_mut().find(|slot| slot.is_none()) {
                let file = Shown {
                    name: name.to_string(),
                    at: AtomicU64::new(0),
                    length: AtomicU64::new(0),
                };
                bar = Some(Arc::clone(free.insert(Arc::new(file))));
            }
        }
        Lane { progress: self, bar }
    }

    /// Returns the largest number of downloads that ran at one moment.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Returns the number of body bytes that have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Writes a line without disturbing the bars.
    pub(crate) fn say(&self, line: &str) {
        self.screen.suspend(|| write_line(line));
    }

    /// Shows progress until it is cancelled.
    pub(crate) fn keep_showing(&self) {
        match self.show {
            Show::Bars => self.keep_drawing(),
            Show::Lines => {
                while runtime::sleep(LINE_EVERY).is_ok() {
                    write_line(&self.line());
                }
            }
            Show::Nothing => {}
        }
    }

    fn line(&self) -> String {
        format!(
            "{:.0} s: {} of {} files done, {} failed, {} under way, {}",
            runtime::now().duration_since(self.started).as_secs_f64(),
            self.done.load(Relaxed),
            self.files,
            self.failed.load(Relaxed),
            self.active.load(Relaxed),
            bytes(self.received())
        )
    }

    fn keep_drawing(&self) {
        let style = |template: &str| {
            ProgressStyle::with_template(template).expect("the templates are constants")
        };
        let whole = match self.expected {
            Some(_) => {
                "{bar:40} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {msg}"
            }
            None => "{spinner} {decimal_bytes} {decimal_bytes_per_sec} {msg}",
        };
        let overall =
            self.screen.add(ProgressBar::new(self.expected.unwrap_or(0)).with_style(style(whole)));
        let known = style("  {bar:38} {decimal_bytes}/{decimal_total_bytes} {wide_msg}");
        let unknown = style("  {spinner} {decimal_bytes} {wide_msg}");
        let mut bars: Vec<ProgressBar> = Vec::new();
        while runtime::sleep(DRAW_EVERY).is_ok() {
            overall.set_position(self.received());
            overall.set_message(format!(
                "{}/{} files, {} under way",
                self.done.load(Relaxed),
                self.files,
                self.active.load(Relaxed)
            ));
            let shown = self.shown.lock().expect("no panic under this lock").clone();
            for (row, file) in shown.iter().flatten().enumerate() {
                if bars.len() == row {
                    bars.push(self.screen.add(ProgressBar::new(0)));
                }
                let length = file.length.load(Relaxed);
                bars[row].set_style(if length > 0 { known.clone() } else { unknown.clone() });
                bars[row].set_length(length);
                bars[row].set_message(file.name.clone());
                bars[row].set_position(file.at.load(Relaxed));
            }
            for gone in bars.drain(shown.iter().flatten().count().min(bars.len())..) {
                self.screen.remove(&gone);
            }
        }
        for bar in bars {
            self.screen.remove(&bar);
        }
        overall.finish_and_clear();
    }
}

/// Writes a line. A closed standard error does not stop the downloads, while `eprintln!` would
/// panic.
pub(crate) fn write_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// One download's side of the progress.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    progress: &'a Progress,
    bar: Option<Arc<Shown>>,
}

impl Lane<'_> {
    /// Records that a body starts at `offset` of a file of `length`.
    pub(crate) fn starts(&self, offset: u64, length: Option<u64>) {
        if let Some(bar) = &self.bar {
            bar.at.store(offset, Relaxed);
            bar.length.store(length.unwrap_or(0), Relaxed);
        }
    }

    pub(crate) fn advances(&self, count: u64) {
        self.progress.received.fetch_add(count, Relaxed);
        if let Some(bar) = &self.bar {
            bar.at.fetch_add(count, Relaxed);
        }
    }

    /// Records that the file is complete.
    pub(crate) fn succeeds(self) {
        self.progress.done.fetch_add(1, Relaxed);
    }

    pub(crate) fn fails(self) {
        self.progress.failed.fetch_add(1, Relaxed);
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.progress.active.fetch_sub(1, Relaxed);
        let Some(bar) = &self.bar else { return };
        let mut shown = self.progress.shown.lock().expect("no panic under this lock");
        for slot in shown.iter_mut() {
            slot.take_if(|taken| Arc::ptr_eq(taken, bar));
        }
    }
}
