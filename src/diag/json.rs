//! A [`TaskTree`] as JSON.
//!
//! The schema is documented at [`TaskTree::to_json`]. Its version changes when a field changes its
//! meaning or goes. New fields do not change it.

use std::fmt::{Display, Write};
use std::panic::Location;

use super::leak::Leak;
use super::left_out::LeftOutPlace;
use super::tree::{BusyTask, TaskInfo, TaskState, TaskTree};
use super::wait::{Holder, Wait};
use crate::task::TaskId;

/// The version of the schema.
const VERSION: u32 = 1;

impl TaskTree {
    /// Returns the tree as a JSON object on one line.
    ///
    /// | field | content |
    /// |---|---|
    /// | `version` | the version of this schema: 1. Programs should accept unknown fields |
    /// | `tasks` | the tasks, each before those below it |
    /// | `busy_workers` | the workers that did not answer: `worker`, `task` (`name`, `spawned_at`, `root`) or null, and `advice` (what its thread did, and what to do instead) |
    /// | `left_out` | the number of tasks that are not listed |
    /// | `left_out_places` | those of them that have begun: `spawned_at`, `waits_at` (a place, or null if they are ready), `count` |
    /// | `cycles` | the tasks that [wait for each other](TaskTree::cycles): for each cycle the list of their ids |
    /// | `leaks` | the tasks that [nothing can wake any more](TaskTree::leaks), in groups: `tasks` (ids), `spawned_at`, `suspected` (true or false), `kept_by` (the ids of the tasks that have handles of the channel), `text` |
    ///
    /// A task has these fields. Each one is null if it is not known or does not apply.
    ///
    /// | field | content |
    /// |---|---|
    /// | `id` | a number that is unique in the process |
    /// | `name` | the name that was given to the task |
    /// | `host` | the simulated host to which it belongs. Only with the feature `sim` |
    /// | `spawned_at` | a place: `FILE:LINE:COLUMN` |
    /// | `root` | true for the root of the run |
    /// | `worker` | the number of the worker |
    /// | `state` | `running`, `ready`, `unstarted`, `waiting` or `unknown` |
    /// | `waits_on` | of a task that waits: the fields of the next table |
    /// | `parent` | the id of the task that opened the task's scope |
    /// | `scope_opened_at` | the place where that scope was opened |
    /// | `children` | the ids of the tasks in the scopes that the task has open |
    /// | `stack` | the calls of a task that waits, innermost first, each as text |
    ///
    /// What a task waits for has these fields, null in the same cases.
    ///
    /// | field | content |
    /// |---|---|
    /// | `what` | a phrase that follows "waits for" |
    /// | `at` | the place of the wait |
    /// | `source` | the type of the source, if the task waits for its item |
    /// | `task` | the id of the task whose end is waited for |
    /// | `fd`, `fd_name`, `peer` | the descriptor, its path or own address, and the address of the other side |
    /// | `object` | the text about the object, with its holders |
    /// | `object_name` | the name that the program has given to the object |
    /// | `holders` | the holders of the object: `task` (an id, or null for a thread), `at` (a place) |
    /// | `senders`, `receivers` | the numbers of the channel's ends |
    /// | `tasks_left` | the number of tasks that are left of the scope that is to end |
    /// | `left_ms` | the milliseconds until the deadline of a sleep |
    /// | `lasted_ms` | the milliseconds that the wait has lasted |
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let json = ecru::RuntimeHandle::current().dump().to_json();
    ///     assert!(json.starts_with(r#"{"version":1,"tasks":[{"id":"#));
    /// });
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = Object::begin(&mut out);
        object.number("version", Some(VERSION));
        object.list("tasks", self.tasks(), task);
        object.list("cycles", self.cycles().iter(), |out, cycle| {
            list(out, cycle.iter(), |out, id| {
                let _ = write!(out, "{}", id.shown());
            });
        });
        object.list("leaks", self.leaks().iter(), leak);
        object.list("left_out_places", self.left_out_places().iter(), left_out_place);
        object.list("busy_workers", self.busy_workers().iter(), |out, &worker| {
            let mut object = Object::begin(out);
            object.number("worker", Some(worker));
            object.object("task", self.busy_task(worker), busy_task);
            let place = self.busy_workers().iter().position(|&busy| busy == worker);
            let advice = place.map(|place| self.advice()[place].to_string());
            object.text("advice", advice.as_deref());
            object.end();
        });
        object.number("left_out", Some(self.left_out()));
        object.end();
        out
    }
}

