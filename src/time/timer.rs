//! A timer that can be started and cancelled.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::park::WaitList;
use crate::source::{Arms, Pass, Source, Won};

/// The state of a [`Timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerState {
    /// The timer has not been started.
    Ready,
    /// The timer has been started, and its time has not come yet.
    Ticking,
    /// The timer's time has come.
    Rung,
    /// The timer has been cancelled, whatever its state was before.
    Cancelled,
}

/// A timer that rings once for all its waiters, a fixed duration after it was started.
///
/// A timer is a [`Source`] of one `bool`: `true` once it has rung, `false` if it was cancelled
/// before that. Once the item is there, it stays there. Cancelling a timer that has rung changes
/// its [`state`](Timer::state) but not its item.
///
/// A clone is a handle to the same timer. Ringing needs neither a thread nor a task, and all it
/// does is to wake the waiters.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::time::{Timer, TimerState};
/// use std::time::Duration;
///
/// let tea = Timer::new(Duration::from_millis(1));
/// assert_eq!(tea.try_take(), None);
/// tea.start().unwrap();
/// assert_eq!(tea.wait(), Ok(true));
/// assert_eq!(tea.state(), TimerState::Rung);
///
/// let egg = Timer::new(Duration::from_secs(240));
/// egg.start().unwrap();
/// egg.cancel();
/// assert_eq!(egg.wait(), Ok(false));
/// ```
#[derive(Clone)]
pub struct Timer {
    inner: Arc<Inner>,
}

struct Inner {
    duration: Duration,
    progress: Mutex<Progress>,
    waiters: WaitList,
}

struct Progress {
    stage: TimerStage,
    /// Whether a caller has obtained the wait list itself. Its waiters have no deadline, so an
    /// alarm has to wake them.
    watched: bool,
    alarm: Option<Alarm>,
}

#[derive(Clone, Copy)]
enum TimerStage {
    Ready,
    /// When the timer rings. `None` if that time is not representable.
    Started(Option<Instant>),
    Cancelled {
        rung: bool,
    },
}

impl TimerStage {
    fn state(self) -> TimerState {
        match self {
            TimerStage::Ready => TimerState::Ready,
            TimerStage::Started(Some(due)) if due <= clock::now() => TimerState::Rung,
            TimerStage::Started(_) => TimerState::Ticking,
            TimerStage::Cancelled { .. } => TimerState::Cancelled,
        }
    }
}

impl Ring for Inner {
    fn ring(&self) {
        self.waiters.notify_all();
    }
}

impl Timer {
    /// Creates a timer that rings `duration` after it is started.
    #[must_use]
    pub fn new(duration: Duration) -> Timer {
        let progress = Progress { stage: TimerStage::Ready, watched: false, alarm: None };
        let inner = Inner { duration, progress: Mutex::new(progress), waiters: WaitList::new() };
        Timer { inner: Arc::new(inner) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the timer. If its time is not representable, it never rings.
    ///
    /// # Errors
    /// Returns [`TimerStartError`] with the timer's state if that is not
    /// [`Ready`](TimerState::Ready).
    ///
    /// # Examples
    /// ```
    /// use ecru::time::{Timer, TimerState};
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// timer.start().unwrap();
    /// assert_eq!(timer.start().unwrap_err().state(), TimerState::Ticking);
    /// ```
    pub fn start(&self) -> Result<(), TimerStartError> {
        let mut progress = self.progress();
        match progress.stage.state() {
            TimerState::Ready => {}
            state => return Err(TimerStartError { state }),
        }
        progress.stage = TimerStage::Started(clock::now().checked_add(self.inner.duration));
        if progress.watched {
            self.set_alarm(&mut progress);
        }
        drop(progress);
        // The present waiters learn their deadline.
        self.inner.waiters.notify_all();
        Ok(())
    }

    /// Starts the timer anew, whatever its state is: it rings a full duration after this call. Waiters
    /// go on waiting for that, and an item that was there before is gone.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru::time::Timer;
    /// use std::time::Duration;
    ///
    /// let idle = Timer::new(Duration::from_millis(2));
    /// idle.start().unwrap();
    /// for _ in 0..3 {
    ///     // Something has happened, so nothing is idle.
    ///     idle.reset();
    /// }
    /// assert_eq!(idle.wait(), Ok(true));
    /// ```
    pub fn reset(&self) {
        let mut progress = self.progress();
        progress.stage = TimerStage::Started(clock::now().checked_add(self.inner.duration));
        let alarm = progress.alarm.take();
        if progress.watched {
            self.set_alarm(&mut progress);
        }
        drop(progress);
        drop(alarm);
        // The present waiters learn their deadline.
        self.inner.waiters.notify_all();
    }

    /// Cancels the timer. Its waiters get `false`, unless it has rung.
    pub fn cancel(&self) {
        let mut progress = self.progress();
        let rung = match progress.stage {
            TimerStage::Cancelled { rung } => rung,
            other => other.state() == TimerState::Rung,
        };
        progress.stage = TimerStage::Cancelled { rung };
        let alarm = progress.alarm.take();
        drop(progress);
        drop(alarm);
        self.inner.waiters.notify_all();
    }

    /// Returns the state of the timer.
    #[must_use]
    pub fn state(&self) -> TimerState {
        self.progress().stage.state()
    }

    /// Returns the duration from start to ringing.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.inner.duration
    }

    /// Sets an alarm that notifies the wait list when the time comes.
    fn set_alarm(&self, progress: &mut Progress) {
        if let TimerStage::Started(Some(due)) = progress.stage
            && progress.alarm.is_none()
            && due > clock::now()
        {
            let inner = Arc::downgrade(&self.inner);
            progress.alarm = Some(Alarm::set(due, inner));
        }
    }
}

impl Source for Timer {
    type Item = bool;

    fn try_take(&self) -> Option<bool> {
        match self.progress().stage {
            TimerStage::Cancelled { rung } => Some(rung),
            other => (other.state() == TimerState::Rung).then_some(true),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        let mut progress = self.progress();
        progress.watched = true;
        self.set_alarm(&mut progress);
        drop(progress);
        each(&self.inner.waiters);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        arms.notified_by(&self.inner.waiters);
        if arms.pass() == Pass::Notify
            && let TimerStage::Started(Some(due)) = self.progress().stage
        {
            arms.ends_at(due);
        }
    }

    fn __finish(&self, won: &Won<'_>) -> Option<bool> {
        if won.is_of(&self.inner.waiters) { self.try_take() } else { None }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("duration", &self.inner.duration)
            .field("state", &self.state())
            .finish()
    }
}

/// The error of starting a timer that was started or cancelled before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerStartError {
    state: TimerState,
}

impl TimerStartError {
    /// Returns the state of the timer, which is never [`Ready`](TimerState::Ready).
    #[must_use]
    pub fn state(&self) -> TimerState {
        self.state
    }
}

impl fmt::Display for TimerStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            TimerState::Ready => "the timer is ready",
            TimerState::Ticking => "the timer is ticking already",
            TimerState::Rung => "the timer has rung already",
            TimerState::Cancelled => "the timer has been cancelled",
        })?;
        f.write_str("; a timer can be started only once, create a new one")
    }
}

impl Error for TimerStartError {}
