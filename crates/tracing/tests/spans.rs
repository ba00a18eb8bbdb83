//! Spans that are held across waits, on one worker unless a test says otherwise.

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::{self, Write};
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

use common::{HOUR, OnDrop, ms, run_on, settle};
use ecru::coroutine::Generator;
use tracing::{Level, Span, Subscriber, info, info_span, instrument};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, filter, fmt};

/// The output of a subscriber.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// Takes the lines.
    fn lines(&self) -> Vec<String> {
        let bytes = mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }

    fn sorted(&self) -> Vec<String> {
        let mut lines = self.lines();
        lines.sort();
        lines
    }

    /// Returns a layer that writes `span{field}:span: message`, one line for each event.
    fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let written = self.clone();
        let format = fmt::format().without_time().with_level(false).with_target(false);
        fmt::layer().with_ansi(false).event_format(format).with_writer(move || written.clone())
    }
}

/// Runs `body` on one worker, with a subscriber of its own for this thread. Returns the output.
fn traced(body: impl FnOnce()) -> Written {
    let written = Written::default();
    let subscriber =
        tracing_subscriber::registry().with(ecru_tracing::layer()).with(written.layer());
    tracing::subscriber::with_default(subscriber, || run_on(1, body));
    written
}

/// Returns the output of the global default subscriber.
fn global() -> &'static Written {
    static WRITTEN: OnceLock<Written> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let written = Written::default();
        tracing_subscriber::registry().with(written.layer()).with(ecru_tracing::layer()).init();
        written
    })
}

fn three_requests() {
    ecru::scope(|s| {
        for id in 1..=3 {
            s.spawn(move || {
                let _request = info_span!("request", id).entered();
                info!("before the wait");
                ecru::sleep(ms(1)).unwrap();
                info!("after the wait");
            });
        }
    });
    info!("at the end");
}

const THREE_REQUESTS: [&str; 7] = [
    "at the end",
    "request{id=1}: after the wait",
    "request{id=1}: before the wait",
    "request{id=2}: after the wait",
    "request{id=2}: before the wait",
    "request{id=3}: after the wait",
    "request{id=3}: before the wait",
];

#[test]
fn each_request_prints_its_own_span() {
    assert_eq!(traced(three_requests).sorted(), THREE_REQUESTS);
}

#[test]
fn without_the_layer_they_cross_over() {
    let written = Written::default();
    let subscriber = tracing_subscriber::registry().with(written.layer());
    tracing::subscriber::with_default(subscriber, || run_on(1, three_requests));
    let lines = written.lines();
    assert!(lines.iter().any(|line| line.contains("request{id=1}:request{id=2}:")), "{lines:?}");
}

#[test]
fn on_two_workers_with_the_global_default() {
    let written = global();
    run_on(2, || {
        ecru::scope(|s| {
            for id in 1..=50 {
                s.spawn(move || {
                    let _outer = info_span!("outer", id).entered();
                    ecru::yield_now().unwrap();
                    let inner = ecru::scope(|s| {
                        s.spawn(|| {
                            let _inner = info_span!("inner").entered();
                            ecru::sleep(ms(1)).unwrap();
                            info!("two workers");
                        })
                        .join()
                    });
                    inner.unwrap();
                    ecru::unblock(|| info!("two workers"));
                    ecru::yield_now().unwrap();
                    info!("two workers");
                });
            }
        });
    });
    let mut lines = written.sorted();
    lines.retain(|line| line.ends_with("two workers"));
    assert_eq!(lines.len(), 150);
    for id in 1..=50 {
        let own = format!("outer{{id={id}}}: two workers");
        assert_eq!(lines.iter().filter(|line| **line == own).count(), 2, "{lines:?}");
        assert!(lines.contains(&format!("outer{{id={id}}}:inner: two workers")), "{lines:?}");
    }
}

#[test]
fn nested_spans_and_guards_dropped_out_of_turn() {
    #[instrument]
    fn instrumented(depth: u32) {
        ecru::yield_now().unwrap();
        if depth > 0 {
            instrumented(depth - 1);
        }
        info!("i");
    }
    let written = traced(|| {
        ecru::scope(|s| {
            for id in 1..=2 {
                s.spawn(move || {
                    let (a, b) = (info_span!("a", id), info_span!("b"));
                    let first = a.enter();
                    settle();
                    let second = b.enter();
                    // The same span is entered again.
                    let third = a.enter();
                    settle();
                    info!("all");
                    drop(second);
                    settle();
                    info!("without b");
                    drop(first);
                    settle();
                    info!("once");
                    drop(third);
                    settle();
                    info!("none {id}");
                    a.in_scope(|| instrumented(1));
                });
            }
        });
    });
    let mut expected = vec![];
    for id in 1..=2 {
        expected.extend([
            String::from("b: all"),
            format!("a{{id={id}}}: without b"),
            format!("a{{id={id}}}:instrumented{{depth=1}}: i"),
            format!("a{{id={id}}}:instrumented{{depth=1}}:instrumented{{depth=0}}: i"),
            format!("a{{id={id}}}: once"),
            format!("none {id}"),
        ]);
    }
    expected.sort();
    assert_eq!(written.sorted(), expected);
}

