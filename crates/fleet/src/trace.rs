//! Traces of `tracing` through jobs, if the feature `tracing` is on.
//!
//! A job carries the trace that it was sent in, as the W3C writes it: `00-TRACE-PARENT-FLAGS`, in
//! hexadecimal digits. Where the job runs, a span has the trace, and what is sent from there
//! belongs to it.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::core::Core;
use crate::fleet::Fleet;
use crate::held::Held;
use crate::id::any_number;
use crate::job::Job;
use crate::shared::Shared;

ecru::task_local! {
    /// The trace of the code that runs.
    static CURRENT: Context
}

/// The trace and the parent of what is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Context {
    trace: u128,
    parent: u64,
    flags: u8,
}

impl Context {
    /// Begins a trace.
    fn begin() -> Context {
        let half = || u128::from(any_number());
        Context { trace: (half() << 64 | half()).max(1), parent: any_number().max(1), flags: 1 }
    }

    /// Returns the context of what is done inside of this one.
    fn inside(self) -> Context {
        Context { parent: any_number().max(1), ..self }
    }

    /// Reads a context. Another program may have written anything.
    fn parse(text: &str) -> Option<Context> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit))
        };
        let (version, trace, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // Later versions may have more parts.
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace > 0)?;
        let parent = u64::from_str_radix(parent, 16).ok().filter(|parent| *parent > 0)?;
        Some(Context { trace, parent, flags: u8::from_str_radix(flags, 16).ok()? })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { trace, parent, flags } = self;
        write!(f, "00-{trace:032x}-{parent:016x}-{flags:02x}")
    }
}

/// Returns the context of a span, as text.
type Inject = dyn Fn(&Span) -> Option<String> + Send + Sync;

/// Makes a span a part of a trace.
type Extract = dyn Fn(&Span, &str) + Send + Sync;

/// How a fleet asks the program for the traces of its spans.
#[derive(Default)]
pub(crate) struct Carrier(Mutex<Option<(Arc<Inject>, Arc<Extract>)>>);

impl Carrier {
    fn get(&self) -> Option<(Arc<Inject>, Arc<Extract>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Fleet<'_> {
    /// Sets how the traces of spans are found and set, for programs whose tracing layer has traces
    /// of its own. `inject` returns the `traceparent` of a span, and `extract` makes a span a part
    /// of the trace of one. With `tracing-opentelemetry`, both are its `OpenTelemetrySpanExt` and a
    /// `TraceContextPropagator`:
    ///
    /// ```text
    /// let (writes, reads) = (TraceContextPropagator::new(), TraceContextPropagator::new());
    /// fleet.carry_traces(
    ///     move |span| {
    ///         let mut headers = HashMap::new();
    ///         writes.inject_context(&span.context(), &mut headers);
    ///         headers.remove("traceparent")
    ///     },
    ///     move |span, parent| {
    ///         let headers = HashMap::from([("traceparent".to_owned(), parent.to_owned())]);
    ///         let _ = span.set_parent(reads.extract(&headers));
    ///     },
    /// );
    /// ```
    ///
    /// Without this, the fleet numbers traces by itself: see [`in_trace`]. Both are called where
    /// jobs are sent and run, so they should be quick. A later call replaces this one.
    pub fn carry_traces(
        &self,
        inject: impl Fn(&Span) -> Option<String> + Send + Sync + 'static,
        extract: impl Fn(&Span, &str) + Send + Sync + 'static,
    ) {
        let carrier: (Arc<Inject>, Arc<Extract>) = (Arc::new(inject), Arc::new(extract));
        let mut place = self.core.carrier.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = place.replace(carrier);
        drop(place);
        drop(old);
    }
}

/// Calls `f` in a trace that came from elsewhere, for instance in the header `traceparent` of a
/// request over HTTP. Jobs that are sent inside belong to it, also those that are sent by jobs that
/// are sent inside, and so on. A text that is no `traceparent` begins a new trace.
///
/// A job that is sent outside of this and of other jobs begins a trace if there is a span, and
/// tells its number in an event, at the level `DEBUG`.
///
/// # Examples
/// ```
/// use ecru_fleet::{Fleet, in_trace};
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let mails = Fleet::local(s).queue::<String>("mails").open()?;
///         let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
///         in_trace(header, || mails.send("hello".to_owned()))?;
///         let job = mails.jobs(1)?.recv()?;
///         assert!(job.traceparent().unwrap().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
///         job.done()?;
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn in_trace<R>(traceparent: &str, f: impl FnOnce() -> R) -> R {
    let context = Context::parse(traceparent).unwrap_or_else(Context::begin);
    CURRENT.scope(context, f)
}

impl<T> Job<T> {
    /// Returns the `traceparent` that the job was sent with: the trace that it belongs to, as the
    /// W3C writes it.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.held().given.trace.as_deref()
    }
}

/// Returns the trace of what is sent here, if there is one.
pub(crate) fn current(core: &Core, queue: &Shared) -> Option<String> {
    let span = Span::current();
    if let Some((inject, _)) = core.carrier.get()
        && let Some(context) = inject(&span).as_deref().and_then(Context::parse)
    {
        // Not the text itself, which may go on with anything after what is known of a later version.
        return Some(context.to_string());
    }
    let context = CURRENT.try_with(|context| *context).map(Context::inside).or_else(|| {
        (!span.is_none()).then(|| {
            let context = Context::begin();
            let trace_id = Hex(context.trace);
            tracing::debug!(target: "ecru_fleet", queue = queue.name, %trace_id, "a job begins a trace");
            context
        })
    })?;
    Some(context.to_string())
}

/// Writes the number of a trace.
struct Hex(u128);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Runs the body of a job in a span, and in its trace.
pub(crate) fn run<R>(held: &Held, queue: &Shared, f: impl FnOnce() -> R) -> R {
    let (name, id, attempt) = (&*queue.name, held.id.as_str(), held.attempt());
    let span = info_span!(target: "ecru_fleet", "job", queue = name, id, attempt, trace_id = Empty);
    let sent = held.given.trace.as_deref().and_then(Context::parse);
    let carrier = queue.core.carrier.get();
    if let Some((_, extract)) = &carrier
        && let Some(text) = held.given.trace.as_deref().filter(|_| sent.is_some())
    {
        extract(&span, text);
    }
    let own = carrier.and_then(|(inject, _)| inject(&span)).and_then(|text| Context::parse(&text));
    let context = own.or(sent).unwrap_or_else(Context::begin);
    let mut trace = String::with_capacity(32);
    let _ = write!(trace, "{}", Hex(context.trace));
    span.record("trace_id", &*trace);
    CURRENT.scope(context, || span.in_scope(f))
}

#[cfg(test)]
mod tests {
    use super::Context;

    #[test]
    fn contexts_are_reversible() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = Context::parse(text).unwrap();
        assert_eq!(context.to_string(), text);
        assert_eq!(context.inside().trace, context.trace);
        assert_ne!(context.inside().parent, context.parent);
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        assert_eq!(Context::parse(later), Some(context));
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7\r\n-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(bad), None, "{bad}");
        }
    }
}
