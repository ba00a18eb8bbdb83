//! Calls that are refused while what they call is failing.
//!
//! The *generation* counts the changes of the state. A call remembers the generation in which it
//! began. If it ends in another one, its outcome says nothing about the present and is not counted.

use std::sync::PoisonError;
use std::time::{Duration, Instant};
use std::{error, fmt, io};

use ecru::Cancelled;

use crate::base::{self, Mutex, MutexGuard};
use crate::failure_window::FailureWindow;

/// The state of a [`CircuitBreaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls are made, and failures are counted.
    Closed,
    /// Calls are refused.
    Open,
    /// A few calls are made as probes, and the others are refused.
    HalfOpen,
}

/// A guard for calls to something that may be out of order, such as a server. While it is failing,
/// calls are refused at once, so that the caller loses no time and the server gets no load.
///
/// - *Closed*: calls are made. If the share of failures in the last [`window`](CircuitBreaker::window)
///   reaches the [`failure_rate`](CircuitBreaker::failure_rate), and there were at least
///   [`min_calls`](CircuitBreaker::min_calls), the breaker opens.
/// - *Open*: calls are refused. After [`open_for`](CircuitBreaker::open_for) the breaker is half open.
/// - *Half open*: calls are made until [`probes`](CircuitBreaker::probes) of them have begun, and the
///   others are refused. If all probes succeed, the breaker closes and forgets the old failures. If
///   one fails, it opens again.
///
/// Tasks share a breaker by reference, or in an `Arc`. A call that ends after the state has changed
/// is not counted.
///
/// # Time limits
/// Put a time limit inside the call: `breaker.call(|| ecru::try_timeout(limit, request))`. Then a
/// server that does not answer is one that fails. An error is not counted if the *caller* has been
/// [cancelled](ecru::is_cancelled), which a limit around the whole call does. A probe that never ends
/// keeps the breaker half open.
///
/// # Examples
/// ```
/// use ecru_flow::{CircuitBreaker, CircuitError, CircuitState};
/// use std::io;
///
/// let breaker = CircuitBreaker::new().min_calls(3);
/// let broken = || Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused));
/// for _ in 0..3 {
///     assert!(matches!(breaker.call(broken), Err(CircuitError::Failed(_))));
/// }
/// assert_eq!(breaker.state(), CircuitState::Open);
/// assert!(matches!(breaker.call(broken), Err(CircuitError::Open { .. })));
/// ```
pub struct CircuitBreaker {
    failure_rate: f64,
    window: Duration,
    min_calls: u64,
    open_for: Duration,
    probes: u32,
    state: Mutex<State>,
}

struct State {
    generation: u64,
    phase: Phase,
}

enum Phase {
    /// The window, and the time of its creation. `None` before the first call has ended.
    Closed(Option<(Instant, FailureWindow)>),
    /// Until a time. `None` if that time is not representable, and so never comes.
    Open(Option<Instant>),
    HalfOpen {
        /// The number of probes that have begun, without those that said nothing.
        begun: u32,
        succeeded: u32,
    },
}

/// What the end of a call says about what was called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Success,
    Failure,
    Nothing,
}

impl CircuitBreaker {
    /// Creates a closed breaker with the default settings: half of at least 20 calls in 10 seconds
    /// have to fail, it stays open for 5 seconds, and one probe decides.
    #[must_use]
    pub fn new() -> CircuitBreaker {
        CircuitBreaker {
            failure_rate: 0.5,
            window: Duration::from_secs(10),
            min_calls: 20,
            open_for: Duration::from_secs(5),
            probes: 1,
            state: Mutex::new(State { generation: 0, phase: Phase::Closed(None) }),
        }
    }

    /// Sets the share of failures, from 0 to 1, at which the breaker opens. The default is 0.5.
    ///
    /// # Panics
    /// Panics if `rate` is not greater than 0, or greater than 1.
    #[must_use]
    #[track_caller]
    pub fn failure_rate(mut self, rate: f64) -> CircuitBreaker {
        assert!(
            rate > 0.0 && rate <= 1.0,
            "a failure rate of {rate} is not a share; pass a number above 0.0 and at most 1.0"
        );
        self.failure_rate = rate;
        self
    }

