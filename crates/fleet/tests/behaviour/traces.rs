//! Traces of `tracing` through jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use ecru_fleet::{Fleet, in_trace};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Span, info, info_span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::common::alone;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

type Fields = BTreeMap<String, String>;

/// The spans, by their numbers, and what was said in them: the fields of the event and those of the
/// span around it.
#[derive(Default)]
struct Noted {
    spans: BTreeMap<u64, Fields>,
    events: Vec<(Fields, Fields)>,
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Noted>>);

struct Reads<'a>(&'a mut Fields);

impl Visit for Reads<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").replace('"', ""));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::from([("span".into(), attributes.metadata().name().into())]);
        attributes.record(&mut Reads(&mut fields));
        self.0.lock().unwrap().spans.insert(id.into_u64(), fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut seen = self.0.lock().unwrap();
        values.record(&mut Reads(seen.spans.entry(id.into_u64()).or_default()));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Fields::new();
        event.record(&mut Reads(&mut said));
        let span = context.event_span(event).map(|span| span.id().into_u64());
        let mut seen = self.0.lock().unwrap();
        let around = span.and_then(|span| seen.spans.get(&span).cloned()).unwrap_or_default();
        seen.events.push((said, around));
    }
}

impl Seen {
    /// Returns the fields of the span around what was said so.
    #[track_caller]
    fn around(&self, text: &str) -> Fields {
        let seen = self.0.lock().unwrap();
        let found = seen.events.iter().find(|(said, _)| said["message"] == text);
        found.unwrap_or_else(|| panic!("{text:?} was not said: {:?}", seen.events)).1.clone()
    }

    /// Returns what was said with this text.
    #[track_caller]
    fn said(&self, text: &str) -> Fields {
        let seen = self.0.lock().unwrap();
        seen.events.iter().find(|(said, _)| said["message"] == text).expect("it was said").0.clone()
    }
}

/// Runs `body` on one worker, and returns what is seen. The caller has a process of its own:
/// `tracing` keeps for each place whether anything listens, and threads of other tests, where
/// nothing does, would decide that for the library's own spans.
fn seen(body: impl FnOnce(&Fleet<'_>) -> io::Result<()>) -> Seen {
    let seen = Seen::default();
    let subscriber = tracing_subscriber::registry().with(ecru_tracing::layer()).with(seen.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
        runtime.run(|| ecru::scope(|s| body(&Fleet::local(s)))).unwrap();
    });
    seen
}

/// - given: a request that has a trace, and a job that is sent in it and sends another one, and
///   calls a function
/// - when: they run
/// - then: each runs in a span with its queue, its id, its attempt and that trace, also after a
///   wait
#[test]
fn fleet_198_a_trace_through_jobs() {
    alone("traces::fleet_198_a_trace_through_jobs", || {
        let seen = seen(|fleet| {
            let (first, second) =
                (fleet.queue::<u32>("first").open()?, fleet.queue::<u32>("second").open()?);
            let double = fleet.function("double", |number: u32, _| {
                info!("in the function");
                Ok(2 * number)
            });
            let double = double.open()?;
            ecru::scope(|s| {
                s.spawn_daemon(|| double.serve(1));
                let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
                in_trace(&header, || first.send_keyed("a", 1))?;
                let job = first.jobs(1)?.recv()?;
                assert!(job.traceparent().unwrap().starts_with(&format!("00-{TRACE}-")));
                job.run(|_| {
                    ecru::yield_now()?;
                    info!("in the first");
                    second.priority(0).send_all([2])?;
                    assert_eq!(double.call(4).map_err(io::Error::other)?, 8);
                    Ok::<(), io::Error>(())
                })??;
                job.done()?;
                let job = second.jobs(1)?.recv()?;
                job.run(|_| info!("in the second"))?;
                job.done()?;
                Ok::<(), io::Error>(())
            })
        });
        for (text, queue) in
            [("in the first", "first"), ("in the second", "second"), ("in the function", "double")]
        {
            let span = seen.around(text);
            assert_eq!((&*span["span"], &*span["queue"]), ("job", queue));
            assert_eq!((&*span["trace_id"], &*span["attempt"]), (TRACE, "1"));
            assert!(!span["id"].is_empty());
        }
        assert_eq!(seen.around("in the first")["id"], "a");
    });
}

/// - given: a job that is sent in a span, one that is sent outside of all spans, and one whose
///   trace is no trace
/// - when: they run
/// - then: the first one has the trace that its sender has told, and the others have one of their
///   own
#[test]
fn fleet_199_traces_begin() {
    alone("traces::fleet_199_traces_begin", || {
        let seen = seen(|fleet| {
            let queue = fleet.queue::<u32>("n").open()?;
            info_span!("request").in_scope(|| queue.send(1))?;
            queue.send(2)?;
            in_trace("nonsense\r\n", || queue.send(3))?;
            for job in queue.jobs(1)?.iter().take(3) {
                assert_eq!(job.traceparent().is_some(), *job != 2);
                job.run(|number| info!("job {number}"))?;
                job.done()?;
            }
            Ok(())
        });
        let begun = seen.said("a job begins a trace")["trace_id"].clone();
        assert_eq!(seen.around("a job begins a trace")["span"], "request");
        let traces = ["job 1", "job 2", "job 3"].map(|text| seen.around(text)["trace_id"].clone());
        assert_eq!(traces[0], begun);
        assert!(traces[1] != traces[2] && traces.iter().all(|trace| trace.len() == 32));
    });
}

/// - given: a program whose layer has traces of its own, which a fleet is told how to find and to
///   set
/// - when: a job is sent in a span, and runs
/// - then: it has the trace of that span, its own span is made a part of it, and what is sent
///   inside of it has the trace of its own span
#[test]
fn fleet_189_traces_of_another_layer() {
    alone("traces::fleet_189_traces_of_another_layer", || {
        let adopted: Arc<Mutex<Vec<String>>> = Arc::default();
        let own = Arc::clone(&adopted);
        let seen = seen(|fleet| {
            // The name of a span is all that this layer knows.
            let inject = |span: &Span| {
                let name = span.metadata()?.name();
                let parent = if name == "job" { 2 } else { 1 };
                Some(format!("00-{TRACE}-{parent:016x}-01"))
            };
            fleet.carry_traces(inject, move |span, parent| {
                assert_eq!(span.metadata().unwrap().name(), "job");
                own.lock().unwrap().push(parent.to_owned());
            });
            let queue = fleet.queue::<u32>("n").open()?;
            info_span!("request").in_scope(|| queue.send(1))?;
            for job in queue.jobs(1)?.iter().take(2) {
                job.run(|number| {
                    info!("job {number}");
                    if *number == 1 { queue.send(2).map(drop) } else { Ok(()) }
                })??;
                job.done()?;
            }
            Ok(())
        });
        let expected = [1, 2].map(|parent| format!("00-{TRACE}-{parent:016x}-01"));
        assert_eq!(*adopted.lock().unwrap(), expected);
        assert_eq!(seen.around("job 2")["trace_id"], TRACE);
    });
}
