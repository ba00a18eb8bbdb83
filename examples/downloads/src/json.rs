//! `--json`: one object per line on standard output.
//!
//! - `{"type": "file", ..}` for each file, when it ends;
//! - `{"type": "bad_line", ..}` for each line of a list that is not a URL;
//! - `{"type": "summary", ..}`, last.

use serde_json::{Value, json};

use crate::fetch::{Into, Job, Outcome, Record};
use crate::output;
use crate::report::{Figures, Tally, peak_memory};
use crate::sources::BadLine;

/// Writes one line.
pub(crate) fn print(value: &Value) {
    output::print(&value.to_string());
}

/// Describes the result of one file.
pub(crate) fn file(job: &Job, record: &Record) -> Value {
    let mut value = json!({
        "type": "file",
        "url": job.uri.to_string(),
        "name": job.name,
        "seconds": record.elapsed.as_secs_f64(),
    });
    if let Into::Folder(folder) = &job.into {
        value["path"] = folder.join(&job.name).to_string_lossy().into();
    }
    value["outcome"] = match &record.outcome {
        Outcome::Done => "done",
        Outcome::There => "already there",
        Outcome::Kept => "kept",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled { .. } => "not finished",
    }
    .into();
    if let Outcome::Failed { failure, attempts, .. } = &record.outcome {
        value["error"] = failure.what.as_str().into();
        value["advice"] = failure.advice.as_ref().into();
        value["attempts"] = (*attempts).into();
    }
    if let Outcome::Failed { kept, .. } | Outcome::Cancelled { kept } = &record.outcome {
        value["resumable_bytes"] = (*kept).into();
    }
    value
}

/// Describes a line of a list that is not a URL.
pub(crate) fn bad_line(line: &BadLine) -> Value {
    json!({"type": "bad_line", "place": line.place, "error": line.why})
}

/// Describes what a worker of a fleet has downloaded.
pub(crate) fn worker((name, (files, received)): (&String, &(u64, u64))) -> Value {
    json!({"worker": name, "files": files, "bytes": received})
}

/// Describes the whole run.
pub(crate) fn summary(tally: &Tally, figures: &Figures, files: usize, interrupted: bool) -> Value {
    json!({
        "type": "summary",
        "files": files,
        "done": tally.done,
        "already_there": tally.there,
        "kept": tally.kept,
        "failed": tally.failed,
        "not_finished": tally.cancelled,
        "bad_lines": tally.bad_lines,
        "bytes": figures.received,
        "seconds": figures.wall.as_secs_f64(),
        "peak_tasks": figures.peak_tasks,
        "peak_memory": peak_memory(),
        "interrupted": interrupted,
    })
}
