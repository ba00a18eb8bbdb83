//! A story in the Trace Event Format, which Chrome and Perfetto read.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::story::{About, Cause, Note, Ready, Stop, Story, Stretch, What};
use crate::base::hash::HashMap;
use crate::diag::json::text;
use crate::park::verb;

/// The process that has the workers as its threads, and the one that has the tasks.
const WORKERS: u32 = 1;
const TASKS: u32 = 2;

/// When this many bytes are ready, they are written.
const CHUNK: usize = 64 * 1024;

/// Writes the story.
pub(super) fn write(story: &Story, out: &mut impl Write) -> io::Result<()> {
    let mut trace = Trace { out, text: String::new(), is_first: true, arrows: 0, story };
    trace.text.push_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    trace.name_rows()?;
    let mut stops = HashMap::default();
    for stretch in &story.stretches {
        // Those of one task are in the order of time.
        let before = stops.insert(stretch.task, (stretch.end, &stretch.stop));
        trace.stretch(stretch)?;
        if let Some((end, stop)) = before {
            trace.pause(stretch, end, stop)?;
        } else if let Some(ready) = &stretch.ready {
            trace.ready(stretch, ready, ready.at)?;
        }
        if let Some(ready) = &stretch.ready {
            trace.arrow(stretch, ready)?;
        }
    }
    for (&task, &(end, stop)) in &stops {
        trace.last_wait(task, end, stop)?;
    }
    for note in &story.notes {
        trace.note(note)?;
    }
    trace.text.push_str("\n]}\n");
    trace.out.write_all(trace.text.as_bytes())
}

struct Trace<'s, W> {
    story: &'s Story,
    out: &'s mut W,
    text: String,
    is_first: bool,
    /// The number of arrows so far.
    arrows: u64,
}

/// A row: a process and its thread.
#[derive(Clone, Copy)]
struct Row(u32, u64);

fn worker_row(worker: usize) -> Row {
    Row(WORKERS, worker as u64 + 1)
}

impl<W: Write> Trace<'_, W> {
    /// Writes one event. `rest` writes its further fields, each after a comma.
    fn event(
        &mut self,
        phase: &str,
        Row(process, thread): Row,
        at: u64,
        name: &str,
        rest: impl FnOnce(&mut String),
    ) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push_str(",\n");
        }
        let at = Micros(self.story.since_begin(at));
        let out = &mut self.text;
        let _ = write!(
            out,
            "{{\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{thread},\"ts\":{at},\"name\":"
        );
        text(out, name);
        rest(out);
        out.push('}');
        if self.text.len() >= CHUNK {
            self.out.write_all(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }

    fn slice(
        &mut self,
        row: Row,
        (begin, end): (u64, u64),
        name: &str,
        arguments: &[(&str, String)],
    ) -> io::Result<()> {
        let duration = Micros(end.saturating_sub(begin));
        self.event("X", row, begin, name, |out| {
            let _ = write!(out, ",\"dur\":{duration}");
            write_arguments(out, arguments);
        })
    }

    fn name_rows(&mut self) -> io::Result<()> {
        let begin = self.story.begin;
        let story = self.story;
        for (process, name) in [(WORKERS, "workers"), (TASKS, "tasks")] {
            self.meta("process_name", Row(process, 0), begin, name)?;
        }
        for worker in 0..story.workers {
            self.meta("thread_name", worker_row(worker), begin, &format!("worker {worker}"))?;
        }
        self.meta("thread_name", worker_row(story.workers), begin, "other threads")?;
        for (&number, task) in &story.tasks {
            let title = match &task.host {
                Some(host) => format!("{} on {host}", story.title(number)),
                None => story.title(number),
            };
            self.meta("thread_name", Row(TASKS, number), begin, &title)?;
        }
        Ok(())
    }

    fn meta(&mut self, kind: &str, row: Row, begin: u64, name: &str) -> io::Result<()> {
        let arguments = [("name", name.to_string())];
        self.event("M", row, begin, kind, |out| write_arguments(out, &arguments))
    }

    fn stretch(&mut self, stretch: &Stretch) -> io::Result<()> {
        let story = self.story;
        let mut arguments = vec![("then", then(story, &stretch.stop))];
        if let Some(place) = story.tasks.get(&stretch.task).and_then(|task| task.spawned_at) {
            arguments.push(("spawned at", place.to_string()));
        }
        let span = (stretch.begin, stretch.end);
        self.slice(worker_row(stretch.worker), span, &story.title(stretch.task), &arguments)?;
        let name = format!("runs on worker {}", stretch.worker);
        self.slice(Row(TASKS, stretch.task), span, &name, &arguments)
    }

    /// Writes what the task of a stretch did before it: since its last stop.
    fn pause(&mut self, stretch: &Stretch, stopped: u64, stop: &Stop) -> io::Result<()> {
        let ready = stretch.ready.as_ref();
        let since = ready.map_or(stretch.begin, |ready| ready.at.max(stopped));
        if let Stop::Waits { .. } = stop {
            let mut arguments = Vec::new();
            if let Some(ready) = ready {
                arguments.push(("ended by", cause(self.story, ready.cause)));
            }
            self.wait(stretch.task, (stopped, since), stop, arguments)?;
        }
        match ready {
            Some(ready) => self.ready(stretch, ready, since),
            None => Ok(()),
        }
    }

    fn last_wait(&mut self, task: u64, stopped: u64, stop: &Stop) -> io::Result<()> {
        match stop {
            Stop::Waits { .. } => self.wait(task, (stopped, self.story.end), stop, Vec::new()),
            _ => Ok(()),
        }
    }

    fn wait(
        &mut self,
        task: u64,
        span: (u64, u64),
        stop: &Stop,
        mut arguments: Vec<(&str, String)>,
    ) -> io::Result<()> {
        if let Stop::Waits { at: Some(place), .. } = stop {
            arguments.push(("at", place.to_string()));
        }
        let name = then(self.story, stop);
        self.slice(Row(TASKS, task), span, &name, &arguments)
    }

    /// Writes the time in which the task was ready and did not run.
    fn ready(&mut self, stretch: &Stretch, ready: &Ready, since: u64) -> io::Result<()> {
        let arguments = [("made ready by", cause(self.story, ready.cause))];
        self.slice(Row(TASKS, stretch.task), (since, stretch.begin), "ready", &arguments)
    }

    /// Writes an arrow from the task that has made another ready, to the stretch of that one.
    fn arrow(&mut self, stretch: &Stretch, ready: &Ready) -> io::Result<()> {
        let (Cause::Spawn { by, .. } | Cause::Wake { by, .. }) = ready.cause else { return Ok(()) };
        let name = if matches!(ready.cause, Cause::Spawn { .. }) { "spawns" } else { "wakes" };
        self.arrows += 1;
        let arrow = self.arrows;
        self.event("s", Row(TASKS, by), ready.at, name, |out| {
            let _ = write!(out, ",\"cat\":\"cause\",\"id\":{arrow}");
        })?;
        self.event("f", Row(TASKS, stretch.task), stretch.begin, name, |out| {
            let _ = write!(out, ",\"cat\":\"cause\",\"id\":{arrow},\"bp\":\"e\"");
        })
    }

    fn note(&mut self, note: &Note) -> io::Result<()> {
        let row = match note.task {
            0 => worker_row(note.worker),
            task => Row(TASKS, task),
        };
        let name = note_text(self.story, &note.what);
        self.event("i", row, note.at, &name, |out| out.push_str(",\"s\":\"t\""))
    }
}