#[test]
fn across_a_cancellation_and_a_panic() {
    let written = traced(|| {
        ecru::scope(|s| {
            let cancelled = s.spawn(|| {
                let _span = info_span!("cancelled").entered();
                assert!(ecru::sleep(HOUR).is_err());
                info!("told");
            });
            let panics = s.spawn(|| {
                let _told = OnDrop(|| info!("out of the span"));
                let _span = info_span!("panics").entered();
                let _waits = OnDrop(|| {
                    ecru::shield(|| ecru::sleep(ms(1))).unwrap();
                    info!("unwinding");
                });
                ecru::yield_now().unwrap();
                resume_unwind(Box::new("on purpose"));
            });
            let limited = s.spawn(|| {
                let _span = info_span!("limited").entered();
                assert!(ecru::timeout(ms(1), || ecru::sleep(HOUR)).is_err());
                info!("elapsed");
            });
            let _span = info_span!("root").entered();
            settle();
            cancelled.cancel();
            assert!(panics.join().is_err());
            cancelled.join().unwrap();
            limited.join().unwrap();
            info!("goes on");
        });
    });
    let expected = [
        "cancelled: told",
        "limited: elapsed",
        "out of the span",
        "panics: unwinding",
        "root: goes on",
    ];
    assert_eq!(written.sorted(), expected);
}

#[test]
fn children_begin_in_the_current_span() {
    let written = traced(|| {
        ecru::scope(|s| {
            let outer = info_span!("outer").entered();
            let inner = info_span!("inner").entered();
            // The join starts one child in place. The scheduler starts the other one, after its
            // parent has left the span.
            s.spawn(|| {
                info!("in place");
                let _own = info_span!("own").entered();
                ecru::yield_now().unwrap();
                info!("in place, and waited");
            })
            .join()
            .unwrap();
            info!("joined");
            s.spawn(|| {
                ecru::yield_now().unwrap();
                info!("later");
            });
            ecru::spawn(|| info!("of the run"));
            ecru::unblock(|| info!("unblock"));
            drop(inner);
            s.spawn_local(|| info!("after inner"));
            drop(outer);
            s.spawn(|| info!("outside"));
        });
    });
    let expected = [
        "outer: after inner",
        "outer:inner: in place",
        "outer:inner: joined",
        "outer:inner: later",
        "outer:inner: of the run",
        "outer:inner:own: in place, and waited",
        "outside",
    ];
    // The pool's thread has no subscriber. The root's thread has this one.
    assert_eq!(written.sorted(), expected);
}

#[test]
fn the_root_has_its_threads_spans() {
    let written = Written::default();
    let subscriber =
        tracing_subscriber::registry().with(ecru_tracing::layer()).with(written.layer());
    tracing::subscriber::with_default(subscriber, || {
        let _around = info_span!("around").entered();
        let left = run_on(1, || {
            settle();
            info!("in the root");
            ecru::scope(|s| {
                s.spawn(settle);
                ecru::sleep(ms(1)).unwrap();
            });
            info_span!("left").entered()
        });
        info!("after the run");
        drop(left);
        info!("at last");
    });
    assert_eq!(
        written.lines(),
        ["around: in the root", "around:left: after the run", "around: at last"]
    );
}

#[test]
fn plain_threads_are_as_before() {
    let written = Written::default();
    let subscriber =
        tracing_subscriber::registry().with(ecru_tracing::layer()).with(written.layer());
    tracing::subscriber::with_default(subscriber, || {
        let _outer = info_span!("outer").entered();
        // These waits block the thread.
        ecru::sleep(ms(1)).unwrap();
        let inner = info_span!("inner").entered();
        let thread = std::thread::spawn(|| assert!(Span::current().is_none()));
        thread.join().unwrap();
        info!("both");
        drop(inner);
        assert!(ecru::timeout(ms(1), || ecru::sleep(HOUR)).is_err());
        info!("one");
    });
    assert_eq!(written.lines(), ["outer:inner: both", "outer: one"]);
}

#[test]
fn a_generator_is_a_part_of_its_task() {
    let written = traced(|| {
        let mut generator = Generator::new(|yielder| {
            let _span = info_span!("generator").entered();
            yielder.suspend(1);
        });
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::yield_now().unwrap();
                info!("another task");
            });
            assert_eq!(generator.next(), Some(1));
            settle();
            info!("suspended");
            assert_eq!(generator.next(), None);
            info!("ended");
        });
    });
    assert_eq!(written.sorted(), ["another task", "ended", "generator: suspended"]);
}