fn task(out: &mut String, task: &TaskInfo) {
    let mut object = Object::begin(out);
    object.number("id", Some(task.id().shown()));
    object.text("name", task.name());
    #[cfg(feature = "sim")]
    object.text("host", task.host());
    object.place("spawned_at", Some(task.spawned_at()));
    object.number("root", Some(task.is_root()));
    object.number("worker", task.worker());
    object.text("state", Some(state(task.state())));
    object.object("waits_on", task.waits_on(), wait);
    object.number("parent", task.parent().map(TaskId::shown));
    object.place("scope_opened_at", task.scope_opened_at());
    object.list("children", task.children().iter(), |out, id| {
        let _ = write!(out, "{}", id.shown());
    });
    match task.stack_trace() {
        None => object.number("stack", None::<u32>),
        Some(trace) => object.list("stack", trace.frames().iter(), |out, frame| text(out, frame)),
    }
    object.end();
}

fn leak(out: &mut String, leak: &Leak) {
    let mut object = Object::begin(out);
    let ids = |out: &mut String, id: &TaskId| {
        let _ = write!(out, "{}", id.shown());
    };
    object.list("tasks", leak.waits().tasks().iter(), ids);
    object.place("spawned_at", Some(leak.waits().spawned_at()));
    object.number("suspected", Some(leak.is_suspected()));
    object.list("kept_by", leak.kept_by().iter(), ids);
    object.text("text", Some(&leak.to_string()));
    object.end();
}

fn state(state: &TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Ready => "ready",
        TaskState::Unstarted => "unstarted",
        TaskState::Waiting(_) => "waiting",
        TaskState::Unknown => "unknown",
    }
}

fn left_out_place(out: &mut String, place: &LeftOutPlace) {
    let mut object = Object::begin(out);
    object.place("spawned_at", Some(place.spawned_at));
    object.place("waits_at", place.waits_at);
    object.number("count", Some(place.count));
    object.end();
}

fn holder(out: &mut String, holder: &Holder) {
    let mut object = Object::begin(out);
    object.number("task", holder.task().map(TaskId::shown));
    object.place("at", holder.at());
    object.end();
}

fn wait(object: &mut Object<'_>, wait: &Wait) {
    object.text("what", Some(wait.what()));
    object.place("at", wait.at());
    object.text("source", wait.source());
    object.number("task", wait.task().map(TaskId::shown));
    object.number("fd", wait.fd());
    object.text("fd_name", wait.fd_name());
    object.text("peer", wait.peer());
    object.text("object", wait.object());
    object.text("object_name", wait.object_name());
    object.list("holders", wait.holders().iter(), holder);
    object.number("senders", wait.channel_ends().map(|(senders, _)| senders));
    object.number("receivers", wait.channel_ends().map(|(_, receivers)| receivers));
    object.number("tasks_left", wait.tasks_left());
    object.number("left_ms", wait.left().map(|left| left.as_millis()));
    object.number("lasted_ms", wait.lasted().map(|lasted| lasted.as_millis()));
}

fn busy_task(object: &mut Object<'_>, task: &BusyTask) {
    object.text("name", task.name());
    object.place("spawned_at", Some(task.spawned_at()));
    object.number("root", Some(task.is_root()));
}

/// An object that is being written.
struct Object<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> Object<'o> {
    fn begin(out: &'o mut String) -> Object<'o> {
        out.push('{');
        Object { out, is_empty: true }
    }

    fn end(self) {
        self.out.push('}');
    }

    fn field(&mut self, name: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        let _ = write!(self.out, "\"{name}\":");
        self.out
    }

    /// Writes a number, or a value whose text is JSON.
    fn number(&mut self, name: &str, value: Option<impl Display>) {
        let out = self.field(name);
        let _ = match value {
            Some(value) => write!(out, "{value}"),
            None => out.write_str("null"),
        };
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        let out = self.field(name);
        match value {
            Some(value) => text(out, value),
            None => out.push_str("null"),
        }
    }

    fn place(&mut self, name: &str, value: Option<&'static Location<'static>>) {
        self.text(name, value.map(ToString::to_string).as_deref());
    }

    fn object<T>(
        &mut self,
        name: &str,
        value: Option<&T>,
        write: impl FnOnce(&mut Object<'_>, &T),
    ) {
        let out = self.field(name);
        let Some(value) = value else { return out.push_str("null") };
        let mut object = Object::begin(out);
        write(&mut object, value);
        object.end();
    }

    fn list<T>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = T>,
        write: impl FnMut(&mut String, T),
    ) {
        list(self.field(name), values, write);
    }
}

fn list<T>(
    out: &mut String,
    values: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (number, value) in values.enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, value);
    }
    out.push(']');
}

/// Writes a string, as RFC 8259 describes it.
pub(super) fn text(out: &mut String, value: &str) {
    out.push('"');
    for letter in value.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::text;

    #[test]
    fn strings_are_escaped() {
        let mut out = String::new();
        text(&mut out, "a\"b\\c\nd\u{1}é");
        assert_eq!(out, r#""a\"b\\c\nd\u0001é""#);
    }
}