    /// Sets the time for which failures and successes are remembered. Old calls are forgotten in
    /// steps of a tenth of it. The default is 10 seconds.
    ///
    /// # Panics
    /// Panics if `window` is zero.
    #[must_use]
    #[track_caller]
    pub fn window(mut self, window: Duration) -> CircuitBreaker {
        assert!(
            !window.is_zero(),
            "a window of no length has no calls; pass a time longer than zero"
        );
        self.window = window;
        self
    }

    /// Sets the number of calls in the window below which the breaker does not open. The default is
    /// 20.
    #[must_use]
    pub fn min_calls(mut self, calls: u32) -> CircuitBreaker {
        self.min_calls = calls.into();
        self
    }

    /// Sets how long calls are refused before probes are made. The default is 5 seconds.
    #[must_use]
    pub fn open_for(mut self, time: Duration) -> CircuitBreaker {
        self.open_for = time;
        self
    }

    /// Sets the number of calls that are made while the breaker is half open. All of them have to
    /// succeed. The default is 1.
    ///
    /// # Panics
    /// Panics if `probes` is 0, because such a breaker would never close.
    #[must_use]
    #[track_caller]
    pub fn probes(mut self, probes: u32) -> CircuitBreaker {
        assert!(probes > 0, "a breaker without probes would never close; pass at least 1");
        self.probes = probes;
        self
    }

    /// Calls `op`, unless the breaker refuses. Each `Err` that it returns is a failure.
    ///
    /// # Errors
    /// Returns [`CircuitError::Open`] if the call is refused, and [`CircuitError::Failed`] with the
    /// error of `op`.
    ///
    /// # Panics
    /// Panics if `op` panics, which counts as a failure.
    ///
    /// # Cancellation
    /// The call is a cancellation point only if `op` is one.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::new();
    /// assert_eq!(breaker.call(|| "7".parse::<u32>()), Ok(7));
    /// ```
    pub fn call<T, E, F>(&self, op: F) -> Result<T, CircuitError<E>>
    where
        F: FnOnce() -> Result<T, E>,
    {
        self.call_when(|_| true, op)
    }

    /// Calls `op`, unless the breaker refuses. An `Err` for which `is_failure` returns `false` counts
    /// as a success, for instance a server's answer that something does not exist.
    ///
    /// # Errors
    /// Returns the same errors as [`call`](CircuitBreaker::call).
    ///
    /// # Panics
    /// Panics if `op` or `is_failure` panics, which counts as a failure.
    ///
    /// # Cancellation
    /// The call is a cancellation point only if `op` is one.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{CircuitBreaker, CircuitState};
    /// use std::io::{Error, ErrorKind};
    ///
    /// let breaker = CircuitBreaker::new().min_calls(1);
    /// let missing = || Err::<(), _>(Error::from(ErrorKind::NotFound));
    /// breaker.call_when(|error| error.kind() != ErrorKind::NotFound, missing).unwrap_err();
    /// assert_eq!(breaker.state(), CircuitState::Closed);
    /// ```
    pub fn call_when<T, E, P, F>(&self, is_failure: P, op: F) -> Result<T, CircuitError<E>>
    where
        P: FnOnce(&E) -> bool,
        F: FnOnce() -> Result<T, E>,
    {
        let mut call = match self.admit() {
            Ok(generation) => Call { breaker: self, generation, verdict: Verdict::Failure },
            Err(retry_after) => return Err(CircuitError::Open { retry_after }),
        };
        let outcome = op();
        call.verdict = match &outcome {
            Ok(_) => Verdict::Success,
            Err(_) if ecru::is_cancelled() => Verdict::Nothing,
            Err(error) if is_failure(error) => Verdict::Failure,
            Err(_) => Verdict::Success,
        };
        outcome.map_err(CircuitError::Failed)
    }