/// Counts the open spans and the entered spans.
#[derive(Clone, Default)]
struct Count {
    open: Arc<AtomicUsize>,
    entered: Arc<AtomicUsize>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Count {
    fn on_new_span(&self, _: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        self.open.fetch_add(1, SeqCst);
    }

    fn on_enter(&self, id: &tracing::Id, context: Context<'_, S>) {
        assert!(context.span(id).is_some());
        self.entered.fetch_add(1, SeqCst);
    }

    fn on_exit(&self, id: &tracing::Id, context: Context<'_, S>) {
        assert!(context.span(id).is_some());
        self.entered.fetch_sub(1, SeqCst);
    }

    fn on_close(&self, _: tracing::Id, _: Context<'_, S>) {
        self.open.fetch_sub(1, SeqCst);
    }
}

#[test]
#[expect(clippy::mem_forget, reason = "a forgotten guard is what is tested")]
fn a_finished_task_holds_no_span() {
    let count = Count::default();
    let subscriber = tracing_subscriber::registry().with(count.clone()).with(ecru_tracing::layer());
    tracing::subscriber::with_default(subscriber, || {
        run_on(1, || {
            ecru::scope(|s| {
                let span = info_span!("of all").entered();
                for _ in 0..10 {
                    s.spawn(|| {
                        let _own = info_span!("own").entered();
                        settle();
                    });
                }
                s.spawn(|| {
                    ecru::yield_now().unwrap();
                    // The guard is forgotten. The span is closed when its handle is dropped, and
                    // left when the task ends.
                    let span = info_span!("forgotten");
                    mem::forget(span.enter());
                    settle();
                    assert!(
                        Span::current().metadata().is_some_and(|span| span.name() == "forgotten")
                    );
                });
                s.spawn(|| {
                    // The span is closed while it is entered.
                    let span = info_span!("closed");
                    mem::forget(span.enter());
                    drop(span);
                    settle();
                });
                let never = s.spawn(|| unreachable!());
                never.cancel();
                drop(span);
                // Each child is now in the span.
                assert_eq!(count.open.load(SeqCst), 1);
            });
            assert_eq!(count.open.load(SeqCst), 0);
            assert!(Span::current().is_none());
        });
        // Two spans were closed before they were left, so layers did not see that they were left.
        assert_eq!(count.entered.load(SeqCst), 2);
    });
}

#[test]
fn filters_stay_in_step() {
    let (plain, filtered) = (Written::default(), Written::default());
    let only_shown = filter::filter_fn(|meta| !meta.name().starts_with("hidden"));
    let subscriber = tracing_subscriber::registry()
        .with(ecru_tracing::layer())
        .with(plain.layer())
        .with(filtered.layer().with_filter(only_shown))
        // Debug events are enabled only inside `loud`. This filter itself keeps a thread-local of
        // entered spans.
        .with(EnvFilter::new("info,[loud]=debug"));
    tracing::subscriber::with_default(subscriber, || {
        run_on(1, || {
            ecru::scope(|s| {
                for loud in [true, false] {
                    s.spawn(move || {
                        let span = if loud { info_span!("loud") } else { info_span!("hidden") };
                        let _span = span.entered();
                        let _inner = info_span!("inner").entered();
                        settle();
                        tracing::event!(Level::DEBUG, "debug");
                        info!("info");
                        settle();
                    });
                }
            });
        });
    });
    assert_eq!(plain.sorted(), ["hidden:inner: info", "loud:inner: debug", "loud:inner: info"]);
    assert_eq!(filtered.sorted(), ["inner: info", "loud:inner: debug", "loud:inner: info"]);
}

#[test]
fn two_layers_and_two_subscribers() {
    let (one, other) = (Written::default(), Written::default());
    let subscriber = tracing_subscriber::registry()
        .with(ecru_tracing::layer())
        .with(one.layer())
        .with(ecru_tracing::layer());
    let inside = tracing_subscriber::registry().with(other.layer()).with(ecru_tracing::layer());
    let inside = tracing::Dispatch::new(inside);
    tracing::subscriber::with_default(subscriber, || {
        run_on(1, || {
            ecru::scope(|s| {
                for id in 1..=2 {
                    let inside = inside.clone();
                    s.spawn(move || {
                        let _span = info_span!("one", id).entered();
                        // Its spans are entered and left although it is not the default at a
                        // switch.
                        let in_other = tracing::dispatcher::with_default(&inside, || {
                            info_span!("other", id).entered()
                        });
                        settle();
                        info!("o");
                        tracing::dispatcher::with_default(&inside, || info!("p"));
                        drop(in_other);
                        settle();
                        tracing::dispatcher::with_default(&inside, || info!("q"));
                    });
                }
            });
        });
    });
    assert_eq!(one.sorted(), ["one{id=1}: o", "one{id=2}: o"]);
    assert_eq!(other.sorted(), ["other{id=1}: p", "other{id=2}: p", "q", "q"]);
}

#[test]
fn the_hook_is_installed_once() {
    for _ in 0..3 {
        ecru_tracing::install().unwrap();
    }
    drop(ecru_tracing::layer());
}