fn write_arguments(out: &mut String, arguments: &[(&str, String)]) {
    out.push_str(",\"args\":{");
    for (number, (name, value)) in arguments.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        text(out, name);
        out.push(':');
        text(out, value);
    }
    out.push('}');
}

/// Returns the name of an operation without the "to" that follows "waits".
fn act(what: &str) -> &str {
    what.strip_prefix("to ").unwrap_or(what)
}

/// Returns what a task does after a stretch.
pub(super) fn then(story: &Story, stop: &Stop) -> String {
    match stop {
        Stop::Waits { what: "", .. } => String::from("waits"),
        Stop::Waits { what, about, .. } => {
            let waits = verb(what);
            match about {
                About::Nothing => format!("{waits} {what}"),
                About::Object(number) => format!("{waits} {what} (object {number})"),
                About::Fd(fd) => format!("{waits} {what} fd {fd}"),
                About::Task(task) => format!("{waits} {what} {}", story.title(*task)),
            }
        }
        Stop::Yields => String::from("yields"),
        Stop::Lends => String::from("runs a child in its place"),
        Stop::Ends => String::from("ends"),
        Stop::Runs => String::from("still runs"),
    }
}

/// Returns what has made a task ready.
fn cause(story: &Story, cause: Cause) -> String {
    match cause {
        Cause::Spawn { by, .. } => format!("its spawn in {}", story.title(by)),
        Cause::Wake { by, .. } => story.title(by),
        Cause::Worker => String::from("its worker: a timer, an operation or a cancellation"),
        Cause::Outside => String::from("a thread outside the workers"),
        Cause::Own => String::from("itself: it has yielded"),
    }
}

pub(super) fn note_text(story: &Story, what: &What) -> String {
    match what {
        What::Mark(text) => text.clone(),
        What::Io { what, fd, result: i32::MIN } => format!("{} fd {fd}: failed", act(what)),
        What::Io { what, fd, result } if *result < 0 => {
            format!("{} fd {fd}: error {}", act(what), result.unsigned_abs())
        }
        What::Io { what, fd, result } => format!("{} fd {fd}: {result}", act(what)),
        What::Cancel { target: 0, reason } => format!("cancels: {reason}"),
        What::Cancel { target, reason } => format!("cancels {}: {reason}", story.title(*target)),
        What::Steal { victim, count } => format!("steals {count} tasks of worker {victim}"),
    }
}

/// Nanoseconds, shown as microseconds.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
