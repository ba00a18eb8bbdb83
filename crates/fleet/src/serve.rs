//! Running functions.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ecru::Cancelled;
use ecru::channel::RecvError;

use crate::codec::{self, Wire};
use crate::core::Phase;
use crate::errors::JobError;
use crate::function::Function;
use crate::held::Held;
use crate::job::{Guard, Job};
use crate::outcome::{Name, Outcome};
use crate::panics;
use crate::pull::{self, Begun};
use crate::run::Run;
use crate::settle::{How, Unsettled};

/// The pauses before a result is stored again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl<A: Wire, R: Wire> Function<'_, A, R> {
    /// Runs the function for callers anywhere in the fleet, at most `window` calls at once. Returns
    /// when it is cancelled, or the scope of the fleet is.
    ///
    /// A call whose lease is lost is cancelled: the waits inside the function fail. An error is
    /// treated as [`JobError`] says. A panic is an error to retry, and so is a call that exceeds
    /// the [time limit](crate::FunctionBuilder::time_limit). After the last attempt, and after
    /// `Fatal`, the call is dead, and its caller gets the error's text.
    ///
    /// If the servers have no room for a result, the run has not failed: the result waits here, and
    /// is stored when there is room. [`Fleet::on_warning`](crate::Fleet::on_warning) and
    /// [`stats`](Function::stats) tell of it.
    ///
    /// # Errors
    /// Returns `InvalidInput` if `window` is 0, `NotConnected` after the end of the fleet,
    /// `PermissionDenied` if the user may not do what it takes, and other errors of the server.
    /// While the server is away, the beginning is repeated for up to 30 seconds.
    ///
    /// # Cancellation
    /// This is a cancellation point. When it is cancelled, it returns `Ok`, also if it has not begun.
    /// No more calls are taken, calls that were not begun are given back, and running ones get their
    /// time: the function is not cancelled.
    pub fn serve(&self, window: usize) -> io::Result<()> {
        let Begun { jobs: calls, control } = match pull::begin(self.queue.shared(), window) {
            Err(error) if Cancelled::find_in(&error).is_some() => return Ok(()),
            begun => begun?,
        };
        let reason = ecru::scope(|s| {
            loop {
                match calls.recv() {
                    Ok(call) => drop(s.builder().name("fleet-call").spawn(|| self.handle(call))),
                    Err(reason) => {
                        // What is in the channel is given back now, not after the running calls.
                        control.stop();
                        calls.close_now();
                        return reason;
                    }
                }
            }
        });
        let is_over = reason == RecvError::Cancelled || ecru::is_cancelled();
        match control.error() {
            Some(error) if !is_over => Err(io::Error::new(error.kind(), error.to_string())),
            _ => Ok(()),
        }
    }

    fn handle(&self, call: Job<A>) {
        let (arg, guard) = call.into_parts();
        // A failure lets the lease expire, and the call comes again.
        let _ = ecru::shield(|| self.handle_shielded(arg, guard));
    }

    fn handle_shielded(&self, arg: A, guard: Guard) -> io::Result<()> {
        let held = &guard.held;
        let Some(name) = Name::of_token(&held.given.id) else {
            let dead = guard.dead("the job was not sent by a call of the function");
            return Ok(guard.settle((), How::Bury(dead))?);
        };
        // The first attempt of a single call has no result yet.
        if (held.given.delivery > 1 || !name.is_single())
            && self.results.get(&name.run, &name.index)?.is_some()
        {
            return Ok(guard.settle((), How::Done)?);
        }
        if held.begin().is_err() {
            return Ok(());
        }
        let (id, attempt, fence) = (held.id.clone(), held.attempt(), held.fence());
        let run = Run { id, attempt, fence, held: Arc::downgrade(held) };
        let body = || (self.body)(arg, &run).and_then(encode).map_err(Failure::from);
        // The lease is renewed until the result is stored.
        let ran = guard.run(|| {
            let result = guard.limited(|| panics::caught(body)).unwrap_or_else(|_| {
                Ok(Err(Failure { text: guard.limit_reason(), then: Then::Retry(None) }))
            });
            let result = result.unwrap_or_else(|text| {
                let text = format!("the function panicked: {text}");
                Err(Failure { text, then: Then::Retry(None) })
            });
            result.map(|result| self.store(held, &name, &result))
        });
        let Ok(stored) = ran else {
            // The lease is lost.
            return Ok(());
        };
        let failure = match stored {
            Ok(Ok(())) => return Ok(guard.settle((), How::Done)?),
            // The server will not store it the next time either.
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                Failure { text: format!("the result is refused: {error}"), then: Then::Bury }
            }
            Ok(Err(error)) => return Err(error),
            Err(failure) => failure,
        };
        Ok(Self::failed(guard, &failure)?)
    }

    /// Stores the result of a run. The function has succeeded, so it is not run again while the
    /// servers have no room or do not answer: this waits, until the process is to end.
    fn store(&self, held: &Held, name: &Name, result: &Bytes) -> io::Result<()> {
        use io::ErrorKind::{ConnectionAborted, NotFound, ResourceBusy, StorageFull, TimedOut};
        let (mut pause, longest) = PAUSES;
        let mut waits = None;
        loop {
            let error = match self.results.put(&name.run, &name.index, result.clone()) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match error.kind() {
                StorageFull => {
                    waits.get_or_insert_with(|| self.queue.shared().wait_for_room(&error));
                }
                ConnectionAborted | NotFound | ResourceBusy | TimedOut => {}
                _ => return Err(error),
            }
            if held.is_finished() || held.core().phase() != Phase::Open {
                return Err(error);
            }
            ecru::sleep(pause)?;
            pause = (2 * pause).min(longest);
        }
    }

    fn failed(guard: Guard, failure: &Failure) -> Result<(), Unsettled<()>> {
        let how = match failure.then {
            Then::Retry(pause) => guard.after_failure(pause, &failure.text),
            Then::Bury => How::Bury(guard.dead(&failure.text)),
        };
        guard.settle((), how)
    }
}

/// A run that has failed.
struct Failure {
    text: String,
    then: Then,
}

/// What happens to a call after a failure.
enum Then {
    /// It is tried again after this pause, or that of the settings.
    Retry(Option<Duration>),
    Bury,
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Failure {
        let (error, then) = match error {
            JobError::Fatal(error) => (error, Then::Bury),
            JobError::Retry(error) => (error, Then::Retry(None)),
            JobError::RetryAfter(pause, error) => (error, Then::Retry(Some(pause))),
        };
        Failure { text: text(&*error), then }
    }
}

fn encode<R: Wire>(result: R) -> Result<Bytes, JobError> {
    codec::encode("the result", &Outcome::Ok(result)).map_err(|error| JobError::Fatal(error.into()))
}

/// Returns an error with its causes.
fn text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors have their causes in their own texts.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