    /// Returns the state. A breaker that has been open long enough is half open, even before the
    /// next call.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        match self.lock().phase {
            Phase::Closed(_) => CircuitState::Closed,
            Phase::Open(until) if left(until).is_zero() => CircuitState::HalfOpen,
            Phase::Open(_) => CircuitState::Open,
            Phase::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Begins a call, and returns its generation. Returns the time to wait if it is refused.
    fn admit(&self) -> Result<u64, Duration> {
        let mut state = self.lock();
        if let Phase::Open(until) = state.phase {
            let left = left(until);
            if !left.is_zero() {
                return Err(left);
            }
            state.change(Phase::HalfOpen { begun: 0, succeeded: 0 });
        }
        if let Phase::HalfOpen { begun, .. } = &mut state.phase {
            if *begun == self.probes {
                // The time until the probes have ended is not known.
                return Err(Duration::ZERO);
            }
            *begun += 1;
        }
        Ok(state.generation)
    }

    /// Counts the end of a call.
    fn count(&self, generation: u64, verdict: Verdict) {
        let mut state = self.lock();
        if state.generation != generation {
            return;
        }
        let failed = verdict == Verdict::Failure;
        match &mut state.phase {
            Phase::Closed(_) if verdict == Verdict::Nothing => {}
            Phase::Closed(window) => {
                let now = base::now();
                let (since, window) =
                    window.get_or_insert_with(|| (now, FailureWindow::new(self.window)));
                window.count(now.saturating_duration_since(*since), failed);
                let (calls, failures) = window.totals();
                // A success does not open the breaker, even if it brings the calls to the minimum.
                if failed
                    && calls >= self.min_calls
                    && failures as f64 / calls as f64 >= self.failure_rate
                {
                    self.open(&mut state);
                }
            }
            Phase::HalfOpen { begun, succeeded } => match verdict {
                Verdict::Nothing => *begun -= 1,
                Verdict::Failure => self.open(&mut state),
                Verdict::Success => {
                    *succeeded += 1;
                    if *succeeded == self.probes {
                        state.change(Phase::Closed(None));
                    }
                }
            },
            Phase::Open(_) => unreachable!("no call begins while the breaker is open"),
        }
    }

    fn open(&self, state: &mut State) {
        state.change(Phase::Open(base::now().checked_add(self.open_for)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn change(&mut self, phase: Phase) {
        self.generation += 1;
        self.phase = phase;
    }
}

/// Returns the time that is left until then.
fn left(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| until.saturating_duration_since(base::now()))
}

/// A call that is being made. Its drop counts it.
struct Call<'a> {
    breaker: &'a CircuitBreaker,
    generation: u64,
    /// A failure until the call has returned, so that a panic is one.
    verdict: Verdict,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.breaker.count(self.generation, self.verdict);
    }
}

impl Default for CircuitBreaker {
    fn default() -> CircuitBreaker {
        CircuitBreaker::new()
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// The error of [`CircuitBreaker::call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitError<E> {
    /// The call was refused.
    Open {
        /// The time until the next probe. It is zero if probes are being made, since their ends are
        /// not known.
        retry_after: Duration,
    },
    /// The call was made, and returned this error.
    Failed(E),
}

impl<E> CircuitError<E> {
    /// Returns the error of the call, if it was made.
    pub fn into_inner(self) -> Option<E> {
        match self {
            CircuitError::Open { .. } => None,
            CircuitError::Failed(error) => Some(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for CircuitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CircuitError::Open { retry_after } if retry_after.is_zero() => f.write_str(
                "the circuit is half open, and its probes have not ended; try again later",
            ),
            CircuitError::Open { retry_after } => {
                write!(f, "the circuit is open; try again after {retry_after:?}")
            }
            CircuitError::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: error::Error> error::Error for CircuitError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            CircuitError::Open { .. } => None,
            // The message is that of the inner error, so its source is next in the chain.
            CircuitError::Failed(error) => error.source(),
        }
    }
}

/// For a [`Retry`](ecru::Retry) around calls, whose pauses may be cancelled.
impl<E: From<Cancelled>> From<Cancelled> for CircuitError<E> {
    fn from(cancelled: Cancelled) -> CircuitError<E> {
        CircuitError::Failed(E::from(cancelled))
    }
}

impl From<CircuitError<io::Error>> for io::Error {
    fn from(error: CircuitError<io::Error>) -> io::Error {
        match error {
            CircuitError::Open { .. } => io::Error::other(error),
            CircuitError::Failed(error) => error,
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models;
